"""Whether this cloud can do what a manifest needs, with the facts that were read on the way. Changes nothing."""

from __future__ import annotations

from coterie.cpi.contract import CheckItem, Needs
from coterie.cpi.drivers.cloudstack.abilities import Abilities
from coterie.cpi.drivers.cloudstack.adoption import Adoption
from coterie.cpi.drivers.cloudstack.affinity import POLICIES
from coterie.cpi.drivers.cloudstack.capacity_checks import CapacityChecks
from coterie.cpi.drivers.cloudstack.inspection import Inspection
from coterie.cpi.drivers.cloudstack.refusals import cloud_call
from coterie.cpi.drivers.cloudstack.removal import Removal
from coterie.cpi.drivers.cloudstack.template_checks import TemplateChecks
from coterie.cpi.kit.check_items import group_items, kind_items, policy_items, tried


class Checks(Abilities, CapacityChecks, TemplateChecks, Removal, Inspection, Adoption):
    @cloud_call
    def check(self, needs: Needs | None = None) -> list[CheckItem]:
        needs = needs or Needs()
        first = tried("credentials", self._credentials)
        if not first.ok:
            return [first]
        return [
            first,
            tried("azs", lambda: self._azs(needs)),
            tried("offerings", self._offerings),
            tried("quotas", lambda: self.quota_check(needs)),
            tried("expunge", self._expunge),
            tried("templates", self.template_check),
            *self._keys(),
            *self._policies(needs),
            *group_items(needs, self.inspect_server_group, self.require_nameable),
            *kind_items(needs, self.capabilities().kinds),
            *self.host_checks(needs),
        ]

    @cloud_call
    def _credentials(self) -> CheckItem:
        self._known.pop("listCapabilities", None)
        version = self.remembered_capabilities().get("cloudstackversion", "unknown")
        return CheckItem("credentials", True, f"CloudStack {version} accepts the keys")

    @cloud_call
    def _azs(self, needs: Needs) -> CheckItem:
        names = sorted(str(zone["name"]) for zone in self.zones())
        unknown = [az for az in needs.azs if az not in names]
        if self.settings.default_zone and self.settings.default_zone not in names:
            unknown.append(self.settings.default_zone)
        if unknown:
            return CheckItem("azs", False, f"no zone {', '.join(unknown)}", f"use one of: {', '.join(names)}")
        return CheckItem("azs", True, f"zones {', '.join(names)}", facts={"azs": names})

    @cloud_call
    def _offerings(self) -> CheckItem:
        compute = self.remembered("listServiceOfferings")
        disk = self.disk_offering(None)
        if not compute:
            return CheckItem("offerings", False, "no compute offering", "have an administrator add one")
        return CheckItem("offerings", True, f"{len(compute)} compute offerings; disks by {disk['name']!r}")

    @cloud_call
    def _expunge(self) -> CheckItem:
        allowed = bool(self.remembered_capabilities().get("allowuserexpungerecovervm"))
        if self.settings.expunge == "always" and not allowed:
            remedy = "set properties.expunge: auto, or have allow.user.expunge.recover.vm set"
            return CheckItem("expunge", False, "properties.expunge is always, and this account may not", remedy)
        if self.may_expunge():
            return CheckItem("expunge", True, "deleted VMs are expunged at once")
        detail = "this account may not expunge: addresses of deleted VMs are free only after expunge.delay"
        return CheckItem("expunge", True, detail, "have allow.user.expunge.recover.vm set, or wait")

    def _keys(self) -> list[CheckItem]:
        """Of the private key, only what becomes of it is told."""
        if not self.settings.private_key:
            return []
        if self.own_public_key():
            return [CheckItem("private_key", True, "its public half is told to agents")]
        remedy = "give an OpenSSH or unencrypted RSA key as PEM text or file, or list properties.ssh_public_keys"
        return [CheckItem("private_key", False, "its public half cannot be read", remedy)]

    def _policies(self, needs: Needs) -> list[CheckItem]:
        if not needs.policies:
            return []
        offered = {POLICIES.get(str(row.get("type"))) for row in self.api.every("listAffinityGroupTypes")}
        return policy_items(needs, {policy for policy in offered if policy} & self.settings.policies)
