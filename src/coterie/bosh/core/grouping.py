"""Which group a machine belongs to, by what the Director says in `env`. Decides; creates nothing."""

from __future__ import annotations

import re
from typing import Any

from coterie.bosh.core.call_context import Desk
from coterie.cpi.contract import GroupMetadata, InvalidCall, Json

DEFAULT_POLICY = "soft-anti-affinity"
_COMPILATION = re.compile(r"(^|-)compilation-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


def wanted(desk: Desk, env: Json) -> str | None:
    """The name of the group that this machine shall be in; None where there is none, or the caller chose one."""
    bosh = _bosh(env)
    name = bosh.get("group")
    if bosh.get("server_group_cid") or not isinstance(name, str) or not name or not desk.config.groups.enabled:
        return None
    if _compiles(name, bosh) and not desk.config.groups.compilation:
        return None
    return name if policy(desk) else None


def chosen(env: Json) -> str | None:
    """The group that the caller itself chose."""
    given = _bosh(env).get("server_group_cid")
    return given if isinstance(given, str) and given else None


def with_group(env: Json, cid: str | None) -> Json:
    return {**env, "bosh": {**_bosh(env), "server_group_cid": cid}} if cid else env


def metadata(desk: Desk, name: str, env: Json) -> GroupMetadata:
    names = _names(_bosh(env))
    return GroupMetadata(
        director={"name": names[0] if names else "bosh", "uuid": desk.director},
        deployment=names[1] if names else name,
        instance_group=names[2] if names else name,
        policy=policy(desk),
    )


def policy(desk: Desk) -> str | None:
    policies, told = desk.driver.capabilities().policies, desk.config.groups.policy
    if told and told not in policies:
        raise InvalidCall(
            f"groups.policy in the configuration is {told}, which this cloud cannot do",
            remedy=f"use one of: {', '.join(sorted(policies)) or 'none; set groups.enabled to false'}",
        )
    return told or (DEFAULT_POLICY if DEFAULT_POLICY in policies else None)


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
