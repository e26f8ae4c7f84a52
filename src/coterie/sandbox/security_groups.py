"""Security groups: rules that VMs share. A group that a VM uses cannot be deleted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from coterie.sandbox import pages, quotas, records
from coterie.sandbox.api import api
from coterie.sandbox.errors import InUse, NoSuch
from coterie.sandbox.pages import EVERYTHING, PAGE_LIMIT, Filter, Page
from coterie.sandbox.records import USERS_SHOWN, Record, Shape
from coterie.sandbox.twist import Tx
from coterie.slotted import dataclass


@dataclass(frozen=True, slots=True)
class SecurityGroup(Record):
    rules: tuple[dict[str, Any], ...]
    vms: tuple[str, ...]


SHAPE = Shape(
    kind="security_group",
    prefix="sec",
    table="security_groups",
    columns=(
        "k.rules",
        "(SELECT json_group_array(u.id) FROM (SELECT v.id FROM vm_security_groups s JOIN objects v ON v.seq = s.vm "
        f"WHERE s.security_group = o.seq LIMIT {USERS_SHOWN}) u)",
    ),
    value=SecurityGroup,
    own=lambda tx, own: (tuple(json.loads(own[0])), tuple(json.loads(own[1]))),
)


@api("create_security_group")
def create_security_group(
    tx: Tx,
    *,
    name: str,
    rules: Sequence[Mapping[str, Any]] = (),
    tags: Mapping[str, str] | None = None,
    client_token: str | None = None,
) -> SecurityGroup:
    known = records.find_made(tx, SHAPE, client_token)
    if known:
        return known
    quotas.charge(tx, {"security_groups": 1})
    seq, made = records.insert(tx, SHAPE, name, tags or {}, client_token)
    tx.db.execute("INSERT INTO security_groups VALUES (?,?)", (seq, json.dumps([dict(rule) for rule in rules])))
    return records.fetch(tx, SHAPE, made)


@api("set_security_group_rules")
def set_security_group_rules(
    tx: Tx, wanted: str, rules: Sequence[Mapping[str, Any]], *, revision: int | None = None
) -> None:
    """Replace all rules at once."""
    found = records.fetch(tx, SHAPE, wanted)
    records.require_revision(found, revision)
    text = json.dumps([dict(rule) for rule in rules])
    tx.db.execute("UPDATE security_groups SET rules = ? WHERE object = ?", (text, found.seq))
    records.revise(tx, found.seq)


@api("get_security_group", writes=False)
def get_security_group(tx: Tx, wanted: str) -> SecurityGroup:
    return records.fetch(tx, SHAPE, wanted)


@api("list_security_groups", writes=False)
def list_security_groups(
    tx: Tx, only: Filter = EVERYTHING, after: str | None = None, limit: int = PAGE_LIMIT
) -> Page[SecurityGroup]:
    return pages.page(tx, SHAPE, only, after, limit)


@api("delete_security_group")
def delete_security_group(tx: Tx, wanted: str, *, revision: int | None = None) -> None:
    found = records.fetch(tx, SHAPE, wanted)
    records.require_revision(found, revision)
    if found.vms:
        raise InUse(f"security group {wanted} is in use by {found.vms[0]}", remedy="take it off its VMs first")
    quotas.charge(tx, {"security_groups": -1})
    records.remove(tx, SHAPE, found.seq)


def protect(tx: Tx, vm: int, wanted: Sequence[str]) -> None:
    for group in dict.fromkeys(wanted):
        row = tx.db.execute(
            "SELECT seq FROM objects WHERE id = ? AND account = ? AND kind = 'security_group'", (group, tx.account)
        ).fetchone()
        if row is None:
            raise NoSuch("security_group", group)
        tx.db.execute("INSERT INTO vm_security_groups VALUES (?,?)", (vm, row[0]))


def unprotect(tx: Tx, vm: int) -> None:
    tx.db.execute("DELETE FROM vm_security_groups WHERE vm = ?", (vm,))
