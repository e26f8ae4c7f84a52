"""What goes wrong around a deletion, as one list; a suite runs it on every driver through a Director's tasks."""

from tests.cleanup.accidents import answers, callers, copies, directors, users
from tests.cleanup.accidents.listing import listed

__all__ = ["answers", "callers", "copies", "directors", "users"]
ACCIDENTS = listed()
