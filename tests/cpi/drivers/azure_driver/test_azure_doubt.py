"""What Azure took is never called refused, and what it made by halves is removed or told of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from peers.azure_bed import AzureBed

from coterie.cpi.conformance.expect import expect_error
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import CpiError, OutcomeUnknown
from coterie.cpi.drivers.azure.client import Client, Refusal
from coterie.sandbox.fronts.azure.call import Call, Reply
from coterie.sandbox.fronts.azure.front import Trick


def at(bed: AzureBed, method: str, ending: str, act: Callable[[], object]) -> None:
    """Do something right before the first such request is taken."""

    def watch(given: str, path: str) -> None:
        if given == method and ending in path:
            bed.peer.front.watch = lambda method, path: None
            act()

    bed.peer.front.watch = watch


def fail_in_the_end(bed: AzureBed, type_: str) -> None:
    """Azure takes each PUT of this type; what it makes is in state Failed, and stays."""
    front, key = bed.peer.front, f"PUT {type_}"
    put = front.handlers[key]

    def failing(call: Call) -> Reply:
        reply = put(call)
        made = front.shelf.get(call.path)
        assert made
        made.state = "Failed"
        front.shelf.put(made)
        return Reply(reply.status, {**reply.body, "properties": {"provisioningState": "Failed"}})

    front.handlers[key] = failing


@pytest.mark.parametrize("type_", ["disks", "networkInterfaces"])
def test_a_throttled_question_after_a_change_is_no_refusal(bed: AzureBed, lab: Lab, type_: str) -> None:
    lab.image()
    bed.more["retries"] = 0
    mark = lab.mark()
    at(bed, "PUT", f"/{type_}/", lambda: bed.peer.front.tricks.append(Trick("throttle", "GET", type_)))
    arguments = lab.vm_arguments(mark=mark)

    def create() -> str:
        cpi = bed.open()
        return cpi.create_disk(1024, {}, mark=mark) if type_ == "disks" else cpi.create_vm(**arguments).cid

    expect_error(OutcomeUnknown, create)
    found = create()
    lab.undo(lab.cpi.delete_disk if type_ == "disks" else lab.cpi.delete_vm, found)


def test_a_refused_look_at_the_operation_is_no_refusal_of_the_change(
    bed: AzureBed, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    send, mark = Client._send, lab.mark()

    def refuse(self: Client, what: str, method: str, url: str, *rest: Any, **keywords: Any) -> Any:
        if "DiskOperations" in url:
            raise Refusal(what, "AuthorizationFailed", "a role was taken away", 403)
        return send(self, what, method, url, *rest, **keywords)

    monkeypatch.setattr(Client, "_send", refuse)
    expect_error(OutcomeUnknown, lambda: bed.open().create_disk(1024, {}, mark=mark))
    monkeypatch.undo()
    lab.undo(lab.cpi.delete_disk, bed.open().create_disk(1024, {}, mark=mark))


@pytest.mark.parametrize("type_", ["disks", "networkInterfaces"])
def test_what_failed_in_the_end_is_removed(bed: AzureBed, lab: Lab, type_: str) -> None:
    lab.image()
    before = bed.inventory()
    fail_in_the_end(bed, type_)
    arguments = lab.vm_arguments()
    calls = {
        "disks": lambda: bed.open().create_disk(1024, {}, mark=lab.mark()),
        "networkInterfaces": lambda: bed.open().create_vm(**arguments).cid,
    }
    error = expect_error(CpiError, calls[type_])
    assert not isinstance(error, OutcomeUnknown)
    assert bed.inventory() == before
