"""Answers the Director's questions about a cloud; each answer is stored as a dated fact. Changes no cloud."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie.cpi.contract import Cpi, Mark, Needs
from coterie.errors import CoterieError, LeaseLost, UsageError


def answer(cpi: Cpi, what: str, question: Any) -> tuple[Any, dict[str, Any] | None]:
    """(data, error): exactly one of them is set. Raises LeaseLost where it is not ours to answer any more."""
    kind = what.partition(":")[0]
    try:
        if kind not in _ANSWERS:
            raise UsageError(f"no conductor of this release can answer {kind!r}", remedy="upgrade the conductors")
        return _ANSWERS[kind](cpi, question or {}), None
    except LeaseLost:
        raise
    except CoterieError as error:
        return None, error.facts()


def _check(cpi: Cpi, question: dict[str, Any]) -> dict[str, Any]:
    needs = Needs(
        kinds=tuple(question.get("kinds", ())),
        policies=tuple(question.get("policies", ())),
        azs=tuple(question.get("azs", ())),
        counts=question.get("counts", {}),
        groups=tuple(question.get("groups", ())),
    )
    return {
        "capabilities": cpi.capabilities().wire(),
        "items": [item.wire() for item in cpi.check(needs)],
    }


def _groups(cpi: Cpi, question: dict[str, Any]) -> dict[str, Any]:
    if "inspect_server_group" in cpi.capabilities().unsupported:
        return {}
    return {cid: cpi.inspect_server_group(cid).wire() for cid in question.get("cids", ())}


def _vms(cpi: Cpi, question: dict[str, Any]) -> dict[str, Any]:
    """Where the VMs of a Director are, as far as the cloud tells: {cid: {"host", "state"}}."""
    if "survey" in cpi.capabilities().unsupported:
        return {}
    found: dict[str, Any] = {}
    cursor: str | None = None
    while True:
        page = cpi.survey("vm", question["director"], cursor)
        found.update((vm.cid, {"host": vm.host, "state": vm.state}) for vm in page.objects)
        cursor = page.next
        if cursor is None:
            return found


def _machine(cpi: Cpi, question: dict[str, Any]) -> dict[str, Any]:
    """One VM that somebody wants to enroll: whether it is there, and whose mark it carries, if the cloud can tell."""
    cid = question["cid"]
    there = cpi.has_vm(cid)
    able = "vm_owner" not in cpi.capabilities().unsupported
    return {"there": there, "owner": cpi.vm_owner(cid) if there and able else None}


def _marked(cpi: Cpi, question: dict[str, Any]) -> dict[str, Any]:
    """What carries a mark of ours; `able` is False where the cloud cannot be asked for it."""
    if "find" in cpi.capabilities().unsupported:
        return {"able": False, "cid": None}
    found = cpi.find(question["kind"], Mark(question["director"], question["intent"]))
    return {"able": True, "cid": found.cid if found else None}


_ANSWERS: dict[str, Callable[[Cpi, dict[str, Any]], Any]] = {
    "check": _check,
    "groups": _groups,
    "vms": _vms,
    "machine": _machine,
    "marked": _marked,
}
