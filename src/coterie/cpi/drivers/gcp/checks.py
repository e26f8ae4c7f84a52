"""Whether this project can do what a manifest needs: credentials, rights, zones, quotas, names that are taken. Changes
nothing."""

from __future__ import annotations

from coterie.cpi.contract import CheckItem, Needs
from coterie.cpi.drivers.gcp.client import OF_NETWORK, Client, Refusal
from coterie.cpi.drivers.gcp.machines import Machines
from coterie.cpi.drivers.gcp.marks import Row
from coterie.cpi.drivers.gcp.objects import KINDS
from coterie.cpi.drivers.gcp.server_groups import Groups
from coterie.cpi.drivers.gcp.stemcells import Stemcells
from coterie.cpi.kit.check_items import credentials_item, need_items, quota_item, run_check
from coterie.cpi.kit.quotas import Quotas, az_item, quota
from coterie.slotted import dataclass, replace

# the planner's words → Google's metrics
_QUOTAS = {
    "instances": "INSTANCES",
    "server_groups": "RESOURCE_POLICIES",
    "firewall_rules": "FIREWALLS",
    "cpu": "CPUS",
}
_RESOURCES = {"vm": "instances", "server_group": "server_groups", "security_group": "firewall_rules"}
_VERBS = {
    "instances": "create delete get list attachDisk detachDisk reset resume start setLabels setMetadata setTags "
    "setServiceAccount",
    "disks": "create createSnapshot delete get list resize setLabels update use",
    "snapshots": "create delete get list setLabels",
    "images": "create delete get getFromFamily getIamPolicy list setLabels useReadOnly",
    "resourcePolicies": "create delete get list use",
    "firewalls": "create delete get list update",
    "networks": "get updatePolicy",
    "subnetworks": "create delete get list use useExternalIp",
    "addresses": "list use",
    "machineTypes": "list",
    "nodeGroups": "get list",
    **dict.fromkeys(("projects", "regions", "zoneOperations", "regionOperations", "globalOperations"), "get"),
}
RIGHTS = tuple(f"compute.{kind}.{verb}" for kind, verbs in _VERBS.items() for verb in verbs.split())
_SUBNETWORK = "compute.subnetworks."


@dataclass(frozen=True, slots=True)
class Checks:
    client: Client
    groups: Groups
    machines: Machines
    stemcells: Stemcells

    def run(self, needs: Needs) -> list[CheckItem]:
        first, settings = credentials_item(self._project), self.client.settings
        if not first.ok:
            return [first]
        return [
            first,
            run_check("rights", self._rights),
            run_check("azs", lambda: az_item(needs, self.machines.zones(), settings.default_zone, "zone")),
            run_check("quotas", lambda: self._quotas(needs)),
            *([run_check("stemcell bucket", self._bucket)] if settings.stemcell_bucket else []),
            *need_items(needs, settings.policies, KINDS, self.groups.server),
        ]

    def identity(self) -> str:
        """Numbers of projects are never given again."""
        row = self.client.ask("read the project", self.client.project)
        return f"project {row['id']} in {self.client.settings.region}"

    def _project(self) -> str:
        row = self.client.ask("read the project", self.client.project)
        return f"project {row['name']} in {self.client.settings.region}"

    def _rights(self) -> CheckItem:
        """Of a shared VPC, those on the network are needed in the project that has it."""
        settings = self.client.settings
        wanted: dict[str, list[str]] = {}
        for one in RIGHTS:
            project = settings.network_project if one.split(".")[1] in OF_NETWORK else settings.project
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
        return _not_granted(rights, self.client.ask_url("read rights", url, "POST", {"permissions": rights}))

    def _without_those_on_subnetwork(self, missing: list[str]) -> list[str]:
        """Google gives rights on one subnetwork, too: that of a shared VPC, for most."""
        name, asked = self.client.settings.default_subnetwork, [one for one in missing if one.startswith(_SUBNETWORK)]
        if not name or not asked:
            return missing
        path = f"{self.client.path('subnetworks', name)}/testIamPermissions"
        try:
            answer = self.client.ask("read rights on the subnetwork", path, "POST", {"permissions": asked})
        except Refusal:  # it may be seen by those with rights on it only
            return missing
        return _not_granted(missing, answer)

    def _bucket(self) -> CheckItem:
        bucket, left = self.client.settings.stemcell_bucket, self.stemcells.list_objects("cot-")
        return CheckItem("stemcell bucket", True, f"{bucket} can be listed, and holds {len(left)} uploads")

    def _quotas(self, needs: Needs) -> CheckItem:
        """Firewall rules are counted in the project that has the network; a security group is several."""
        region, network = self.client.region, f"projects/{self.client.settings.network_project}"
        answers = (self.client.ask("read the region", region), self.client.ask("read the network's project", network))
        rows = {row["metric"]: row for answer in answers for row in answer.get("quotas") or ()}
        facts: Quotas = {
            ours: quota(rows[metric]["limit"], rows[metric]["usage"])
            for ours, metric in _QUOTAS.items()
            if metric in rows
        }
        rules = self.groups.firewalls.count_missing(needs.groups)
        counts = {**needs.counts, "firewall_rules": rules} if rules else needs.counts
        return quota_item(replace(needs, counts=counts), facts, _RESOURCES)


def _not_granted(rights: list[str], answer: Row) -> list[str]:
    return [one for one in rights if one not in (answer.get("permissions") or ())]
