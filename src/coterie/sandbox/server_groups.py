"""Server groups: VMs under one placement policy. Names are not unique, as on real clouds.

In a *direct* account a group may be empty and is joined by booting; in a *single-writer* account it belongs to one
zone, is never empty, and its members are one list: the last writer wins.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from coterie.sandbox import accounts, membership, pages, quotas, records
from coterie.sandbox.api import api
from coterie.sandbox.errors import BadRequest, NoSuch
from coterie.sandbox.fit import POLICIES
from coterie.sandbox.pages import EVERYTHING, PAGE_LIMIT, Filter, Page
from coterie.sandbox.records import Record, Shape
from coterie.sandbox.twist import Tx
from coterie.slotted import dataclass


@dataclass(frozen=True, slots=True)
class ServerGroup(Record):
    """`policy` None: the group only gathers. `hosts`/`host_group`: where host-affinity keeps its members; `allowed`:
    the hosts that this comes to now (None: all)."""

    policy: str | None
    model: str
    zone: str | None
    hosts: tuple[str, ...] | None
    host_group: str | None
    members: int
    allowed: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Member:
    vm: str
    host: str | None
    tags: Mapping[str, str]
    security_groups: tuple[str, ...]


SHAPE = Shape(
    kind="server_group",
    prefix="grp",
    table="server_groups",
    columns=(
        "k.policy, k.model, k.zone, k.hosts, k.host_group, k.members",
        "CASE WHEN k.host_group IS NULL THEN k.hosts"
        " ELSE (SELECT json_group_array(host) FROM host_groups WHERE name = k.host_group) END",
    ),
    value=ServerGroup,
    own=lambda tx, own: (*own[:3], _names(own[3]), *own[4:6], _names(own[6])),
)
_MEMBERS = """
SELECT o.seq, o.id, v.host, (SELECT json_group_object(key, value) FROM tags WHERE object = o.seq),
  (SELECT json_group_array(x.id) FROM vm_security_groups s JOIN objects x ON x.seq = s.security_group
   WHERE s.vm = o.seq)
FROM members m JOIN objects o ON o.seq = m.vm JOIN vms v ON v.object = m.vm
WHERE m.server_group = ? AND m.vm > ? ORDER BY m.vm LIMIT ?
"""


def _names(listed: str | None) -> tuple[str, ...] | None:
    return None if listed is None else tuple(json.loads(listed))


@api("create_server_group")
def create_server_group(
    tx: Tx,
    *,
    name: str,
    policy: str | None = "soft-anti-affinity",
    hosts: Sequence[str] | None = None,
    host_group: str | None = None,
    zone: str | None = None,
    members: Sequence[str] = (),
    tags: Mapping[str, str] | None = None,
    client_token: str | None = None,
) -> ServerGroup:
    """A group; `zone` and the first `members` are for single-writer accounts, which cannot hold an empty one."""
    known = records.find_made(tx, SHAPE, client_token)
    if known:
        return known
    model = accounts.group_model(tx)
    _check(tx, policy, hosts, host_group, model, members)
    quotas.charge(tx, {"server_groups": 1})
    seq, made = records.insert(tx, SHAPE, name, tags or {}, client_token)
    tx.db.execute(
        "INSERT INTO server_groups (object, policy, model, zone, hosts, host_group) VALUES (?,?,?,?,?,?)",
        (seq, policy, model, zone, None if hosts is None else json.dumps(list(hosts)), host_group),
    )
    if members:
        membership.replace(tx, seq, _vms(tx, members))
    return records.fetch(tx, SHAPE, made)


@api("get_server_group", writes=False)
def get_server_group(tx: Tx, wanted: str) -> ServerGroup:
    return records.fetch(tx, SHAPE, wanted)


@api("list_server_groups", writes=False)
def list_server_groups(
    tx: Tx, only: Filter = EVERYTHING, after: str | None = None, limit: int = PAGE_LIMIT
) -> Page[ServerGroup]:
    return pages.page(tx, SHAPE, only, after, limit)


@api("list_members", writes=False)
def list_members(tx: Tx, wanted: str, after: str | None = None) -> tuple[list[Member], str | None]:
    """A page of members and where the next one begins."""
    group = records.fetch(tx, SHAPE, wanted)
    rows = tx.db.execute(_MEMBERS, (group.seq, int(after or 0), PAGE_LIMIT)).fetchall()
    members = [Member(vm, host, json.loads(tags), tuple(json.loads(guards))) for _, vm, host, tags, guards in rows]
    return members, str(rows[-1][0]) if len(rows) == PAGE_LIMIT else None


@api("read_members", writes=False)
def read_members(tx: Tx, wanted: str) -> list[str]:
    """The whole list of members, which a writer must send back completely."""
    group = records.fetch(tx, SHAPE, wanted)
    rows = tx.db.execute(
        "SELECT o.id FROM members m JOIN objects o ON o.seq = m.vm WHERE m.server_group = ?", (group.seq,)
    )
    return [row[0] for row in rows]


@api("write_members")
def write_members(tx: Tx, wanted: str, vms: Sequence[str]) -> None:
    """Replace the list of members. There is no version check: two careless writers lose each other's members."""
    group = records.fetch(tx, SHAPE, wanted)
    if group.model == "direct":
        raise BadRequest(f"group {wanted} has no list to write", remedy="name the group when booting a VM")
    if not vms:
        raise BadRequest(f"group {wanted} cannot be empty", remedy="delete the group instead")
    membership.replace(tx, group.seq, _vms(tx, vms))


@api("delete_server_group")
def delete_server_group(tx: Tx, wanted: str, *, revision: int | None = None) -> None:
    """Gone, even with members: the cloud does not mind, so callers must."""
    found = records.fetch(tx, SHAPE, wanted)
    records.require_revision(found, revision)
    membership.vanish(tx, found.seq)


def _check(
    tx: Tx, policy: str | None, hosts: Sequence[str] | None, host_group: str | None, model: str, members: Sequence[str]
) -> None:
    if policy is not None and policy not in POLICIES:
        raise BadRequest(f"there is no policy {policy!r}", remedy=f"use one of: {', '.join(POLICIES)}")
    if (hosts is not None or host_group is not None) and policy != "host-affinity":
        raise BadRequest(f"policy {policy} takes no hosts", remedy="use host-affinity, or name no hosts")
    if (model == "direct") == bool(members):
        words = "is created empty" if model == "direct" else "needs a first member"
        raise BadRequest(f"a group of account {tx.account!r} {words}", remedy=f"its groups are {model}")
    for host in hosts or ():
        if not tx.db.execute("SELECT 1 FROM hosts WHERE name = ?", (host,)).fetchone():
            raise BadRequest(f"there is no host {host!r}", remedy="use a name that `coterie sandbox hosts` lists")
    if host_group and not tx.db.execute("SELECT 1 FROM host_groups WHERE name = ?", (host_group,)).fetchone():
        raise BadRequest(f"there is no host group {host_group!r}", remedy="have the operator create it first")


def _vms(tx: Tx, wanted: Sequence[str]) -> list[int]:
    found = dict(
        tx.db.execute(
            "SELECT id, seq FROM objects WHERE id IN (SELECT value FROM json_each(?)) AND account = ? AND kind = 'vm'",
            (json.dumps(list(wanted)), tx.account),
        ).fetchall()
    )
    for vm in wanted:
        if vm not in found:
            raise NoSuch("vm", vm)
    return list(found.values())
