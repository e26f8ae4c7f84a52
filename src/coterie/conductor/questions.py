"""Answers the Director's questions about clouds; each answer is stored as a dated fact. Changes no cloud.

A conductor answers the questions of its share, one at a time for each cloud.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from typing import Any

from coterie.conductor.membership import RingView
from coterie.conductor.signatures import NotSigned, Signatures
from coterie.cpi.contract import CheckItem, CloudObject, Cpi, CpiError, Kind, Mark, Needs, Unavailable
from coterie.engine.clouds import Clouds
from coterie.engine.secrets import SecretReader
from coterie.errors import CoterieError, LeaseLost, NotFound, UsageError
from coterie.ledger.errors import is_outage, reason
from coterie.ledger.rows import clouds, events, facts, pins
from coterie.ledger.rows.clouds import CloudRow
from coterie.ledger.rows.events import Event
from coterie.ledger.store import Ledger, time

log = logging.getLogger(__name__)

_RETRY_S = 1.0  # after the database did not answer
_AT_ONCE = 8  # clouds that are queried at the same time


class Questions:
    def __init__(
        self,
        ledger: Ledger,
        owner: str,
        ring_view: RingView,
        clouds: Clouds,
        secrets: SecretReader,
        signatures: Signatures,
        *,
        lease_s: float,
        patience_s: float,
        stopping: threading.Event,
    ) -> None:
        self._ledger = ledger
        self._owner = owner
        self._ring_view = ring_view
        self._clouds = clouds
        self._secrets = secrets
        self._signatures = signatures
        self._lease_s = lease_s
        self._stopping = stopping
        self._patience_s = patience_s
        self._asking: dict[str, float] = {}  # one question at a time for each cloud, and since when

    def answer_questions(self) -> None:
        """Each in a thread of its own, so that a cloud that hangs does not delay the others."""
        while not self._stopping.is_set():
            seen = self._ledger.asked.version
            try:
                begun = self._begin_next()
            except Exception as error:
                words = "could not answer questions about clouds: %s; trying again"
                log.error(words, reason(error), exc_info=not is_outage(error))
                self._ledger.asked.wait(seen, _RETRY_S)
                continue
            if not begun:
                self._ledger.asked.wait(seen, self._ledger.poll_s)

    def _begin_next(self) -> bool:
        busy = self._busy()
        if len(busy) >= _AT_ONCE:
            return False
        with self._ledger.read() as tx:
            share = self._ring_view.current(tx).share
            if not facts.open_questions(tx, share):
                return False
        with self._ledger.write_silently() as tx:
            wanted = facts.claim(tx, self._owner, self._lease_s, share, besides=busy)
            asked_at = time(tx)
        if wanted is None:
            return False
        self._asking[wanted.cloud] = begun = monotonic()
        threading.Thread(target=self._ask, args=(wanted, asked_at, begun), name="question", daemon=True).start()
        return True

    def _busy(self) -> list[str]:
        """Clouds with a question under way; one that hangs for too long no longer counts and gets another thread."""
        late = monotonic() - self._patience_s
        return [cloud for cloud, since in list(self._asking.items()) if since > late]

    def _ask(self, wanted: facts.Wanted, asked_at: float, begun: float) -> None:
        try:
            with self._ledger.read() as tx:
                present, pinned = clouds.all_clouds(tx), pins.all_pins(tx)
            self._clouds.refresh(present, pinned)
            self._answer_one(wanted, asked_at)
        except Exception:
            log.exception("could not answer a question about cloud %s; trying again", wanted.cloud)
        finally:
            if self._asking.get(wanted.cloud) == begun:
                del self._asking[wanted.cloud]
            self._ledger.asked.notify()  # another question about this cloud may be waiting

    def _answer_one(self, question: facts.Wanted, asked_at: float) -> None:
        refusals: list[Event] = []
        try:
            data, error = self._answer_question(question)
        except LeaseLost:
            self._give_back(question)
            return
        except CoterieError as problem:
            data, error = None, problem.facts()
            if isinstance(problem, NotSigned):
                log.error("%s", problem)
                refusals = [Event(None, "question.refused", question.cloud, str(problem), error)]
        with self._ledger.write_answer() as tx:
            facts.answer(tx, self._owner, question, asked_at, data, error)
            events.append(tx, refusals, time(tx))

    def _give_back(self, question: facts.Wanted) -> None:
        """Our lease has ended, which says nothing about the cloud: a conductor with a lease has to answer."""
        self._stopping.wait(_RETRY_S)
        with self._ledger.write() as tx:
            facts.give_back(tx, self._owner, question)

    def _answer_question(self, question: facts.Wanted) -> tuple[Any, dict[str, Any] | None]:
        self._signatures.require_question(question)
        kind = question.what.partition(":")[0]
        if kind == "reseal":
            cloud = self._read_cloud(question.cloud)
            group = (question.question or {}).get("group", cloud.conductor_group)
            return self._clouds.reseal(cloud, group), None
        if kind == "reseal_secrets":
            return self._secrets.reseal(question.question["names"], question.question["group"]), None
        data, error = answer(self._cloud_of(question), question.what, question.question)
        if data and "identity" in data and "items" in data:
            data["items"].append(self._check_identity(question.cloud, data["identity"]).wire())
        return data, error

    def _check_identity(self, cloud: str, identity: str | None) -> CheckItem:
        with self._ledger.read() as tx:
            moved = pins.conflict(tx, cloud, identity)
        if moved is not None:
            return CheckItem("identity", False, str(moved), moved.remedy)
        return CheckItem("identity", True, identity or "this cloud does not tell which account it is")

    def _read_cloud(self, name: str) -> CloudRow:
        with self._ledger.read() as tx:
            row = clouds.get(tx, name)
        if row is None:
            raise NotFound(f"cloud {name!r} is no longer configured", remedy="put it back: coterie clouds set FILE")
        return row

    def _cloud_of(self, question: facts.Wanted) -> Cpi:
        if question.properties is None:
            return self._clouds.get(question.cloud)
        return self._clouds.open_unconfigured(question.cloud, question.driver, question.properties)


def answer(cpi: Cpi, what: str, question: Any) -> tuple[Any, dict[str, Any] | None]:
    """(data, error): exactly one of them is set. Raises LeaseLost when this conductor may no longer answer."""
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
    capabilities, properties = cpi.capabilities(), question.get("az_properties", {})

    def zones(azs: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted({capabilities.zone_of(az, properties.get(az, {})) for az in azs}))

    needs = Needs(
        kinds=tuple(question.get("kinds", ())),
        policies=tuple(question.get("policies", ())),
        azs=zones(question.get("azs", ())),
        counts=question.get("counts", {}),
        groups=tuple({**group, "azs": zones(group.get("azs", ()))} for group in question.get("groups", ())),
    )
    items = [item.wire() for item in cpi.check(needs)]
    return {**capabilities.publish(), "items": items, **_identity_if_known(cpi)}


def _identity_if_known(cpi: Cpi) -> dict[str, Any]:
    """Nothing where the cloud does not answer; the other items say why."""
    try:
        return {"identity": cpi.identity()}
    except CpiError:
        return {}


def _groups(cpi: Cpi, question: dict[str, Any]) -> dict[str, Any]:
    if "inspect_server_group" in cpi.capabilities().unsupported:
        return {}
    return {cid: cpi.inspect_server_group(cid).wire() for cid in question.get("cids", ())}


def _vms(cpi: Cpi, question: dict[str, Any]) -> dict[str, Any]:
    """The VMs of a Director with the host of each, as far as the cloud shows it: {cid: {"host", "state"}}."""
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
    """A VM that shall be enrolled: whether it exists, and which Director's mark it carries, if the cloud shows it."""
    cid = question["cid"]
    there = cpi.has_vm(cid)
    able = "vm_owner" not in cpi.capabilities().unsupported
    return {"there": there, "owner": cpi.vm_owner(cid) if there and able else None}


