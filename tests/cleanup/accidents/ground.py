"""One driver's cloud with a Director in front of it, a deployment that goes on living, and people who use the cloud.

After every sweep and delete, nothing that people have may be lost; at the end of every accident, nothing of ours may be
left that is not needed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from unittest import mock

import sqlalchemy as sa

from coterie.cleanup.plan import CleanupPlan
from coterie.conductor.process import Conductor
from coterie.cpi.conformance.hands import Faults, Operator
from coterie.cpi.contract import KINDS, GroupResource, Kind, Mark, SurveyPage
from coterie.errors import NotFound
from coterie.flows.look import Look
from coterie.ids import Ids
from coterie.ledger.rows import identity
from coterie.ledger.store import Ledger
from coterie.requests import looks
from coterie.requests.operations import abandon
from tests.cleanup.accidents.listing import lacks_of
from tests.cleanup.yard import Yard
from tests.requests.site import Site, group, manifest

OTHER_DIRECTOR = "0b1f2c3d-0000-4000-8000-000000000000"
ALIVE = "alive"
Inventory = frozenset[tuple[str, str]]
Bend = Callable[[Any, str, str, str | None, Callable[..., SurveyPage]], SurveyPage]
_CLEANUPS = 4


class Bed(Protocol):
    """What a driver's cloud adds: its people, and the marks that they can write as its driver does."""

    driver: str
    adoptable: str  # the policy of a server group that a person created for strict ones
    operator: Operator
    faults: Faults

    def open_site(self, folder: Path) -> Site: ...

    def inventory(self) -> Inventory: ...

    def config(self, **more: Any) -> str:
        """The cloud config; `more`: properties of the cloud."""

    def config_elsewhere(self) -> str:
        """The same with the name of our cloud leading to another account."""

    def forge(self, kind: Kind, mark: Mark) -> str:
        """An object of this kind that a person created, with this mark written on it as the driver writes it."""

    def give_away(self, vm_cid: str) -> None:
        """Writes the mark of another Director on a VM of ours."""

    def use_security_group(self, cid: str) -> str:
        """A VM of a person that uses a security group of ours."""

    def unshare(self, image_cid: str) -> None:
        """Takes `operator.share` back."""

    def close(self) -> None: ...


class Bends:
    """Methods of a driver's class that a test may change for a while. They are replaced before a conductor opens the
    driver, since it looks each method up once."""

    def __init__(self, driver: type) -> None:
        self._now: dict[str, Callable[..., Any]] = {}
        self._patches = [
            mock.patch.object(driver, name, self._wrap(name, getattr(driver, name)))
            for name in ("survey", "create_vm", "create_disk", "delete_object")
        ]
        for one in self._patches:
            one.start()

    @contextmanager
    def bent(self, method: str, how: Callable[..., Any]) -> Iterator[None]:
        """how(call, cpi, …) instead of call(cpi, …)."""
        self._now[method] = how
        try:
            yield
        finally:
            del self._now[method]

    def close(self) -> None:
        for one in self._patches:
            one.stop()

    def _wrap(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **more: Any) -> Any:
            how = self._now.get(name)
            return how(call, *args, **more) if how else call(*args, **more)

        return wrapped


