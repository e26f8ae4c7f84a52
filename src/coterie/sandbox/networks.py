"""Networks and the addresses in use on them. Every account has its own; an address is unique within its network."""

from __future__ import annotations

import json
from collections.abc import Mapping

from coterie.sandbox import pages, records
from coterie.sandbox.api import api
from coterie.sandbox.errors import BadRequest, InUse, NoSuch
from coterie.sandbox.pages import EVERYTHING, PAGE_LIMIT, Filter, Page
from coterie.sandbox.ranges import free_range, read_range
from coterie.sandbox.records import USERS_SHOWN, Record, Shape
from coterie.sandbox.twist import Tx
from coterie.slotted import dataclass

_DEFAULT_BITS = 24
_HOW = "`coterie sandbox operator create-network {}`"


@dataclass(frozen=True, slots=True)
class Network(Record):
    """`range` None: the network takes any address."""

    range: str | None
    gateway: str | None
    vms: tuple[str, ...]


SHAPE = Shape(
    kind="network",
    prefix="net",
    table="networks",
    columns=(
        "k.range",
        "k.gateway",
        "(SELECT json_group_array(u.id) FROM (SELECT DISTINCT v.id FROM nics n JOIN objects v ON v.seq = n.vm "
        f"WHERE n.network = o.seq LIMIT {USERS_SHOWN}) u)",
    ),
    value=Network,
    own=lambda tx, own: (own[0], own[1], tuple(json.loads(own[2]))),
)


@api("create_network")
def create_network(
    tx: Tx,
    *,
    name: str,
    range: str | None = None,
    bits: int | None = None,
    gateway: str | None = None,
    tags: Mapping[str, str] | None = None,
    client_token: str | None = None,
) -> Network:
    """A network with this range, or with a free one of `bits` length."""
    known = records.find_made(tx, SHAPE, client_token)
    if known:
        return known
    net = read_range(range) if range else free_range(bits or _DEFAULT_BITS, _used_ranges(tx))
    return _insert(tx, name, str(net), gateway or str(net[1]), tags or {}, client_token)


@api("get_network", writes=False)
def get_network(tx: Tx, wanted: str) -> Network:
    return records.fetch(tx, SHAPE, wanted)


@api("list_networks", writes=False)
def list_networks(
    tx: Tx, only: Filter = EVERYTHING, after: str | None = None, limit: int = PAGE_LIMIT
) -> Page[Network]:
    return pages.page(tx, SHAPE, only, after, limit)


@api("delete_network")
def delete_network(tx: Tx, wanted: str, *, revision: int | None = None) -> None:
    found = records.fetch(tx, SHAPE, wanted)
    records.require_revision(found, revision)
    if found.vms:
        raise InUse(f"network {wanted} is in use by {found.vms[0]}", remedy="delete the VMs on it first")
    records.remove(tx, SHAPE, found.seq)


def furnish(tx: Tx) -> None:
    """Give a new account the networks that the layout promises."""
    for name in json.loads(tx.db.execute("SELECT value FROM meta WHERE key = 'networks'").fetchone()[0]):
        _insert(tx, name, None, None, {}, None)


def resolve(tx: Tx, wanted: str) -> tuple[int, str | None, str | None]:
    """seq, range and gateway of the network with this id or name."""
    rows = tx.db.execute(
        "SELECT o.seq, k.range, k.gateway FROM objects o JOIN networks k ON k.object = o.seq WHERE o.id = ? AND "
        "o.account = ? UNION ALL SELECT o.seq, k.range, k.gateway FROM objects o JOIN networks k ON k.object = o.seq "
        "WHERE o.account = ? AND o.kind = 'network' AND o.name = ?",
        (wanted, tx.account, tx.account, wanted),
    ).fetchall()
    if not rows:
        raise NoSuch("network", wanted, remedy=f"use {_names(tx)}, or create it: {_HOW.format(wanted)}")
    if len(rows) > 1:
        raise BadRequest(f"{len(rows)} networks are named {wanted!r}", remedy="name the network by its id")
    seq, within, gateway = rows[0]
    return int(seq), within, gateway


def _insert(
    tx: Tx, name: str, range: str | None, gateway: str | None, tags: Mapping[str, str], token: str | None
) -> Network:
    seq, made = records.insert(tx, SHAPE, name, tags, token)
    tx.db.execute("INSERT INTO networks (object, range, gateway) VALUES (?,?,?)", (seq, range, gateway))
    return records.fetch(tx, SHAPE, made)


def _used_ranges(tx: Tx) -> list[str]:
    return [row[0] for row in tx.db.execute("SELECT range FROM networks WHERE range IS NOT NULL")]


def _names(tx: Tx) -> str:
    rows = tx.db.execute("SELECT name FROM objects WHERE account = ? AND kind = 'network' LIMIT 10", (tx.account,))
    return " or ".join(repr(row[0]) for row in rows) or "another"