def _find_marked(cpi: Cpi, question: dict[str, Any]) -> dict[str, Any]:
    """The object that carries a mark of ours; `able` is False where the driver cannot search by mark."""
    if "find" in cpi.capabilities().unsupported:
        return {"able": False, "cid": None}
    found = cpi.find(question["kind"], Mark(question["director"], question["intent"]))
    return {"able": True, "cid": found.cid if found else None}


_INVENTORY: tuple[Kind, ...] = ("vm", "disk", "image", "server_group", "port", "ip", "security_group", "keypair")


def _list_inventory(cpi: Cpi, question: dict[str, Any]) -> dict[str, Any]:
    """Everything that carries the mark of this Director, by kind, and how its server groups are."""
    found: dict[str, Any] = {}
    for kind in _INVENTORY:
        found[kind] = [thing.wire() for thing in _list_marked(cpi, kind, question["director"])]
    groups = [group["cid"] for group in found["server_group"]]
    return {**found, "views": {cid: cpi.inspect_server_group(cid).wire() for cid in groups}}


def _list_marked(cpi: Cpi, kind: Kind, director: str) -> Iterator[CloudObject]:
    if kind not in cpi.capabilities().kinds or "survey" in cpi.capabilities().unsupported:
        return
    cursor: str | None = None
    while True:
        page = cpi.survey(kind, director, cursor)
        if not page.complete:
            raise Unavailable(f"the list of {kind} is not complete", remedy="repeat; see `coterie clouds check`")
        yield from (thing for thing in page.objects if thing.mark and thing.mark.director == director)
        cursor = page.next
        if cursor is None:
            return


_ANSWERS: dict[str, Callable[[Cpi, dict[str, Any]], Any]] = {
    "capabilities": lambda cpi, question: cpi.capabilities().wire(),
    "check": _check,
    "identity": lambda cpi, question: {"identity": cpi.identity()},
    "groups": _groups,
    "vms": _vms,
    "machine": _machine,
    "marked": _find_marked,
    "inventory": _list_inventory,
}
