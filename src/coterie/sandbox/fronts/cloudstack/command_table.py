"""The commands this front answers, by name: at once, or by a job that begins in the request and is finished later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from coterie.sandbox.fronts.cloudstack.call import Call
from coterie.sandbox.fronts.cloudstack.definition import commands

Answer = Callable[[Call], Any]
Finish = Callable[[Call, str], Any]
Broken = Callable[[Call, str], None]


@dataclass(frozen=True, slots=True)
class Handler:
    """`answer` for a synchronous command; `begin` and `finish` for a job: `begin` returns the job's subject.

    `broken` is called, in a transaction of its own, when `finish` was refused.
    """

    answer: Answer | None = None
    begin: Answer | None = None
    finish: Finish | None = None
    broken: Broken | None = None
    writes: bool = True


HANDLERS: dict[str, Handler] = {}


def answers(name: str, *, writes: bool = False) -> Callable[[Answer], Answer]:
    """This function is the whole command."""
    _require(name, asynchronous=False)

    def publish(work: Answer) -> Answer:
        HANDLERS[name.lower()] = Handler(answer=work, writes=writes)
        return work

    return publish


def job(name: str, *, begin: Answer | None = None, broken: Broken | None = None) -> Callable[[Finish], Finish]:
    """This function finishes the command's job; `begin` is done, and may be refused, in the request."""
    _require(name, asynchronous=True)

    def publish(work: Finish) -> Finish:
        HANDLERS[name.lower()] = Handler(begin=begin or _subject, finish=work, broken=broken)
        return work

    return publish


def _subject(call: Call) -> str:
    return str(call.get("id") or call.get("virtualmachineid") or call.get("volumeid") or "")


def _require(name: str, *, asynchronous: bool) -> None:
    if commands()[name.lower()].asynchronous != asynchronous:
        raise ValueError(f"the API definition disagrees: {name}")
