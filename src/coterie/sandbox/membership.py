"""Members of server groups, and their counters. The groups themselves are in `server_groups`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from coterie.sandbox import placement, quotas, records
from coterie.sandbox.errors import BadRequest, NoSuch
from coterie.sandbox.twist import Tx

_TABLES = (
    ("members", "server_group"),
    ("group_hosts", "server_group"),
    ("late_news", "server_group"),
    ("server_groups", "object"),
    ("tags", "object"),
    ("objects", "seq"),
)


def join(tx: Tx, group: str, vm: int) -> int:
    """Add the VM to the group of its boot call; the group's seq."""
    row = tx.db.execute(
        "SELECT g.object, g.model, g.members, (SELECT ceiling FROM usage WHERE account = o.account "
        "AND resource = 'server_group_members') FROM objects o JOIN server_groups g ON g.object = o.seq "
        "WHERE o.id = ? AND o.account = ?",
        (group, tx.account),
    ).fetchone()
    if row is None:
        raise NoSuch("server_group", group)
    seq, model, members, ceiling = row
    if model != "direct":
        raise BadRequest(f"group {group} cannot be joined by booting", remedy="write its list of members")
    quotas.check_members(tx, members + 1, ceiling)
    _enter(tx, seq, vm)
    _recount(tx, seq, members + 1)
    return int(seq)


def replace(tx: Tx, group: int, wanted: Sequence[int]) -> None:
    """Replace the members by the list: a VM that is not on it leaves, even if another call added it meanwhile."""
    quotas.check_members(tx, len(wanted), quotas.member_ceiling(tx))
    present = {row[0] for row in tx.db.execute("SELECT vm FROM members WHERE server_group = ?", (group,))}
    hosts = _hosts(tx, present ^ set(wanted))
    for vm in present - set(wanted):
        _exit(tx, group, vm, hosts[vm])
    for vm in set(wanted) - present:
        _enter(tx, group, vm)
        if hosts[vm]:
            placement.count_member(tx, group, str(hosts[vm]), 1)
    _recount(tx, group, len(wanted))


def leave_all(tx: Tx, vm: int, host: str | None) -> None:
    """A VM that is going leaves every group; a group that cannot be empty goes with its last member."""
    for group in groups_of(tx, vm):
        model, members = tx.db.execute("SELECT model, members FROM server_groups WHERE object = ?", (group,)).fetchone()
        _exit(tx, group, vm, host)
        _recount(tx, group, members - 1)
        if model != "direct" and members == 1:
            vanish(tx, group)


def groups_of(tx: Tx, vm: int) -> list[int]:
    return [row[0] for row in tx.db.execute("SELECT server_group FROM members WHERE vm = ?", (vm,))]


def vanish(tx: Tx, group: int) -> None:
    """The group is gone; its members are members no more, and nothing else happens to them."""
    for table, column in _TABLES:
        tx.db.execute(f"DELETE FROM {table} WHERE {column} = ?", (group,))
    quotas.charge(tx, {"server_groups": -1})


def _enter(tx: Tx, group: int, vm: int) -> None:
    tx.db.execute("INSERT INTO members VALUES (?,?)", (group, vm))


def _exit(tx: Tx, group: int, vm: int, host: str | None) -> None:
    tx.db.execute("DELETE FROM members WHERE server_group = ? AND vm = ?", (group, vm))
    if host:
        placement.count_member(tx, group, host, -1)


def _recount(tx: Tx, group: int, members: int) -> None:
    tx.db.execute("UPDATE server_groups SET members = ? WHERE object = ?", (members, group))
    records.revise(tx, group)


def _hosts(tx: Tx, vms: Iterable[int]) -> dict[int, str | None]:
    return {vm: tx.db.execute("SELECT host FROM vms WHERE object = ?", (vm,)).fetchone()[0] for vm in vms}
