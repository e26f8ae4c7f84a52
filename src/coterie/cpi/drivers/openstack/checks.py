"""Whether this cloud can do what a manifest needs, with the facts that were read on the way. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping

from coterie.cpi.contract import CheckItem, Needs
from coterie.cpi.drivers.openstack.client import DENIED, MISSING, Client, Refusal, Row
from coterie.cpi.drivers.openstack.lookups import Lookups
from coterie.cpi.drivers.openstack.rows import LISTINGS
from coterie.cpi.kit.check_items import need_items, quota_item, run_check
from coterie.cpi.kit.quotas import Quotas, az_item, host, host_items, quota
from coterie.cpi.kit.server_groups import ServerGroups
from coterie.slotted import dataclass

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


@dataclass(frozen=True, slots=True)
class Checks:
    client: Client
    lookups: Lookups
    groups: ServerGroups

    def run(self, needs: Needs) -> list[CheckItem]:
        first = run_check("credentials", self._check_credentials)
        if not first.ok:
            return [first]
        return [
            first,
            run_check("azs", lambda: self._check_zones(needs)),
            run_check("flavors", self._check_flavors),
            run_check("quotas", lambda: self._check_quotas(needs)),
            *need_items(needs, self.client.settings.policies, LISTINGS, self.groups),
            *self._check_hosts(needs),
        ]

    def identity(self) -> str:
        """Regions that share a Keystone have the same projects, and each its own servers."""
        region = self.client.region
        return f"project {self.client.project}" + (f" in region {region}" if region else "")

    def _check_credentials(self) -> CheckItem:
        versions = [f"{service} {self._api_version(service)}" for service in ("compute", "block-storage")]
        return CheckItem("credentials", True, f"Keystone accepts them; {', '.join(versions)}")

    def _api_version(self, service: str) -> str:
        version = self.client.microversion(service)
        return f"{version[0]}.{version[1]}" if version else "without microversions"

    def _check_zones(self, needs: Needs) -> CheckItem:
        return az_item(needs, self.lookups.zones(), self.client.settings.default_availability_zone, "availability zone")

    def _check_flavors(self) -> CheckItem:
        count = len(self.lookups.flavors())
        return CheckItem("flavors", count > 0, f"{count} flavors", "" if count else "have an administrator add one")

    def _check_quotas(self, needs: Needs) -> CheckItem:
        facts = {
            **_absolute(self.client.get("read limits", "compute", "/limits"), _COMPUTE),
            **_absolute(self.client.get("read limits", "block-storage", "/limits"), _STORAGE),
            **self._network_quotas(),
        }
        return quota_item(needs, facts, _RESOURCES)

    def _network_quotas(self) -> Quotas:
        """Not every Neutron tells how much is used; then a quota shows itself when it is reached."""
        found = (self._look_if_allowed("read quotas", "network", f"/quotas/{self.client.project}/details") or {}).get(
            "quota", {}
        )
        return {
            name: quota(found[word]["limit"], found[word]["used"]) for name, word in _NETWORK.items() if word in found
        }

    def _check_hosts(self, needs: Needs) -> list[CheckItem]:
        """Only administrators see hosts; others learn from the scheduler what fits."""
        answer = self._look_if_allowed("list hosts", "compute", "/os-availability-zone/detail")
        if answer is None:
            return []
        return host_items(needs, [one for zone in answer["availabilityZoneInfo"] for one in _hosts(zone)])

    def _look_if_allowed(self, what: str, service: str, path: str) -> Row | None:
        try:
            return self.client.get(what, service, path)
        except Refusal as error:
            if error.status not in (DENIED, MISSING):
                raise
            return None


def _absolute(answer: Row, words: Mapping[str, tuple[str, str]]) -> Quotas:
    values = answer["limits"]["absolute"]
    return {name: quota(values[limit], values.get(used)) for name, (limit, used) in words.items() if limit in values}


def _hosts(zone: Row) -> list[Row]:
    return [
        host(name, str(zone["zoneName"]))
        for name, services in (zone.get("hosts") or {}).items()
        if (services.get("nova-compute") or {}).get("available") and services["nova-compute"].get("active")
    ]
