"""Whether this project can do what a manifest needs: credentials, rights, zones, quotas, names that are taken. Changes
nothing."""

from __future__ import annotations

from coterie.cpi.contract import CheckItem, CpiError, Needs, NotSupported, SecurityGroup, read_rules
from coterie.cpi.drivers.gcp.client import Client, Refusal
from coterie.cpi.drivers.gcp.machines import Machines
from coterie.cpi.drivers.gcp.networks import Subnetworks
from coterie.cpi.drivers.gcp.server_groups import Groups
from coterie.cpi.drivers.gcp.stemcells import Stemcells
from coterie.cpi.kit.check_items import (
    group_items,
    kind_items,
    policy_items,
    quota_item,
    run_check,
    security_group_items,
)
from coterie.cpi.kit.quotas import Quotas, az_item, quota
from coterie.slotted import dataclass, replace

_KINDS = ("vm", "disk", "snapshot", "image", "server_group", "security_group", "network")
# the planner's words → Google's metrics
_QUOTAS = {
    "instances": "INSTANCES",
    "server_groups": "RESOURCE_POLICIES",
    "firewall_rules": "FIREWALLS",
    "cpu": "CPUS",
}
_RESOURCES = {"vm": "instances", "server_group": "server_groups", "security_group": "firewall_rules"}
RIGHTS = (
    *(f"compute.instances.{one}" for one in ("create", "delete", "get", "list", "attachDisk", "detachDisk", "reset")),
    *(f"compute.instances.{one}" for one in ("setLabels", "setMetadata", "setTags", "setServiceAccount", "start")),
    "compute.instances.resume",
    *(f"compute.disks.{one}" for one in ("create", "createSnapshot", "delete", "get", "list", "resize", "setLabels")),
    *(f"compute.disks.{one}" for one in ("update", "use")),
    *(f"compute.snapshots.{one}" for one in ("create", "delete", "get", "list", "setLabels")),
    *(
        f"compute.images.{one}"
        for one in ("create", "delete", "get", "getFromFamily", "getIamPolicy", "list", "setLabels", "useReadOnly")
    ),
    *(f"compute.resourcePolicies.{one}" for one in ("create", "delete", "get", "list", "use")),
    *(f"compute.firewalls.{one}" for one in ("create", "delete", "get", "list", "update")),
    "compute.networks.get",
    "compute.networks.updatePolicy",
    *(f"compute.subnetworks.{one}" for one in ("create", "delete", "get", "list", "use", "useExternalIp")),
    *("compute.addresses.list", "compute.addresses.use", "compute.machineTypes.list", "compute.nodeGroups.list"),
    *("compute.nodeGroups.get", "compute.projects.get", "compute.regions.get", "compute.zoneOperations.get"),
    *("compute.regionOperations.get", "compute.globalOperations.get"),
)


_SUBNETWORK = "compute.subnetworks."
_OF_NETWORK = ("compute.firewalls.", "compute.networks.", _SUBNETWORK)


