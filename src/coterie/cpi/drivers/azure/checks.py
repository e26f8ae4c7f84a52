"""Whether this subscription can do what a manifest needs: credentials, resource group, zones, fault domains, quotas,
names that are taken. Changes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.cpi.contract import CheckItem, CpiError, GroupMetadata, InvalidCall, Needs, NotSupported
from coterie.cpi.drivers.azure.client import Client
from coterie.cpi.drivers.azure.machines import Machines
from coterie.cpi.drivers.azure.properties import SCALE_SETS
from coterie.cpi.drivers.azure.server_groups import Groups
from coterie.cpi.kit.check_items import (
    group_items,
    kind_items,
    policy_items,
    quota_item,
    run_check,
    security_group_items,
)
from coterie.cpi.kit.quotas import Quotas, quota

_KINDS = ("vm", "disk", "snapshot", "image", "server_group", "security_group", "port")
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
        try:
            group = self.client.ask("read the resource group", self.client.group_id())
        except CpiError as error:
            if error.retryable:
                raise
            return [CheckItem("credentials", False, str(error), error.remedy)]
        named = self.groups.server
        return [
            CheckItem("credentials", True, f"resource group {group['name']} in {self.client.settings.location}"),
            run_check("azs", lambda: self._azs(needs)),
            run_check("quotas", lambda: self._quotas(needs)),
            *policy_items(needs, self.client.settings.policies),
            *kind_items(needs, _KINDS),
            *group_items(needs, named.inspect, named.find_adopted),
            *security_group_items(needs, named.require_security_groups),
            *self._group_items(needs),
        ]

    def identity(self) -> str:
        """Ids of subscriptions are never given again."""
        row = self.client.ask("read the resource group", self.client.group_id())
        return f"{row['id'].lower()} in {self.client.settings.location}"

    def _azs(self, needs: Needs) -> CheckItem:
        """Zones by their numbers; what is no number are VMs of the region."""
        rows = self.machines.list_skus()
        zones = sorted(
            {zone for row in rows for one in row.get("locationInfo") or () for zone in one.get("zones") or ()}
        )
        used = (*needs.azs, *self.client.settings.scale_set_zones)
        unknown = sorted({az for az in used if az.isdecimal() and az not in zones})
        most = [
            int(one["value"])
            for row in rows
            if row.get("resourceType") == "availabilitySets" and row.get("name") == "Aligned"
            for one in row.get("capabilities") or ()
            if one["name"] == "MaximumPlatformFaultDomainCount"
        ]
        if unknown:
            remedy = f"use one of: {', '.join(zones) or 'none, leave availability_zone out'}"
            return CheckItem("azs", False, f"there is no availability zone {', '.join(unknown)}", remedy)
        if most and self.client.settings.fault_domains > most[0]:
            return CheckItem(
                "azs",
                False,
                f"an availability set here has at most {most[0]} fault domains",
                f"set properties.fault_domains to {most[0]} or fewer",
            )
        return CheckItem("azs", True, f"availability zones {', '.join(zones) or 'none'}", facts={"azs": zones})

    def _quotas(self, needs: Needs) -> CheckItem:
        """A VM has at least one core and one NIC, so that no more VMs fit than are left of those."""
        paths = [f"{self.client.in_region(one)}/usages" for one in ("Microsoft.Compute", "Microsoft.Network")]
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

    def _group_items(self, needs: Needs) -> list[CheckItem]:
        """Security groups that no NIC could have, and zones that no set could."""
        items = []
        for group in needs.groups:
            metadata = GroupMetadata.of_wire(
                {"director": {}, "deployment": "", "instance_group": group["name"], **group}
            )
            try:
                self.groups.require_zones(metadata, metadata.azs)
                if len(metadata.security_groups) > 1:
                    self.groups.require_one(metadata, group.get("cid"))
            except (NotSupported, InvalidCall) as error:
                field = error.details.get("field", "security_groups")
                items.append(CheckItem(f"server group {group['name']}", False, f"{field}: {error}", error.remedy))
            except CpiError as error:
                if error.retryable:
                    raise  # a question without an answer; names that are taken were told before
        return items
