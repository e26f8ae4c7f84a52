"""Between rows and the scheduler: the picture it decides on, and the counters that keep that picture cheap."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from coterie.sandbox import accounts
from coterie.sandbox.errors import BadRequest
from coterie.sandbox.fit import SOFT, Candidate, Demand, Rule
from coterie.sandbox.scheduler import place
from coterie.sandbox.twist import Tx

_HOSTS = (
    "SELECT name, zone, rack, up, cpu - used_cpu, ram_mb - used_ram_mb, disk_mb - used_disk_mb "
    "FROM hosts WHERE zone = coalesce(?, zone) AND rack = coalesce(?, rack)"
)


def find_host(tx: Tx, demand: Demand, groups: Sequence[int]) -> str:
    """The host for a VM that is in these groups; nothing is claimed yet."""
    hosts = [Candidate(*row) for row in tx.db.execute(_HOSTS, (demand.zone, demand.rack))]
    if not hosts:
        raise _no_zone(tx, demand.zone)
    return place(hosts, demand, [_rule(tx, group) for group in groups]).name


def claim(tx: Tx, host: str, demand: Demand, groups: Iterable[int]) -> None:
    """One more VM of these groups is on the host from now on."""
    _count(tx, host, demand, 1)
    for group in groups:
        count_member(tx, group, host, 1)
        if tx.answer_after_s:
            tx.db.execute("INSERT INTO late_news (server_group, at, host) VALUES (?,?,?)", (group, tx.now, host))


def release(tx: Tx, host: str, demand: Demand) -> None:
    """Free the capacity that the VM took on its host; `membership` removes it from its groups."""
    _count(tx, host, demand, -1)


def count_member(tx: Tx, group: int, host: str, change: int) -> None:
    tx.db.execute(
        "INSERT INTO group_hosts VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET members = members + ?3",
        (group, host, change),
    )


def _rule(tx: Tx, group: int) -> Rule:
    policy, hosts, host_group = tx.db.execute(
        "SELECT policy, hosts, host_group FROM server_groups WHERE object = ?", (group,)
    ).fetchone()
    counted = tx.db.execute("SELECT host, members FROM group_hosts WHERE server_group = ?", (group,))
    members = {host: number for host, number in counted if number}
    if policy in SOFT:
        members = _as_it_was(tx, group, members)
    return Rule(policy, members, _allowed_hosts(tx, hosts, host_group))


def _allowed_hosts(tx: Tx, hosts: str | None, host_group: str | None) -> frozenset[str] | None:
    if host_group is not None:
        return frozenset(row[0] for row in tx.db.execute("SELECT host FROM host_groups WHERE name = ?", (host_group,)))
    return None if hosts is None else frozenset(json.loads(hosts))


def _as_it_was(tx: Tx, group: int, members: dict[str, int]) -> dict[str, int]:
    """Real schedulers see soft groups late: joins younger than the lag are hidden, and the call lasts that long.

    So boots one after another spread well, and boots at the same time do not.
    """
    lag = accounts.soft_lag_s(tx)
    if not lag:
        return members
    tx.answer_after_s = lag
    tx.db.execute("DELETE FROM late_news WHERE server_group = ? AND at <= ?", (group, tx.now - lag))
    news = tx.db.execute("SELECT host, count(*) FROM late_news WHERE server_group = ? GROUP BY host", (group,))
    unseen = dict(news.fetchall())
    return {host: max(0, number - unseen.get(host, 0)) for host, number in members.items()}


def _count(tx: Tx, host: str, demand: Demand, sign: int) -> None:
    tx.db.execute(
        "UPDATE hosts SET used_cpu = used_cpu + ?, used_ram_mb = used_ram_mb + ?, used_disk_mb = used_disk_mb + ?, "
        "vms = vms + ? WHERE name = ?",
        (sign * demand.cpu, sign * demand.ram_mb, sign * demand.disk_mb, sign, host),
    )


def _no_zone(tx: Tx, zone: str | None) -> BadRequest:
    zones = [row[0] for row in tx.db.execute("SELECT DISTINCT zone FROM hosts ORDER BY zone")]
    return BadRequest(f"zone {zone!r} has no hosts", remedy=f"use one of: {', '.join(zones) or 'none, add hosts'}")