@dataclass(frozen=True, slots=True)
class Checks:
    client: Client
    groups: Groups
    machines: Machines
    stemcells: Stemcells
    networks: Subnetworks

    def run(self, needs: Needs) -> list[CheckItem]:
        try:
            project = self.client.ask("read the project", self.client.project)
        except CpiError as error:
            if error.retryable:
                raise
            return [CheckItem("credentials", False, str(error), error.remedy)]
        named = self.groups.server
        return [
            CheckItem("credentials", True, f"project {project['name']} in {self.client.settings.region}"),
            run_check("rights", self._rights),
            run_check("azs", lambda: self._azs(needs)),
            run_check("quotas", lambda: self._quotas(needs, project)),
            *self._bucket_items(),
            *policy_items(needs, self.client.settings.policies),
            *kind_items(needs, _KINDS),
            *group_items(needs, named.inspect, named.find_adopted),
            *security_group_items(needs, named.require_security_groups),
            *self._rule_items(needs),
        ]

    def identity(self) -> str:
        """Numbers of projects are never given again."""
        row = self.client.ask("read the project", self.client.project)
        return f"project {row['id']} in {self.client.settings.region}"

    def _rights(self) -> CheckItem:
        """Of a shared VPC, those on the network are needed in the project that has it."""
        settings = self.client.settings
        wanted: dict[str, list[str]] = {}
        for one in RIGHTS:
            project = settings.network_project if one.startswith(_OF_NETWORK) else settings.project
            wanted.setdefault(project, []).append(one)
        try:
            missing = [
                one if project == settings.project else f"{one} in {project}"
                for project, rights in wanted.items()
                for one in self._without_those_on_subnetwork(self._missing(project, rights))
            ]
        except Refusal as error:
            remedy = "enable the Cloud Resource Manager API, so that missing rights are told beforehand"
            return CheckItem("rights", True, f"cannot be asked: {error.why}", remedy)
        if missing:
            return CheckItem("rights", False, f"missing: {', '.join(missing)}", "apply docs/gcp-role.yaml")
        return CheckItem("rights", True, f"all {len(RIGHTS)} are there")

    def _missing(self, project: str, rights: list[str]) -> list[str]:
        url = self.client.url("cloudresourcemanager", f"v1/projects/{project}:testIamPermissions")
        answer = self.client.ask_url("read rights", url, "POST", {"permissions": rights})
        return [one for one in rights if one not in (answer.get("permissions") or ())]

    def _without_those_on_subnetwork(self, missing: list[str]) -> list[str]:
        """Google gives rights on one subnetwork, too: that of a shared VPC, for most."""
        name, asked = self.client.settings.default_subnetwork, [one for one in missing if one.startswith(_SUBNETWORK)]
        if not name or not asked:
            return missing
        url = self.client.url("compute", f"compute/v1/{self.networks.path(name)}/testIamPermissions")
        try:
            answer = self.client.ask_url("read rights on the subnetwork", url, "POST", {"permissions": asked})
        except Refusal:  # it may be seen by those with rights on it only
            return missing
        return [one for one in missing if one not in (answer.get("permissions") or ())]

    def _bucket_items(self) -> list[CheckItem]:
        bucket = self.client.settings.stemcell_bucket
        if not bucket:
            return []

        def look() -> CheckItem:
            left = self.stemcells.list_objects("cot-")
            return CheckItem("stemcell bucket", True, f"{bucket} can be listed, and holds {len(left)} uploads")

        return [run_check("stemcell bucket", look)]

    def _azs(self, needs: Needs) -> CheckItem:
        return az_item(needs, self.machines.zones(), self.client.settings.default_zone, "zone")

    def _quotas(self, needs: Needs, project: dict[str, object]) -> CheckItem:
        """Firewall rules are counted in the project that has the network; a security group is several."""
        region, settings = self.client.ask("read the region", self.client.region), self.client.settings
        if settings.network_project != settings.project:
            project = self.client.ask("read the project of the network", f"projects/{settings.network_project}")
        listed = [*(region.get("quotas") or ()), *(project.get("quotas") or ())]  # type: ignore[misc] # a list, as JSON
        rows = {row["metric"]: row for row in listed}
        facts: Quotas = {
            ours: quota(rows[metric]["limit"], rows[metric]["usage"])
            for ours, metric in _QUOTAS.items()
            if metric in rows
        }
        rules = self.groups.count_missing_rules(needs.groups)
        counts = {**needs.counts, "firewall_rules": rules} if rules else needs.counts
        return quota_item(replace(needs, counts=counts), facts, _RESOURCES)

    def _rule_items(self, needs: Needs) -> list[CheckItem]:
        """Rules that Google's firewalls do not have."""
        items = []
        for group in needs.groups:
            for one in map(SecurityGroup.of_wire, group.get("security_groups") or ()):
                try:
                    self.groups.firewalls.require_rules(read_rules(one.rules or ()))
                except NotSupported as error:
                    items.append(CheckItem(f"security group {one.name}", False, str(error), error.remedy))
        return items
