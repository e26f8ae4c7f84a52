"""Quotas: how much an account may have. Every creating call charges here, in its own transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from coterie.sandbox.api import api
from coterie.sandbox.datacenter import Datacenter
from coterie.sandbox.errors import BadRequest, OverQuota, Unauthenticated
from coterie.sandbox.twist import Tx

RESOURCES = (
    "instances",
    "cpu",
    "ram_mb",
    "volumes",
    "volume_gb",
    "snapshots",
    "images",
    "server_groups",
    "server_group_members",  # of one group, not of all together
    "security_groups",
)


class Quota(NamedTuple):
    used: int
    ceiling: int | None


def set_quota(datacenter: Datacenter, account: str, resource: str, ceiling: int | None) -> None:
    """The operator's word on how much an account may have; None lifts the limit. What it has already stays."""
    validate({resource: ceiling})
    with datacenter.store.writing() as db:
        changed = db.execute(
            "UPDATE usage SET ceiling = ? WHERE account = ? AND resource = ?", (ceiling, account, resource)
        ).rowcount
    if not changed:
        raise BadRequest(f"there is no account {account!r}", remedy="name an account that `coterie sandbox show` lists")


@api("get_quotas", writes=False)
def get_quotas(tx: Tx) -> dict[str, Quota]:
    """Use and limit of every resource; this is also how credentials are tried."""
    rows = tx.db.execute("SELECT resource, used, ceiling FROM usage WHERE account = ?", (tx.account,)).fetchall()
    if not rows:
        raise unknown_account(tx.account)
    return {resource: Quota(used, ceiling) for resource, used, ceiling in rows}


def charge(tx: Tx, amounts: Mapping[str, int]) -> None:
    """Take from the account's quotas; amounts below zero give back."""
    for resource, amount in amounts.items():
        taken = tx.db.execute(
            "UPDATE usage SET used = used + ?1 WHERE account = ?2 AND resource = ?3 "
            "AND (?1 <= 0 OR ceiling IS NULL OR used + ?1 <= ceiling)",
            (amount, tx.account, resource),
        ).rowcount
        if not taken:
            raise _refusal(tx, resource, amount)


def check_members(tx: Tx, members: int, ceiling: int | None) -> None:
    """Refuse a group that would have more members than one group may have."""
    if ceiling is not None and members > ceiling:
        raise _over(tx, "server_group_members", members - 1, 1, ceiling)


def member_ceiling(tx: Tx) -> int | None:
    row = tx.db.execute(
        "SELECT ceiling FROM usage WHERE account = ? AND resource = 'server_group_members'", (tx.account,)
    ).fetchone()
    ceiling: int | None = row[0] if row else None
    return ceiling


def validate(quotas: Mapping[str, int | None]) -> None:
    for resource, ceiling in quotas.items():
        if resource not in RESOURCES:
            raise BadRequest(f"there is no quota {resource!r}", remedy=f"use one of: {', '.join(RESOURCES)}")
        if ceiling is not None and (isinstance(ceiling, bool) or not isinstance(ceiling, int) or ceiling < 0):
            raise BadRequest(f"quota {resource} is {ceiling!r}", remedy="give a whole number from 0, or null for none")


def unknown_account(account: str) -> Unauthenticated:
    return Unauthenticated(f"there is no account {account!r}", remedy="open the account before using it")


def _refusal(tx: Tx, resource: str, amount: int) -> OverQuota | Unauthenticated:
    row = tx.db.execute(
        "SELECT used, ceiling FROM usage WHERE account = ? AND resource = ?", (tx.account, resource)
    ).fetchone()
    return unknown_account(tx.account) if row is None else _over(tx, resource, row[0], amount, row[1])


def _over(tx: Tx, resource: str, used: int, amount: int, ceiling: int) -> OverQuota:
    return OverQuota(
        f"quota {resource} of account {tx.account!r} is exceeded",
        why=f"{used} of {ceiling} are used, {amount} more were requested",
        remedy=f"free some, or `coterie sandbox quota set {tx.account} {resource} LIMIT`",
        details={"resource": resource, "used": used, "limit": ceiling, "asked": amount},
    )
