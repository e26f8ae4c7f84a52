"""Any interleaving of deploys, kills, foreign changes and cleanups: nothing foreign is lost, and nothing of ours is
unaccounted for once all is quiet and cleaned."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from coterie.cleanup import start
from coterie.cleanup.plan import CleanupPlan
from coterie.cpi.kit.marking import DIRECTOR, INTENT
from coterie.errors import CoterieError
from coterie.ledger.tables import deployments, server_groups
from coterie.ledger.tables import objects as objects_table
from coterie.requests import start as work
from coterie.requests.operations import abandon
from coterie.sandbox import disks, faults, images, security_groups, vm_shape, vms
from coterie.sandbox import server_groups as cloud_groups
from coterie.sandbox.fit import Demand
from tests.cleanup.yard import KINDS, Yard
from tests.ledger.blank import sqlite_ledger
from tests.requests.site import Site, group, manifest

NAMES = st.sampled_from(["red", "blue"])
SHAPES = st.sampled_from(
    [
        group("web", 1, azs="z1"),
        group("web", 2, "persistent_disk: 64, placement: {policy: anti-affinity}, security_groups: [guard]", azs="z1"),
        group("job", 1, "placement: {policy: soft-anti-affinity}", azs="z1", stemcell="two"),
    ]
)
FAULTS = st.sampled_from(
    [
        ("create_vm", "timeout-after-commit"),
        ("create_vm", "timeout-before-commit"),
        ("create_disk", "timeout-after-commit"),
        ("create_server_group", "timeout-after-commit"),
        ("delete_vm", "timeout-after-commit"),
        ("create_vm", "error"),
        ("delete_*", "throttle"),
    ]
)


class Interleavings(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        self.ledger = sqlite_ledger(folder / "ledger.db")
        self.site = Site(self.ledger, folder)
        self.site.conductor.start()
        self.yard = Yard(self.site)
        self.foreign: dict[tuple[str, str], Any] = {}
        self.plan: CleanupPlan | None = None
        self.count = 0

    def teardown(self) -> None:
        try:
            self._quiet()
        finally:
            self.site.conductor.drain(10)
            self.ledger.close()
            self._folder.cleanup()

    @initialize()
    def others_are_there(self) -> None:
        self.site.deploy(_named("first", group("web", 1, azs="z1")))
        self.yard.plant(12)
        self.foreign = self.yard.foreign()

    # -- what we do --

    @rule(name=NAMES, shape=SHAPES)
    def deploy(self, name: str, shape: str) -> None:
        self._try(lambda: work.deploy(self.ledger, self.site.request(_named(name, shape)), None, "test"))

    @rule(name=NAMES, shape=SHAPES, fault=FAULTS)
    def deploy_on_a_bad_day(self, name: str, shape: str, fault: tuple[str, str]) -> None:
        self.yard.fault(*fault, times=1, **({"ms": 5} if fault[1] == "throttle" else {}))
        self.deploy(name, shape)

    @rule(name=NAMES, shape=SHAPES)
    def deploy_and_die(self, name: str, shape: str) -> None:
        """The conductor is gone in the middle of it, and the deployment is given up."""
        try:
            work.deploy(self.ledger, self.site.request(_named(name, shape)), None, "test")
        except CoterieError:
            return
        self.site.conductor.drain(10)
        self.abandon(name)
        self.count += 1
        self.site.conductor = self.site.new_conductor(f"c{self.count}")
        self.site.conductor.start()

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        request = work.PlanRequest(deployment=name, delete=True, cloud_config=self.site.config)
        self._try(lambda: work.deploy(self.ledger, request, None, "test"))

    @rule(name=NAMES)
    def abandon(self, name: str) -> None:
        self._try(lambda: abandon(self.ledger, name))

    # -- what others do --

    @rule(kind=st.sampled_from(["disk", "group", "guard", "vm"]))
    def others_make_something(self, kind: str) -> None:
        account, self.count = self.yard.operator(), self.count + 1
        tags = {DIRECTOR: "0b1f2c3d-0000-4000-8000-000000000000", INTENT: f"{self.count:026d}"}
        if kind == "disk":
            disks.create_disk(account, name=f"x{self.count}", size_mb=1, tags=tags)
        elif kind == "group":
            cloud_groups.create_server_group(account, name=f"cg-x{self.count}", policy="anti-affinity")
        elif kind == "guard":
            security_groups.create_security_group(account, name=f"x{self.count}")
        else:
            image = images.create_image(account, name=f"x{self.count}").id
            vms.create_vm(account, name="web/0", size=Demand(1, 1, 0, "z1"), image=image, start=False)
        self.foreign = self.yard.foreign()

    @rule()
    def others_delete_a_vm_of_ours(self) -> None:
        account = self.yard.operator()
        ours = [vm for vm in vm_shape.list_vms(account).items if vm.tags.get(DIRECTOR) == self.yard.director]
        if ours:
            vms.delete_vm(account, ours[0].id)

    # -- cleanup --

    @rule(grace=st.sampled_from([0, 3600]))
    def survey(self, grace: float) -> None:
        self.plan = self.yard.survey(grace_s=grace)

    @precondition(lambda self: self.plan is not None)
    @rule()
    def apply(self) -> None:
        plan, self.plan = self.plan, None
        assert plan is not None
        self._try(lambda: start.apply(self.ledger, plan.cleanup, plan.id, "test"))

    # -- what must be true --

    @invariant()
    def no_foreign_object_was_touched(self) -> None:
        if self.foreign:
            assert self.yard.foreign() == self.foreign

    @invariant()
    def nothing_in_use_was_deleted(self) -> None:
        held = {thing.cid for thing in self.site.held("disk")}
        with self.ledger.read() as tx:
            live = sa.select(objects_table.c.cid).where(objects_table.c.kind == "disk", objects_table.c.state == "live")
            assert set(tx.execute(live).scalars()) <= held

    def _quiet(self) -> None:
        """No faults, no task at work; then one cleanup, and a deployment needs every object of ours."""
        if not self.foreign:
            return
        faults.clear(self.yard.operator().datacenter.store)
        self.yard.clean()
        self.no_foreign_object_was_touched()
        left = self.yard.survey()
        assert left.items == (), [(item.action, item.kind, item.reason) for item in left.items]
        known = self._known()
        for kind in KINDS:
            for thing in self.site.held(kind):
                # a security group outlives the server group that made it while another one has it
                shared = kind == "security_group" and known & set(thing.in_use_by)
                assert thing.mark.intent in known or shared, f"{kind} {thing.cid} is unaccounted for"

    def _known(self) -> set[str]:
        """Intents and CIDs of what a deployment wants."""
        with self.ledger.read() as tx:
            wished = set(tx.execute(sa.select(deployments.c.name)).scalars())
            things = tx.execute(sa.select(objects_table).where(objects_table.c.state != "gone")).all()
            groups = tx.execute(sa.select(server_groups).where(server_groups.c.state != "gone")).all()
        own = [row for row in things if row.deployment is None or row.deployment in wished]
        return {
            word
            for row in (*own, *(row for row in groups if row.deployment in wished))
            for word in (row.intent, row.cid)
        }

    def _try(self, ask: Any) -> None:
        """A refusal is an answer; a task is followed to its end, whatever that is."""
        try:
            task = ask()
        except CoterieError:
            return
        give_up = time.monotonic() + 60
        while task is not None and self.site.task(task).state in ("running", "cancelling"):
            assert time.monotonic() < give_up, f"task {task} does not end\n{self.site.story(task)}"
            self.ledger.written.wait(self.ledger.written.version, 0.05)


def _named(name: str, shape: str) -> str:
    return manifest(shape).replace("name: dep", f"name: {name}")


Interleavings.TestCase.settings = settings(
    max_examples=6,
    stateful_step_count=8,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    phases=[Phase.generate],
)
TestInterleavings = Interleavings.TestCase


class Long(Interleavings):
    pass


Long.TestCase.settings = settings(
    max_examples=60, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.full
@pytest.mark.timeout(1800)
class TestLong(Long.TestCase):  # type: ignore[misc,name-defined]  # made by hypothesis
    pass
