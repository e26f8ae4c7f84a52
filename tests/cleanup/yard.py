"""A site with cleanup: what an operator would do, as short calls, and a cloud with others' objects in it."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from coterie.cleanup import start
from coterie.cleanup.options import Options
from coterie.cleanup.plan import CleanupPlan
from coterie.cpi.kit.marking import DIRECTOR, INTENT
from coterie.ledger.rows import cleanups
from coterie.ledger.tables import findings, objects
from coterie.requests.operations import abandon
from coterie.sandbox import disks, faults, images, security_groups, server_groups, vm_shape, vms
from coterie.sandbox.accounts import open_account
from coterie.sandbox.datacenter import Account, open_datacenter
from coterie.sandbox.fit import Demand
from tests.requests.site import Site, group, manifest

KINDS = ("vm", "disk", "image", "server_group", "security_group", "snapshot")
# Everything goes at once: no grace, no undo window, no cap, no spared stemcell, no pace.
AT_ONCE: dict[str, Any] = {
    "grace_s": 0,
    "undo_s": 0,
    "keep_stemcells": 0,
    "cap": 100_000,
    "cap_percent": 100,
    "rate": 1000,
}
WEB = manifest(
    group("web", 2, "persistent_disk: 64, placement: {policy: anti-affinity}, security_groups: [guard]"),
)
_LISTS = {
    "vm": vm_shape.list_vms,
    "disk": disks.list_disks,
    "image": images.list_images,
    "server_group": server_groups.list_server_groups,
    "security_group": security_groups.list_security_groups,
}


class Yard:
    def __init__(self, site: Site) -> None:
        self.site = site
        self.ledger = site.ledger
        self.director = site.director.uuid

    # -- what an operator does --

    def survey(self, **options: Any) -> CleanupPlan:
        number, task = start.survey(self.ledger, Options.of_wire({**AT_ONCE, **options}), "test")
        self.site.wait(task)
        return start.read_plan(self.ledger, number)

    def apply(self, plan: CleanupPlan, expect_state: str = "done") -> int:
        task = start.apply(self.ledger, plan.cleanup, plan.id, "test")
        self.site.wait(task, expect_state)
        return task

    def clean(self, expect_state: str = "done", **options: Any) -> CleanupPlan:
        plan = self.survey(**options)
        self.apply(plan, expect_state)
        return plan

    def leave(self, text: str = WEB) -> None:
        """A deployment that is given up: all that it made is an orphan."""
        self.site.deploy(text)
        abandon(self.ledger, "dep")

    # -- what became of it --

    def held(self) -> dict[str, list[str]]:
        """CIDs that the cloud holds of ours, by kind."""
        found = {kind: sorted(thing.cid for thing in self.site.held(kind)) for kind in KINDS}
        return {kind: cids for kind, cids in found.items() if cids}

    def outcomes(self, plan: CleanupPlan) -> dict[str, str | None]:
        with self.ledger.read() as tx:
            rows = cleanups.all_findings(tx, plan.cleanup)
        return {row.cid or row.intent: row.outcome for row in rows}

    def why(self, plan: CleanupPlan, cid: str) -> str:
        with self.ledger.read() as tx:
            query = sa.select(findings.c.told).where(findings.c.cleanup == plan.cleanup, findings.c.cid == cid)
            told = tx.execute(query).scalar_one()
        return str(told["why"]) if told else ""

    def row(self, cid: str) -> Any:
        with self.ledger.read() as tx:
            return tx.execute(sa.select(objects).where(objects.c.cid == cid)).one()

    # -- the cloud, past Coterie --

    def operator(self) -> Account:
        center = open_datacenter(self.site.folder / "sandbox.db", create=False)
        return open_account(center, "lab", operator=True)

    def fault(self, method: str, mode: str, **more: Any) -> None:
        faults.add(self.operator().datacenter.store, method, mode, **more)

    def everything(self) -> dict[tuple[str, str], Any]:
        """Every object of the account with its tags, ours or not."""
        account, found = self.operator(), {}
        for kind, listing in _LISTS.items():
            after = None
            while True:
                page = listing(account, after=after) if after else listing(account)
                found.update({(kind, item.id): (item.name, dict(item.tags)) for item in page.items})
                after = page.next
                if after is None:
                    break
        return found

    def foreign(self) -> dict[tuple[str, str], Any]:
        return {key: value for key, value in self.everything().items() if value[1].get(DIRECTOR) != self.director}

    def plant(self, count: int = 10) -> None:
        """Objects of others, some of which look like ours."""
        plant(self.operator(), count)


def plant(account: Account, count: int) -> None:
    image = images.create_image(account, name="theirs").id
    for n in range(count - 1):
        _plant_one(account, n, image)


def _plant_one(account: Account, n: int, image: str) -> None:
    other = {DIRECTOR: "0b1f2c3d-0000-4000-8000-000000000000", INTENT: f"{n:026d}"}
    match n % 5:
        case 0:
            disks.create_disk(account, name=f"cot-0b1f2c3d00-{n:026d}", size_mb=1, tags=other)
        case 1:
            server_groups.create_server_group(account, name=f"cg-0b1f2c3d00-{n:026d}", policy="anti-affinity")
        case 2:
            security_groups.create_security_group(account, name=f"their-guard-{n}", tags=other)
        case 3:
            disks.create_disk(account, name=f"theirs-{n}", size_mb=1)
        case 4:
            vms.create_vm(account, name=f"web/{n}", size=Demand(1, 1, 0, "z1"), image=image, start=False)
