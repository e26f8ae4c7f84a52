"""Whether this account can do what a manifest needs: credentials, zones, rights by dry runs, quotas, names that are
taken. Changes nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from coterie.cpi.contract import AuthenticationFailed, CheckItem, CpiError, Needs, PrivilegeMissing
from coterie.cpi.drivers.aws.client import Client, Refusal
from coterie.cpi.drivers.aws.objects import _LISTINGS
from coterie.cpi.drivers.aws.server_groups import GROUPS_PER_REGION, SPREAD_PER_AZ, Groups
from coterie.cpi.kit.check_items import (
    group_items,
    kind_items,
    policy_items,
    quota_item,
    run_check,
    security_group_items,
)
from coterie.cpi.kit.quotas import Quotas, az_item, quota

_STRICT = "anti-affinity:"
_REMEDY = "give the user or role the rights in docs/aws.md"
_RESOURCES = {"server_group": "server_groups"}


@dataclass(frozen=True, slots=True)
class Checks:
    client: Client
    groups: Groups

    def run(self, needs: Needs) -> list[CheckItem]:
        try:
            account = self.account()
        except (Refusal, AuthenticationFailed, PrivilegeMissing) as error:
            if error.retryable:
                raise
            return [CheckItem("credentials", False, str(error), error.remedy)]
        return [
            CheckItem("credentials", True, f"account {account} in {self.client.settings.region}"),
            run_check("azs", lambda: self._azs(needs)),
            run_check("quotas", lambda: self._quotas(needs)),
            run_check("privileges", self._privileges),
            *policy_items(needs, self.client.settings.policies),
            *kind_items(needs, _LISTINGS),
            *_strict_items(needs),
            *group_items(needs, self.groups.server.inspect, self.groups.server.find_adopted),
            *security_group_items(needs, self.groups.server.require_security_groups),
        ]

    def account(self) -> str:
        """Needs no right."""
        return str(self.client.ask("read the account", "get_caller_identity", "sts")["Account"])

    def _azs(self, needs: Needs) -> CheckItem:
        rows = self.client.ask("list zones", "describe_availability_zones")["AvailabilityZones"]
        names = sorted(str(row["ZoneName"]) for row in rows if row.get("State") == "available")
        return az_item(needs, names, self.client.settings.default_availability_zone, "availability zone")

    def _quotas(self, needs: Needs) -> CheckItem:
        facts: Quotas = {"server_groups": quota(GROUPS_PER_REGION, len(self.groups.placement.rows()))}
        counted = Counter(needs.counts)
        return (
            quota_item(needs, facts, _RESOURCES)
            if counted
            else CheckItem("quotas", True, "enough is left", facts={"quotas": facts})
        )

    def _privileges(self) -> CheckItem:
        """By dry runs: what AWS would allow, it says so."""
        refused = [what for what, operation, body in self._dry_runs() if not self._may(what, operation, body)]
        detail = f"not allowed to {', '.join(refused)}" if refused else "dry runs are allowed"
        return CheckItem("privileges", not refused, detail, _REMEDY if refused else "")

    def _dry_runs(self) -> list[tuple[str, str, dict[str, Any]]]:
        return [
            ("create placement groups", "create_placement_group", {"GroupName": "coterie-check", "Strategy": "spread"}),
            ("list instances", "describe_instances", {}),
        ]

    def _may(self, what: str, operation: str, body: dict[str, Any]) -> bool:
        """Answers other than a refused right are no finding: a peer may know no dry runs."""
        try:
            self.client.ask(what, operation, DryRun=True, **body)
        except Refusal as error:
            return not error.is_one("UnauthorizedOperation", "AccessDenied")
        except CpiError:
            return True
        return True


def _strict_items(needs: Needs) -> list[CheckItem]:
    """A spread group takes so many running instances in one availability zone."""
    items = []
    for key, count in needs.counts.items():
        if key.startswith(_STRICT):
            az, fits = key.removeprefix(_STRICT), count <= SPREAD_PER_AZ
            detail = f"{count} members in {az}, a spread placement group takes {SPREAD_PER_AZ}"
            remedy = "" if fits else "ask for fewer instances, use more azs, or soft-anti-affinity"
            items.append(CheckItem(key, fits, detail, remedy))
    return items
