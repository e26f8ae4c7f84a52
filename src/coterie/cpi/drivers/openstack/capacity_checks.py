"""Whether there is room for what a manifest needs: the project's quotas, and hosts where they can be seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.cpi.contract import CheckItem, Needs
from coterie.cpi.drivers.openstack.api import Row
from coterie.cpi.drivers.openstack.lookups import Lookups
from coterie.cpi.drivers.openstack.refusals import DENIED, MISSING, Refusal, cloud_call
from coterie.cpi.kit.check_items import quota_item

Quotas = dict[str, dict[str, int | None]]
# name of the quota, as the planner knows it → Nova's and Cinder's words for limit and use
_COMPUTE = {
    "instances": ("maxTotalInstances", "totalInstancesUsed"),
    "cpu": ("maxTotalCores", "totalCoresUsed"),
    "ram_mb": ("maxTotalRAMSize", "totalRAMUsed"),
    "server_groups": ("maxServerGroups", "totalServerGroupsUsed"),
    "server_group_members": ("maxServerGroupMembers", ""),
}
_STORAGE = {
    "volumes": ("maxTotalVolumes", "totalVolumesUsed"),
    "volume_gb": ("maxTotalVolumeGigabytes", "totalGigabytesUsed"),
    "snapshots": ("maxTotalSnapshots", "totalSnapshotsUsed"),
}
_NETWORK = {"ports": "port", "security_groups": "security_group", "ips": "floatingip"}
_RESOURCES = {
    "vm": "instances",
    "disk": "volumes",
    "snapshot": "snapshots",
    "port": "ports",
    "ip": "ips",
    "server_group": "server_groups",
    "security_group": "security_groups",
}


class CapacityChecks(Lookups):
    @cloud_call
    def quota_check(self, needs: Needs) -> CheckItem:
        facts = {
            **_absolute(self.api.get("read limits", "compute", "/limits"), _COMPUTE),
            **_absolute(self.api.get("read limits", "block-storage", "/limits"), _STORAGE),
            **self._network_quotas(),
        }
        return quota_item(needs, facts, _RESOURCES)

    def host_checks(self, needs: Needs) -> list[CheckItem]:
        """Only administrators see hosts; others learn from the scheduler what fits."""
        try:
            answer = self.api.get("list hosts", "compute", "/os-availability-zone/detail")
        except Refusal as error:
            if error.status not in (DENIED, MISSING):
                raise
            return []
        hosts = [host for zone in answer["availabilityZoneInfo"] for host in _hosts(zone)]
        dark = [az for az in needs.azs if not any(host["az"] == az for host in hosts)]
        detail = f"no host is up in {', '.join(dark)}" if dark else f"{len(hosts)} hosts are up"
        remedy = "have an administrator look at them" if dark else ""
        return [CheckItem("hosts", not dark, detail, remedy, {"hosts": hosts})]

    def _network_quotas(self) -> Quotas:
        """Not every Neutron tells how much is used; then a quota shows itself when it is reached."""
        path = f"/quotas/{self.api.project}/details"
        try:
            found = self.api.get("read quotas", "network", path)["quota"]
        except Refusal as error:
            if error.status not in (DENIED, MISSING):
                raise
            return {}
        return {
            name: {"limit": _limit(found[word]["limit"]), "used": int(found[word]["used"])}
            for name, word in _NETWORK.items()
            if word in found
        }


def _absolute(answer: Row, words: Mapping[str, tuple[str, str]]) -> Quotas:
    values = answer["limits"]["absolute"]
    return {
        name: {"limit": _limit(values[limit]), "used": int(values.get(used) or 0)}
        for name, (limit, used) in words.items()
        if limit in values
    }


def _limit(value: Any) -> int | None:
    """Below zero: as many as there are."""
    return int(value) if int(value) >= 0 else None


def _hosts(zone: Row) -> list[dict[str, Any]]:
    unknown = {"rack": None, "free_cpu": None, "free_ram_mb": None}
    return [
        {"name": name, "az": str(zone["zoneName"]), **unknown}
        for name, services in (zone.get("hosts") or {}).items()
        if (services.get("nova-compute") or {}).get("available") and services["nova-compute"].get("active")
    ]
