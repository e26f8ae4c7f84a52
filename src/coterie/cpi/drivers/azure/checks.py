"""Whether this subscription can do what a manifest needs: credentials, resource group, zones, fault domains, quotas,
names that are taken. Changes nothing."""

from __future__ import annotations

from coterie.cpi.contract import CheckItem, GroupMetadata, Needs
from coterie.cpi.drivers.azure.client import Client
from coterie.cpi.drivers.azure.machines import Machines
from coterie.cpi.drivers.azure.objects import TYPES
from coterie.cpi.drivers.azure.properties import SCALE_SETS
from coterie.cpi.drivers.azure.server_groups import Groups
from coterie.cpi.kit.check_items import credentials_item, need_items, quota_item, requirement_items, run_check
from coterie.cpi.kit.quotas import Quotas, az_item, quota
from coterie.slotted import dataclass, replace

# the planner's words → Azure's
_QUOTAS = {
    "instances": "virtualMachines",
    "server_groups": "availabilitySets",
    "cpu": "cores",
    "security_groups": "NetworkSecurityGroups",
}
_OF_EACH_VM = ("virtualMachines", "cores", "NetworkInterfaces")
_SCALE_SETS = "virtualMachineScaleSets"  # in place of availabilitySets, where server groups are such
_RESOURCES = {"vm": "instances", "server_group": "server_groups"}


@dataclass(frozen=True, slots=True)
class Checks:
    client: Client
    groups: Groups
    machines: Machines

    def run(self, needs: Needs) -> list[CheckItem]:
        first = credentials_item(self._resource_group)
        if not first.ok:
            return [first]
        return [
            first,
            run_check("azs", lambda: self._azs(needs)),
            run_check("quotas", lambda: self._quotas(needs)),
            *need_items(needs, self.client.settings.policies, TYPES, self.groups.server),
            *requirement_items(needs, self._require_possible),
        ]

    def identity(self) -> str:
        """Ids of subscriptions are never given again."""
        row = self.client.ask("read the resource group", self.client.group_id())
        return f"{row['id'].lower()} in {self.client.settings.location}"

    def _resource_group(self) -> str:
        row = self.client.ask("read the resource group", self.client.group_id())
        return f"resource group {row['name']} in {self.client.settings.location}"

    def _azs(self, needs: Needs) -> CheckItem:
        """Zones by their numbers; what is no number are VMs of the region."""
        rows = self.machines.list_skus()
        zones = sorted(
            {zone for row in rows for one in row.get("locationInfo") or () for zone in one.get("zones") or ()}
        )
        used = tuple(az for az in (*needs.azs, *self.client.settings.scale_set_zones) if az.isdecimal())
        most = [
            int(one["value"])
            for row in rows
            if row.get("resourceType") == "availabilitySets" and row.get("name") == "Aligned"
            for one in row.get("capabilities") or ()
            if one["name"] == "MaximumPlatformFaultDomainCount"
        ]
        item = az_item(replace(needs, azs=used), zones, None, "availability zone")
        if item.ok and most and self.client.settings.fault_domains > most[0]:
            return CheckItem(
                "azs",
                False,
                f"an availability set here has at most {most[0]} fault domains",
                f"set properties.fault_domains to {most[0]} or fewer",
            )
        return item

    def _quotas(self, needs: Needs) -> CheckItem:
        """A VM has at least one core and one NIC, so that no more VMs fit than are left of those."""
        providers, region = f"{self.client.subscription}/providers", self.client.settings.location
        paths = [f"{providers}/{one}/locations/{region}/usages" for one in ("Microsoft.Compute", "Microsoft.Network")]
        rows = {row["name"]["value"]: row for path in paths for row in self.client.list_all("read quotas", path)}
        own = {"server_groups": _SCALE_SETS} if self.client.settings.spread == SCALE_SETS else {}
        facts: Quotas = {
            ours: quota(rows[name]["limit"], rows[name]["currentValue"])
            for ours, name in {**_QUOTAS, **own}.items()
            if name in rows
        }
        bounds = [row for name, row in rows.items() if name in _OF_EACH_VM and row["limit"] >= 0]
        if "instances" in facts and bounds:
            used, left = facts["instances"]["used"] or 0, min(row["limit"] - row["currentValue"] for row in bounds)
            facts["instances"] = quota(used + max(left, 0), used)
        return quota_item(needs, facts, _RESOURCES)

    def _require_possible(self, metadata: GroupMetadata, cid: str | None) -> None:
        """Zones that a set could have, and security groups that a NIC could."""
        self.groups.require_zones(metadata)
        self.groups.require_one(metadata, cid)
