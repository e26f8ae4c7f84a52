"""Server groups for callers that cannot request one: `env.bosh.group` names it, and a unique row of the ledger decides
which process creates it."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

from coterie.bosh.config import Groups
from coterie.bosh.core.call_context import CallContext, keep_renewing
from coterie.cpi.contract import Capabilities, CpiError, GroupInUse, GroupMetadata, InvalidCall, Json, OutcomeUnknown
from coterie.ids import Ids
from coterie.ledger.rows import bosh_groups, parts
from coterie.ledger.rows import object_life as objects
from coterie.ledger.rows.bosh_groups import BoshGroup, Key
from coterie.ledger.writes import execute
from coterie.slotted import dataclass

if TYPE_CHECKING:
    from coterie.ledger.statements import Tx

DEFAULT_POLICY = "soft-anti-affinity"
_COMPILATION = re.compile(r"(^|-)compilation-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_LOOK_S = 0.02
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Membership:
    """The group that a new machine joins. `key` None: none that we create."""

    cid: str | None
    key: Key | None = None

    def is_joinable(self, tx: Tx) -> bool:
        """Whether the group is still there to be joined."""
        return self.key is None or bosh_groups.is_live(tx, self.key, self.cid or "")


def ensure_group(context: CallContext, env: Json) -> Membership:
    """The live group for this machine, created now if it is the first."""
    name = _group_name(context, env)
    if name is None:
        return Membership(_chosen_group(env))
    key = Key(context.cloud, context.director, name)
    return Membership(_await_live(context, key, env), key)


def env_with_group(env: Json, cid: str | None) -> Json:
    return {**env, "bosh": {**_bosh(env), "server_group_cid": cid}} if cid else env


def _await_live(context: CallContext, key: Key, env: Json) -> str:
    give_up, pause = time.monotonic() + context.config.groups.patience_s, _LOOK_S
    while time.monotonic() < give_up:
        row = _claim(context, key)
        if row.state == "live" and row.cid:
            return row.cid
        if row.holder == context.holder:
            _create_or_delete(context, row, env)
            continue
        time.sleep(pause)
        pause = min(pause * 1.5, 0.5)
    raise CpiError(
        f"server group {key.name} did not become ready within {context.config.groups.patience_s:.0f} s",
        why="another process is creating or removing it",
        remedy="repeat; if it goes on, look at the other calls in the log of the Director",
        retryable=True,
    )


def _claim(context: CallContext, key: Key) -> BoshGroup:
    # Waiting processes only read: fifty writers would delay the one that creates the group.
    with context.ledger.read() as tx:
        settled = bosh_groups.find_settled(tx, key)
    if settled:
        return settled
    intent = Ids().intent()
    with context.ledger.write() as tx:
        row = bosh_groups.claim(tx, key, intent, context.holder, context.lease_s)
        if row.intent == intent:
            execute(
                tx,
                objects.intend(intent, "server_group", context.cloud, director=context.director, ref=key.name),
                parts.begin(context.cloud, intent, "server_group"),
            )
    return row


def _create_or_delete(context: CallContext, row: BoshGroup, env: Json) -> None:
    def renew() -> None:
        with context.ledger.write() as tx:
            bosh_groups.renew(tx, row.key, context.holder, context.lease_s)

    with keep_renewing(context.lease_s, renew, context.ledger.failures):
        if row.state == "intended":
            _create(context, row, env)
        else:
            _delete(context, row)


def _create(context: CallContext, row: BoshGroup, env: Json) -> None:
    ledger = context.ledger
    try:
        cid = _call_create(context, _metadata(context, row.name, env), row.intent)
    except OutcomeUnknown:
        with ledger.write() as tx:
            bosh_groups.end_lease(tx, row.key, context.holder)
        raise
    except CpiError:
        with ledger.write() as tx:
            if bosh_groups.forget(tx, row.key, context.holder):
                execute(tx, objects.record_gone(row.intent))
        raise
    with ledger.write() as tx:
        if bosh_groups.record_live(tx, row.key, context.holder, cid):
            execute(tx, objects.record_created(row.intent, cid))


def _call_create(context: CallContext, metadata: GroupMetadata, intent: str) -> str:
    for _ in range(_TRIES - 1):
        try:
            return context.driver.create_server_group(metadata, mark=context.mark(intent))
        except OutcomeUnknown:
            continue  # by contract a repeat under the same mark finds or completes the first
    return context.driver.create_server_group(metadata, mark=context.mark(intent))


def _delete(context: CallContext, row: BoshGroup) -> None:
    """Delete a group that cannot be joined any more. It stays where the cloud still shows members."""
    ledger, cid = context.ledger, row.cid or context.mark(row.intent).group_cid
    try:
        context.driver.delete_server_group(cid)
    except GroupInUse:
        with ledger.write() as tx:
            bosh_groups.restore(tx, row.key, context.holder)
        return
    with ledger.write() as tx:
        if bosh_groups.forget(tx, row.key, context.holder):
            execute(tx, objects.record_gone(row.intent))


def _group_name(context: CallContext, env: Json) -> str | None:
    """The name of the group that this machine shall be in; None where there is none, or the caller chose one."""
    bosh = _bosh(env)
    name = bosh.get("group")
    if bosh.get("server_group_cid") or not isinstance(name, str) or not name:
        return None
    if _compiles(name, bosh) and not context.config.groups.compilation:
        return None
    return name if policy_of(context.config.groups, context.driver.capabilities()) else None


def _chosen_group(env: Json) -> str | None:
    """The group that the caller chose itself."""
    given = _bosh(env).get("server_group_cid")
    return given if isinstance(given, str) and given else None


def _metadata(context: CallContext, name: str, env: Json) -> GroupMetadata:
    names = _names(_bosh(env))
    return GroupMetadata(
        director={"name": names[0] if names else "bosh", "uuid": context.director},
        deployment=names[1] if names else name,
        instance_group=names[2] if names else name,
        policy=policy_of(context.config.groups, context.driver.capabilities()),
    )


def policy_of(groups: Groups, able: Capabilities) -> str | None:
    """Of the groups that are made by themselves; None where none are."""
    policies, configured = able.policies, groups.policy
    on = groups.enabled if groups.enabled is not None else bool(configured or not able.group_privilege)
    if not on:
        return None
    if configured and configured not in policies:
        raise InvalidCall(
            f"groups.policy in the configuration is {configured}, which this cloud cannot do",
            remedy=f"use one of: {', '.join(sorted(policies)) or 'none; set groups.enabled to false'}",
        )
    return configured or (DEFAULT_POLICY if DEFAULT_POLICY in policies else None)


def _bosh(env: Json) -> dict[str, Any]:
    bosh = env.get("bosh")
    return bosh if isinstance(bosh, dict) else {}


def _compiles(name: str, bosh: dict[str, Any]) -> bool:
    names = _names(bosh)
    return names[2].startswith("compilation-") if names else bool(_COMPILATION.search(name))


def _names(bosh: dict[str, Any]) -> list[str] | None:
    """Director, deployment and job come first in `groups`, each by itself."""
    names = bosh.get("groups")
    good = isinstance(names, list) and len(names) > 2 and all(isinstance(one, str) and one for one in names)
    return names if good else None
