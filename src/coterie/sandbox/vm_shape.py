"""What a virtual machine looks like from outside: its value, and reading it alone or in lists. Nothing changes here."""

from __future__ import annotations

import json

from coterie.sandbox import pages, records
from coterie.sandbox.api import api
from coterie.sandbox.nics import Nic
from coterie.sandbox.pages import EVERYTHING, PAGE_LIMIT, Filter, Page
from coterie.sandbox.records import Record, Shape
from coterie.sandbox.twist import Tx
from coterie.slotted import dataclass

# building: on its host, not yet ready · running · stopped: powered off, or never started · error: broken, unless a
# reboot helps
STATES = ("building", "running", "stopped", "error")


@dataclass(frozen=True, slots=True)
class Vm(Record):
    """`host` is None until its first start. `groups`, `security_groups` and `disks` are ids."""

    state: str
    host: str | None
    zone: str | None
    cpu: int
    ram_mb: int
    disk_mb: int
    image: str
    nics: tuple[Nic, ...]
    groups: tuple[str, ...]
    security_groups: tuple[str, ...]
    disks: tuple[str, ...]


def _ids(table: str, column: str) -> str:
    return f"(SELECT json_group_array(x.id) FROM {table} l JOIN objects x ON x.seq = l.{column} WHERE l.vm = o.seq)"


SHAPE = Shape(
    kind="vm",
    prefix="vm",
    table="vms",
    columns=(
        "k.state, k.ready_at, k.host, k.zone, k.cpu, k.ram_mb, k.disk_mb, k.image",
        "(SELECT json_group_array(json_array(n.label, (SELECT id FROM objects WHERE seq = n.network), n.ip, n.mac)) "
        "FROM nics n WHERE n.vm = o.seq)",
        _ids("members", "server_group"),
        _ids("vm_security_groups", "security_group"),
        _ids("disks", "object"),
    ),
    value=Vm,
    own=lambda tx, own: (
        "building" if own[1] > tx.now else own[0],
        *own[2:8],
        tuple(Nic(*nic) for nic in json.loads(own[8])),
        *(tuple(json.loads(ids)) for ids in own[9:12]),
    ),
)


@api("get_vm", writes=False)
def get_vm(tx: Tx, wanted: str) -> Vm:
    return records.fetch(tx, SHAPE, wanted)


@api("list_vms", writes=False)
def list_vms(tx: Tx, only: Filter = EVERYTHING, after: str | None = None, limit: int = PAGE_LIMIT) -> Page[Vm]:
    return pages.page(tx, SHAPE, only, after, limit)


@api("get_user_data", writes=False)
def get_user_data(tx: Tx, wanted: str) -> str:
    """What the VM was given to read at its first boot. It may hold secrets: it appears in no list and in no view."""
    found = records.fetch(tx, SHAPE, wanted)
    return str(tx.db.execute("SELECT user_data FROM vms WHERE object = ?", (found.seq,)).fetchone()[0])
