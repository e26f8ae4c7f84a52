"""Failure domains, for a sandbox that plays a cloud without hosts: racks, which the driver chooses for members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.cpi.contract import CheckItem, GroupLimit, Needs
from coterie.cpi.drivers.sandbox.account import CloudAccount
from coterie.cpi.drivers.sandbox.properties import Settings
from coterie.sandbox.hosts import list_hosts

WORD = "rack"
_APART = ("anti-affinity", "soft-anti-affinity")


class Domains:
    """`are_shown`: in place of hosts."""

    def __init__(self, cloud: CloudAccount, settings: Settings) -> None:
        self._cloud = cloud
        self._number = settings.domains

    @property
    def are_shown(self) -> bool:
        return self._number is not None

    @property
    def words(self) -> Mapping[str, str]:
        return dict.fromkeys(_APART, WORD) if self.are_shown else {}

    @property
    def limits(self) -> Mapping[str, GroupLimit]:
        return {"anti-affinity": GroupLimit(members_per_az=self._number)} if self.are_shown else {}

    def choose(self, policy: str | None, zone: str | None, env: Mapping[str, Any]) -> str | None:
        """The rack of the member that is made: it follows from its number. None: any."""
        member = (env.get("bosh") or {}).get("server_group_member")
        if self._number is None or policy not in _APART or member is None or zone is None:
            return None
        racks = self._racks(zone)[: self._number]
        return racks[int(member) % len(racks)] if racks else None

    def of_hosts(self) -> Mapping[str, str]:
        """Host → its failure domain."""
        return {host.name: host.rack for host in list_hosts(self._cloud.account)} if self.are_shown else {}

    def items(self, needs: Needs) -> list[CheckItem]:
        short = [az for az in needs.azs if len(self._racks(az)) < (self._number or 0)]
        if not short:
            return []
        detail = f"properties.domains is {self._number}, but {', '.join(short)} has fewer racks"
        return [CheckItem("domains", False, detail, "give a smaller number, or begin the datacenter with more racks")]

    def _racks(self, zone: str) -> list[str]:
        return sorted({host.rack for host in list_hosts(self._cloud.account) if host.zone == zone})
