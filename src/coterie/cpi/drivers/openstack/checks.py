"""Whether this cloud can do what a manifest needs, with the facts that were read on the way. Changes nothing."""

from __future__ import annotations

from coterie.cpi.contract import CheckItem, Needs
from coterie.cpi.drivers.openstack.abilities import Abilities
from coterie.cpi.drivers.openstack.adoption import Adoption
from coterie.cpi.drivers.openstack.capacity_checks import CapacityChecks
from coterie.cpi.drivers.openstack.inspection import Inspection
from coterie.cpi.drivers.openstack.refusals import cloud_call
from coterie.cpi.kit.check_items import group_items, kind_items, policy_items, tried


class Checks(Abilities, CapacityChecks, Inspection, Adoption):
    @cloud_call
    def check(self, needs: Needs | None = None) -> list[CheckItem]:
        needs = needs or Needs()
        first = tried("credentials", self._credentials)
        if not first.ok:
            return [first]
        return [
            first,
            tried("azs", lambda: self._azs(needs)),
            tried("flavors", self._flavors),
            tried("quotas", lambda: self.quota_check(needs)),
            *policy_items(needs, self.settings.policies),
            *group_items(needs, self.inspect_server_group, self.require_nameable),
            *kind_items(needs, self.capabilities().kinds),
            *self.host_checks(needs),
        ]

    @cloud_call
    def _credentials(self) -> CheckItem:
        versions = [f"{service} {self._spoken(service)}" for service in ("compute", "block-storage")]
        return CheckItem("credentials", True, f"Keystone accepts them; {', '.join(versions)}")

    def _spoken(self, service: str) -> str:
        version = self.api.version(service)
        return f"{version[0]}.{version[1]}" if version else "without microversions"

    @cloud_call
    def _azs(self, needs: Needs) -> CheckItem:
        names, default = self.zones(), self.settings.default_availability_zone
        unknown = [az for az in (*needs.azs, *([default] if default else ())) if az not in names]
        if unknown:
            detail = f"no availability zone {', '.join(unknown)} is up"
            return CheckItem("azs", False, detail, f"use one of: {', '.join(names)}")
        return CheckItem("azs", True, f"availability zones {', '.join(names)}", facts={"azs": names})

    @cloud_call
    def _flavors(self) -> CheckItem:
        count = len(self.flavors())
        return CheckItem("flavors", count > 0, f"{count} flavors", "" if count else "have an administrator add one")