@dataclass
class Ground:
    bed: Bed
    site: Site
    undo: ExitStack = field(default_factory=ExitStack)  # what people take back at the end of an accident

    def __post_init__(self) -> None:
        self.site.poll_s = 0.05  # the machine is busy with the conductor's threads
        self.yard = Yard(self.site)
        self.ledger = self.site.ledger
        self.operator, self.faults = self.bed.operator, self.bed.faults
        self.director = self.site.director.uuid
        self.ours: dict[str, list[str]] = {}
        self._mine: Inventory = frozenset()
        self.bends = Bends(type(self.site.cpi()))
        lacks = lacks_of(self.bed.driver)
        self.kinds = tuple(kind for kind in self.site.cpi().capabilities().kinds if kind not in lacks)
        self.living = manifest(group("base", 1, self._placement(), azs="z1")).replace("name: dep", f"name: {ALIVE}", 1)
        self.site.deploy(self.living)
        # people have some of each kind, where they take no address that a deployment gets
        self._theirs = [(kind, self.operator.create(kind, "z2")) for kind in KINDS]
        self.start = self.inventory()

    # -- deployments --

    def text(self, count: int = 1, stemcell: str = "one", more: str = "") -> str:
        """Nodes with a disk, in a server group and a security group where the cloud has these."""
        guard = ", security_groups: [guard]" if "security_group" in self.kinds else ""
        return manifest(group("web", count, f"persistent_disk: 1024, {self._placement()}{guard}{more}", "z1", stemcell))

    def deploy(self, text: str | None = None) -> None:
        before = self.inventory()
        self.site.deploy(text or self.text())
        self._mine |= self.inventory() - before
        self.ours = self.held()

    def leave(self, text: str | None = None) -> None:
        """A deployment that is given up: all that it created is an orphan."""
        self.deploy(text)
        abandon(self.ledger, "dep")

    def delete(self, **options: Any) -> int:
        with self.protected():
            return self.site.delete(**options)

    # -- cleanups --

    def survey(self, **options: Any) -> CleanupPlan:
        plan = self.yard.survey(**options)
        assert plan.stopped == (), plan.stopped
        return plan

    def apply(self, plan: CleanupPlan, expect_state: str = "done") -> None:
        with self.protected():
            self.yard.apply(plan, expect_state)

    def clean(self, **options: Any) -> CleanupPlan:
        plan = self.survey(**options)
        self.apply(plan)
        return plan

    def adopt_all(self) -> None:
        """What a task created meanwhile is ours, too."""
        self._mine |= self.inventory() - self.start
        self.ours = self.held()

    def reason(self, plan: CleanupPlan, cid: str) -> str | None:
        """Why the plan leaves this object alone; None: it does not even list it."""
        return next((row.reason for row in plan.rest if row.cid == cid), None)

    @contextmanager
    def protected(self) -> Iterator[None]:
        """Whatever is not ours outlives the work."""
        theirs = self.inventory() - self._mine
        yield
        assert theirs - self.inventory() == set()

    # -- what is there --

    def inventory(self) -> Inventory:
        return self.bed.inventory()

    def held(self) -> dict[str, list[str]]:
        """CIDs of what has our mark and is not of the deployment that lives, by kind."""
        living = self._living()
        found = {kind: [one for one in self.site.held(kind) if one.mark.intent not in living] for kind in self.kinds}
        return {kind: sorted(one.cid for one in some) for kind, some in found.items() if some}

    def left(self) -> dict[str, list[str]]:
        """Of what our deployment created: what is still there. Forged marks do not count."""
        found = {kind: [cid for cid in cids if cid in self.ours.get(kind, ())] for kind, cids in self.held().items()}
        return {kind: cids for kind, cids in found.items() if cids}

    def cid(self, kind: Kind) -> str:
        (found,) = self.ours[kind]
        return found

    def mark(self, kind: Kind) -> Mark:
        """Of our only object of this kind."""
        (found,) = [one.mark for one in self.site.held(kind) if one.cid == self.cid(kind)]
        return Mark(found.director, found.intent)

    def resource(self) -> GroupResource:
        """The cloud's own object behind our server group."""
        view = self.site.cpi().inspect_server_group(self.cid("server_group"))
        return next(one for one in view.resources if one.kind == "server_group")

    def nodes_up(self) -> bool:
        return {node.state for node in self.site.nodes().values()} == {"up"}

    def look(self, how: Look | None = None) -> int:
        task = looks.look(self.ledger, how)
        assert task is not None
        self.site.wait(task)
        return task

    # -- people --

    def own(self, kind: Kind, cid: str) -> str:
        """It is a person's, who deletes it at the end of the accident."""
        self.undo.callback(self.operator.delete, kind, cid)
        return cid

    def forge(self, kind: Kind, mark: Mark) -> str:
        return self.own(kind, self.bed.forge(kind, mark))

    def stranger(self, name: str = "neighbour") -> str:
        return self.own("vm", self.operator.create_vm(name, "z1"))

    # -- what goes wrong below the Director --

    @contextmanager
    def bent_survey(self, how: Bend) -> Iterator[None]:
        """The driver answers `survey` otherwise: how(cpi, kind, director, cursor, survey)."""

        def survey(call: Any, cpi: Any, kind: Any, director: str, cursor: str | None = None) -> SurveyPage:
            return how(cpi, kind, director, cursor, lambda *args: call(cpi, *args))

        with self.bends.bent("survey", survey):
            yield

    @contextmanager
    def held_call(self, method: str) -> Iterator[Callable[[], None]]:
        """Calls of a driver's method wait; the value waits until there is one. They go on at the end of the block."""
        begun, may_go = threading.Event(), threading.Event()

        def wait(call: Any, *args: Any, **more: Any) -> Any:
            begun.set()
            assert may_go.wait(60)
            return call(*args, **more)

        def wait_for_one() -> None:
            assert begun.wait(60)

        with self.bends.bent(method, wait):
            try:
                yield wait_for_one
            finally:
                may_go.set()

    @contextmanager
    def director_on(self, ledger: Ledger) -> Iterator[Ground]:
        """Another Director, with a ledger of its own, in front of the same cloud."""
        other = object.__new__(type(self.site))
        other.__dict__.update(self.site.__dict__)
        other.ledger = ledger
        other.director = _director(ledger)
        other.conductor = other.new_conductor("other")
        other.conductor.start()
        ground = object.__new__(Ground)
        ground.__dict__.update(self.__dict__)
        ground.site, ground.ledger, ground.yard = other, ledger, Yard(other)
        try:
            yield ground
        finally:
            other.conductor.drain(10.0)
            ledger.close()

    def replace_conductor(self, name: str) -> Conductor:
        self.site.conductor.drain(10.0)
        self.site.conductor = self.site.new_conductor(name)
        self.site.conductor.start()
        return self.site.conductor

    # -- the end of an accident --

    def settle(self) -> None:
        """People take back what they did; then all goes that nothing needs, and the rest is as before."""
        self.faults.clear()
        self.undo.close()
        self.undo = ExitStack()
        with suppress(NotFound):
            abandon(self.ledger, "dep")
        for _ in range(_CLEANUPS):
            if self._is_clean():
                break
            self.clean()
        self._mine, self.ours = frozenset(), {}
        left = self.inventory() ^ self.start
        assert left == set(), f"left or lost: {left}"
        assert {node.state for node in self.site.nodes(ALIVE).values()} == {"up"}

    def close(self) -> None:
        self.site.delete(deployment=ALIVE)
        for kind, cid in self._theirs:
            if cid:
                self.operator.delete(kind, cid)
        self.discard()

    def discard(self) -> None:
        self.site.conductor.drain(10.0)
        self.ledger.close()
        self.bends.close()
        self.bed.close()

    def _is_clean(self) -> bool:
        """The cloud is as at the start, and the ledger has nothing more to close."""
        query = sa.text(
            "SELECT intent FROM objects WHERE state <> 'gone' AND (deployment = 'dep' OR ref = 'os/2') UNION "
            "SELECT intent FROM server_groups WHERE state <> 'gone' AND deployment = 'dep'"
        )
        with self.ledger.read() as tx:
            return tx.execute(query).first() is None and self.inventory() == self.start

    def _placement(self) -> str:
        return "placement: {policy: anti-affinity}"

    def _living(self) -> set[str]:
        """Intents of what the other deployment has."""
        with self.ledger.read() as tx:
            rows = sa.text(
                "SELECT intent FROM objects WHERE deployment = :d OR kind = 'image' AND ref = 'os/1' UNION "
                "SELECT intent FROM server_groups WHERE deployment = :d"
            )
            return set(tx.execute(rows, {"d": ALIVE}).scalars())


def _director(ledger: Ledger) -> Any:
    return identity.ensure_director(ledger, "test", Ids())


def until(is_true: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < give_up
        time.sleep(0.01)
