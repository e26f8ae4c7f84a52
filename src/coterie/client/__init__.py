"""A client of a Director for programs, which the command line uses too. See docs/client.md."""

from coterie.client.client import Client as Client
from coterie.client.client import TaskFailed as TaskFailed
from coterie.client.pages import Pages as Pages
from coterie.client.problems import ApiProblem as ApiProblem
from coterie.client.stream import TimedOut as TimedOut
