"""A whole Coterie in one process, without HTTP: ledger, conductor, sandbox. For tests of what work does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from coterie.conductor.process import Conductor
from coterie.cpi.contract import EVERY_SOURCE, Cpi, Runtime
from coterie.cpi.load import open_cloud
from coterie.engine.coordinator import LedgerCoordinator
from coterie.engine.runner import Retry
from coterie.ids import Ids
from coterie.ledger.rows import identity, keys, nodes, stemcells
from coterie.ledger.rows.nodes import NodeRow
from coterie.ledger.store import Ledger
from coterie.ledger.tables import events, metadata, objects, tasks
from coterie.plan.model import Plan
from coterie.requests import start
from coterie.seal.keys import KeyFile

CONFIG = """
clouds:
- {name: lab, driver: sandbox, properties: {settle_s: 0.1}}
azs:
- {name: z1, cloud: lab, cloud_properties: {zone: z1}}
- {name: z2, cloud: lab, cloud_properties: {zone: z2}}
vm_types:
- {name: small, cloud_properties: {cpu: 1, ram_mb: 512, disk_mb: 1024}}
networks:
- name: net
  subnets:
  - {range: 127.20.0.0/16, gateway: 127.20.0.1, azs: [z1]}
  - {range: 127.21.0.0/16, gateway: 127.21.0.1, azs: [z2]}
"""


def group(name: str, instances: int, more: str = "", azs: str = "z1, z2", stemcell: str = "one") -> str:
    text = f"name: {name}, instances: {instances}, azs: [{azs}], vm_type: small, stemcell: {stemcell}"
    return "- {" + text + ", networks: [{name: net}]" + (f", {more}" if more else "") + "}\n"


def manifest(*groups: str, extra: str = "") -> str:
    return (
        "name: dep\n"
        "stemcells:\n- {alias: one, name: os, version: '1'}\n- {alias: two, name: os, version: '2'}\n"
        "update: {canaries: 1, max_in_flight: 50, update_watch_s: 5, canary_watch_s: 5, serial: false}\n"
        f"{extra}instance_groups:\n{''.join(groups)}"
    )


class Site:
    patience_s = 60.0  # of a test with a task
    poll_s = 0.01

    def __init__(self, ledger: Ledger, folder: Path, *, opens_sealed: bool = False) -> None:
        """`opens_sealed`: its conductor has the key, and takes only sealed properties; there are none then."""
        self.ledger = ledger
        self.folder = folder
        self.opens_sealed = opens_sealed
        self.config = CONFIG.replace(", properties: {settle_s: 0.1}", "") if opens_sealed else CONFIG
        self.director = identity.ensure_director(ledger, "test", Ids())
        (folder / "stemcells").mkdir()
        (folder / "stemcells" / "image").write_bytes(b"image")
        with ledger.write() as tx:
            if not stemcells.catalogue(tx):
                for version in ("1", "2"):
                    stemcells.add(tx, "os", version, "image", version, {}, [])
        self.keys = self._publish_key()
        self.conductor = self.new_conductor()

    def new_conductor(self, name: str = "c") -> Conductor:
        retry = Retry(first_s=0.01, longest_s=0.05)
        keys = self.keys if self.opens_sealed else None
        own = (EVERY_SOURCE,)  # the tests' machine lends what it has
        return Conductor(self.ledger, name, state_folder=self.folder, retry=retry, keys=keys, credential_sources=own)

    def _publish_key(self) -> KeyFile:
        """What a conductor does at its first start."""
        file = KeyFile(self.folder / "conductor.key")
        file.ensure()
        newest = file.newest()
        assert newest is not None
        with self.ledger.write() as tx:
            keys.publish_first(tx, keys.EVERY, newest.public.id, newest.public.text, "test")
        return file

    # -- asking --

    def request(self, text: str | None = None, **options: Any) -> start.PlanRequest:
        if text is None:
            options.setdefault("deployment", "dep")
        return start.PlanRequest(manifest=text, cloud_config=self.config, **options)

    def plan(self, text: str | None = None, **options: Any) -> Plan:
        return start.plan(self.ledger, self.request(text, **options))

    def deploy(self, text: str | None = None, expect_state: str = "done", **options: Any) -> int:
        task = start.deploy(self.ledger, self.request(text, **options), None, "test")
        self.wait(task, expect_state)
        return task

    def delete(self, expect_state: str = "done", **options: Any) -> int:
        return self.deploy(None, expect_state, delete=True, **options)

    def wait(self, task: int, expect_state: str = "done") -> None:
        give_up = time.monotonic() + self.patience_s
        while (state := self.task(task).state) in ("running", "cancelling"):
            assert time.monotonic() < give_up, f"task {task} does not end\n{self.story(task)}"
            time.sleep(self.poll_s)
        assert state == expect_state, f"task {task} ended as {state}\n{self.story(task)}"

    # -- looking --

    def task(self, task: int) -> Any:
        with self.ledger.read() as tx:
            return tx.execute(sa.select(tasks).where(tasks.c.id == task)).one()

    def story(self, task: int) -> str:
        with self.ledger.read() as tx:
            rows = tx.execute(sa.select(events).where(events.c.task == task).order_by(events.c.n)).all()
        return "\n".join(f"{row.n} {row.kind} {row.subject}: {row.body}" for row in rows)

    def kinds(self, task: int) -> list[str]:
        with self.ledger.read() as tx:
            return list(
                tx.execute(sa.select(events.c.kind).where(events.c.task == task).order_by(events.c.n)).scalars()
            )

    def nodes(self, deployment: str = "dep") -> dict[str, NodeRow]:
        with self.ledger.read() as tx:
            return {node.name: node for node in nodes.of_deployment(tx, deployment)}

    def objects(self, kind: str) -> dict[str, int]:
        query = sa.select(objects.c.state, sa.func.count()).where(objects.c.kind == kind).group_by(objects.c.state)
        with self.ledger.read() as tx:
            return dict(tx.execute(query).all())

    def rows(self) -> dict[str, int]:
        with self.ledger.read() as tx:
            return {
                name: tx.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
                for name, table in metadata.tables.items()
            }

    def cpi(self, cloud: str = "lab", properties: dict[str, Any] | None = None, director: str | None = None) -> Cpi:
        """The cloud as seen with a driver of our own, past Coterie."""
        runtime = Runtime(director or self.director.uuid, LedgerCoordinator(self.ledger, "test"), self.folder)
        return open_cloud("sandbox", cloud, properties or {}, runtime)

    def held(self, kind: Any, cloud: str = "lab", properties: dict[str, Any] | None = None) -> list[Any]:
        """What the cloud holds of ours."""
        cpi, cursor, found = self.cpi(cloud, properties), None, []
        while True:
            page = cpi.survey(kind, self.director.uuid, cursor)
            found += [one for one in page.objects if one.mark and one.mark.director == self.director.uuid]
            cursor = page.next
            if cursor is None:
                return found


@contextmanager
def site(ledger: Ledger, folder: Path, *, opens_sealed: bool = False) -> Iterator[Site]:
    made = Site(ledger, folder, opens_sealed=opens_sealed)
    made.conductor.start()
    try:
        yield made
    finally:
        made.conductor.drain(10.0)
