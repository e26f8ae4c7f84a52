"""Answers in the vendor's envelopes: an object, a list, a success, a job. Values were made by the commands."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from coterie.sandbox.fronts.cloudstack.call import Call
from coterie.sandbox.fronts.cloudstack.jobs import Job
from coterie.sandbox.fronts.cloudstack.parameters import MOST_PER_PAGE
from coterie.sandbox.fronts.cloudstack.shape import shape_response


def answer(call: Call, value: Any) -> dict[str, Any]:
    """What a synchronous command answers."""
    return {call.command.envelope: _inside(call, value)}


def job_answer(call: Call, job: Job) -> dict[str, Any]:
    """What an asynchronous command answers at once."""
    made = {"id": job.subject} if call.command.creates else {}
    return {call.command.envelope: {**made, "jobid": job.id}}


def job_result(call: Call, value: Any) -> dict[str, Any]:
    """What the job of an asynchronous command ends in."""
    return _inside(call, value)


def _inside(call: Call, value: Any) -> dict[str, Any]:
    command, admin = call.command, call.caller.admin
    if command.result == "success":
        return {"success": True} if command.asynchronous else {"success": "true"}
    if command.result == "list":
        rows, total = _page(call, value)
        return {"count": total, str(command.object_name): [_row(call, row) for row in rows]} if rows else {}
    if command.result == "job":
        return shape_response(command.response, value, admin)
    return {str(command.object_name): _row(call, value)}


def _row(call: Call, value: dict[str, Any]) -> dict[str, Any]:
    return shape_response(call.command.response, value, call.caller.admin)


def _page(call: Call, rows: Iterable[Any]) -> tuple[list[Any], int]:
    """A page of the list and the whole list's length; a list without paging silently ends at 500."""
    found = list(rows)
    if "page" not in call.params:
        return list(islice(found, MOST_PER_PAGE)), len(found)
    size = call.params["pagesize"]
    begin = (call.params["page"] - 1) * size
    return found[begin : begin + size], len(found)
