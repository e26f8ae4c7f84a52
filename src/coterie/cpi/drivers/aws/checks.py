"""Whether this account can do what a manifest needs: credentials, zones, rights by dry runs, quotas, names that are
taken, hosts to adopt. Changes nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from coterie.cpi.contract import CheckItem, CpiError, Needs, PrivilegeMissing
from coterie.cpi.drivers.aws import ec2
from coterie.cpi.drivers.aws.client import RIGHTS, Client, Refusal
from coterie.cpi.drivers.aws.properties import HOST_POLICY
from coterie.cpi.drivers.aws.server_groups import GROUPS_PER_REGION, Groups, no_host_error
from coterie.cpi.kit.check_items import credentials_item, need_items, quota_item, run_check
from coterie.cpi.kit.quotas import Quotas, az_item, quota
from coterie.slotted import dataclass

_RESOURCES = {"vm": "instances", "server_group": "server_groups", "security_group": "security_groups"}
_STANDARD_VCPUS = ("ec2", "L-1216C47A")  # of running on-demand instances of these families, together:
_STANDARD = re.compile(r"^(a|c|d|h|i|im|is|m|r|t|z)\d")
_SECURITY_GROUPS = ("vpc", "L-E79EC296")


@dataclass(frozen=True, slots=True)
class Checks:
    client: Client
    groups: Groups

    def run(self, needs: Needs) -> list[CheckItem]:
        first = credentials_item(self.identity)
        if not first.ok:
            return [first]
        return [
            first,
            run_check("azs", lambda: self._azs(needs)),
            run_check("quotas", lambda: self._quotas(needs)),
            run_check("privileges", self._privileges),
            *need_items(needs, self.client.settings.policies, ec2.LISTINGS, self.groups.server),
            *_host_items(needs),
        ]

    def identity(self) -> str:
        """Needs no right."""
        account = self.client.ask("read the account", "get_caller_identity", "sts")["Account"]
        return f"account {account} in region {self.client.settings.region}"

    def _azs(self, needs: Needs) -> CheckItem:
        zones = ec2.list_rows(self.client, "zone")
        names = sorted(str(row["ZoneName"]) for row in zones if row.get("State") == "available")
        return az_item(needs, names, self.client.settings.default_availability_zone, "availability zone")

    def _quotas(self, needs: Needs) -> CheckItem:
        """AWS counts vCPUs. An instance has at least one, so that so many instances more may fit, and never more."""
        facts: Quotas = {"server_groups": quota(GROUPS_PER_REGION, len(self.groups.placement.rows()))}
        vcpus = self._limit(*_STANDARD_VCPUS)
        if vcpus is not None:
            running = ec2.list_rows(self.client, "vm", instance_state_name=["pending", "running"])
            used = [_vcpus(row) for row in running if _STANDARD.match(str(row.get("InstanceType")))]
            facts["vcpus"] = quota(vcpus, sum(used))
            facts["instances"] = quota(len(used) + max(int(vcpus) - sum(used), 0), len(used))
        groups = self._limit(*_SECURITY_GROUPS)
        if groups is not None:
            facts["security_groups"] = quota(groups, len(ec2.list_rows(self.client, "security_group")))
        return quota_item(needs, facts, _RESOURCES, "delete some, or have AWS raise the quota")

    def _limit(self, service: str, code: str) -> float | None:
        """None where the right to read quotas was not given; then a quota shows itself when it is reached."""
        try:
            answer = self.client.ask(
                "read a quota", "get_service_quota", "service-quotas", ServiceCode=service, QuotaCode=code
            )
        except Refusal as error:
            if error.kind is not PrivilegeMissing and not error.is_one("NoSuchResourceException"):
                raise
            return None
        return float(answer["Quota"]["Value"])

    def _privileges(self) -> CheckItem:
        """By dry runs: what AWS would refuse, it says so."""
        refused = [what for what, operation, body in self._dry_runs() if not self._may(what, operation, body)]
        detail = f"not allowed to {', '.join(refused)}" if refused else "dry runs are allowed"
        return CheckItem("privileges", not refused, detail, RIGHTS if refused else "")

    def _dry_runs(self) -> list[tuple[str, str, dict[str, Any]]]:
        """What every deployment needs. The ids are of nothing: whether a right is there AWS says before it looks."""
        zone = self.client.settings.default_availability_zone or f"{self.client.settings.region}a"
        name, none = "coterie-check", "0" * 17
        vm, volume = f"i-{none}", f"vol-{none}"
        tags = [{"Key": "Name", "Value": name}]
        run = {"ImageId": f"ami-{none}", "InstanceType": "t3.nano", "MinCount": 1, "MaxCount": 1}
        return [
            ("run instances", "run_instances", run),
            ("terminate instances", "terminate_instances", {"InstanceIds": [vm]}),
            ("reboot instances", "reboot_instances", {"InstanceIds": [vm]}),
            ("attach volumes", "attach_volume", {"VolumeId": volume, "InstanceId": vm, "Device": "/dev/sdf"}),
            ("detach volumes", "detach_volume", {"VolumeId": volume}),
            ("delete volumes", "delete_volume", {"VolumeId": volume}),
            ("create snapshots", "create_snapshot", {"VolumeId": volume}),
            ("write tags", "create_tags", {"Resources": [vm], "Tags": tags}),
            ("delete placement groups", "delete_placement_group", {"GroupName": name}),
            ("create placement groups", "create_placement_group", {"GroupName": name, "Strategy": "spread"}),
            ("create volumes", "create_volume", {"AvailabilityZone": zone, "Size": 1}),
            ("create security groups", "create_security_group", {"GroupName": name, "Description": name}),
            ("list instances", "describe_instances", {}),
            ("list volumes", "describe_volumes", {}),
            ("list images", "describe_images", {"Owners": ["self"]}),
        ]

    def _may(self, what: str, operation: str, body: dict[str, Any]) -> bool:
        """Answers other than a refused right are no finding: a peer may know no dry runs."""
        try:
            self.client.ask(what, operation, DryRun=True, **body)
        except Refusal as error:
            return error.kind is not PrivilegeMissing
        except CpiError:
            return True
        return True


def _host_items(needs: Needs) -> Iterator[CheckItem]:
    """A dedicated host is adopted by its name, always."""
    for group in needs.groups:
        if group.get("policy") == HOST_POLICY and not (group.get("options") or {}).get("adopt"):
            error = no_host_error()
            yield CheckItem(f"server group {group.get('name')}", False, f"placement.adopt: {error}", error.remedy)


def _vcpus(row: Any) -> int:
    options = row.get("CpuOptions") or {}
    return int(options.get("CoreCount") or 1) * int(options.get("ThreadsPerCore") or 1)
