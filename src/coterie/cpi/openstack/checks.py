"""Whether this cloud can do what a manifest needs, with the facts that were read on the way. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable

from coterie.cpi.contract import CheckItem, CpiError, Needs
from coterie.cpi.contract.check_items import kind_items, policy_items
from coterie.cpi.openstack.abilities import Abilities
from coterie.cpi.openstack.calls import cloud_call
from coterie.cpi.openstack.capacity_checks import CapacityChecks
from coterie.cpi.openstack.refusals import Refusal, translate


class Checks(Abilities, CapacityChecks):
    @cloud_call
    def check(self, needs: Needs | None = None) -> list[CheckItem]:
        needs = needs or Needs()
        first = self._tried("credentials", self._credentials)
        if not first.ok:
            return [first]
        return [
            first,
            self._tried("azs", lambda: self._azs(needs)),
            self._tried("flavors", self._flavors),
            self._tried("quotas", lambda: self.quota_check(needs)),
            *policy_items(needs, self.settings.policies),
            *kind_items(needs, self.capabilities().kinds),
            *self.host_checks(needs),
        ]

    def _tried(self, what: str, look: Callable[[], CheckItem]) -> CheckItem:
        try:
            return look()
        except Refusal as error:
            told = translate(error)
            return CheckItem(what, False, str(told), told.remedy)
        except CpiError as error:
            return CheckItem(what, False, str(error), error.remedy)

    def _credentials(self) -> CheckItem:
        versions = [f"{service} {self._spoken(service)}" for service in ("compute", "block-storage")]
        return CheckItem("credentials", True, f"Keystone accepts them; {', '.join(versions)}")

    def _spoken(self, service: str) -> str:
        version = self.api.version(service)
        return f"{version[0]}.{version[1]}" if version else "without microversions"

    def _azs(self, needs: Needs) -> CheckItem:
        names, default = self.zones(), self.settings.default_availability_zone
        unknown = [az for az in (*needs.azs, *([default] if default else ())) if az not in names]
        if unknown:
            detail = f"no availability zone {', '.join(unknown)} is up"
            return CheckItem("azs", False, detail, f"use one of: {', '.join(names)}")
        return CheckItem("azs", True, f"availability zones {', '.join(names)}", facts={"azs": names})

    def _flavors(self) -> CheckItem:
        count = len(self.flavors())
        return CheckItem("flavors", count > 0, f"{count} flavors", "" if count else "have an administrator add one")
