"""How a VM gets into its group: in the call that boots it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coterie.cpi.contract import is_adopted
from coterie.cpi.drivers.openstack.group_rows import group_missing, policy_of
from coterie.cpi.drivers.openstack.guards import Guards


@dataclass(frozen=True, slots=True)
class Place:
    """The group that a new VM goes into; `group` None where it has no policy."""

    cid: str
    group: str | None
    policy: str | None
    guards: tuple[str, ...]


class Joining(Guards):
    def place(self, env: Mapping[str, Any]) -> Place | None:
        """The group named in env.bosh.server_group_cid."""
        cid = (env.get("bosh") or {}).get("server_group_cid")
        if not cid:
            return None
        row = self.known_group(str(cid))
        memo = None if is_adopted(cid) else self.memos().get(cid)
        if row is None and (memo is None or memo.policy):
            raise group_missing(cid)
        guards = memo.guards if memo else ()
        return Place(str(cid), str(row["id"]) if row else None, policy_of(row) if row else None, guards)
