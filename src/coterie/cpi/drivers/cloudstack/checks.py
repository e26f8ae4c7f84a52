"""Whether this cloud can do what a manifest needs, with the facts that were read on the way. Changes nothing."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from coterie.cpi.contract import CheckItem, InvalidCall, Needs
from coterie.cpi.drivers.cloudstack.catalog import Catalog
from coterie.cpi.drivers.cloudstack.client import Client, Row
from coterie.cpi.drivers.cloudstack.server_groups import POLICIES
from coterie.cpi.kit.check_items import need_items, quota_item, run_check
from coterie.cpi.kit.key_pairs import read_public_half
from coterie.cpi.kit.publishing import Publisher
from coterie.cpi.kit.quotas import az_item, host, host_items, quota
from coterie.cpi.kit.server_groups import ServerGroups
from coterie.slotted import dataclass

# name of the quota, as the planner knows it → the account's word for it
_QUOTAS = {
    "instances": "vm",
    "cpu": "cpu",
    "ram_mb": "memory",
    "volumes": "volume",
    "volume_gb": "primarystorage",
    "snapshots": "snapshot",
    "images": "template",
}
_RESOURCES = {"vm": "instances", "disk": "volumes", "snapshot": "snapshots", "image": "images"}


@dataclass(frozen=True, slots=True)
class Checks:
    client: Client
    catalog: Catalog
    publisher: Publisher
    server_groups: ServerGroups
    kinds: Collection[str]

    def identity(self) -> str | None:
        return self.catalog.account_id()

    def run(self, needs: Needs) -> list[CheckItem]:
        first = run_check("credentials", self._credentials)
        if not first.ok:
            return [first]
        return [
            first,
            run_check("azs", lambda: self._azs(needs)),
            run_check("offerings", self._offerings),
            run_check("quotas", lambda: self._quotas(needs)),
            run_check("expunge", self._expunge),
            run_check("templates", self._templates),
            *self._private_key(),
            *need_items(needs, self._policies(needs), self.kinds, self.server_groups),
            *self._hosts(needs),
        ]

    def _credentials(self) -> CheckItem:
        self.catalog.forget_account()
        version = self.catalog.account().get("cloudstackversion", "unknown")
        return CheckItem("credentials", True, f"CloudStack {version} accepts the keys")

    def _azs(self, needs: Needs) -> CheckItem:
        names = sorted(str(zone["name"]) for zone in self.catalog.zones())
        return az_item(needs, names, self.client.settings.default_zone, "zone")

    def _offerings(self) -> CheckItem:
        compute = self.catalog.compute_offerings()
        disk = self.catalog.disk_offering(None)
        if not compute:
            return CheckItem("offerings", False, "no compute offering", "have an administrator add one")
        return CheckItem("offerings", True, f"{len(compute)} compute offerings; disks by {disk['name']!r}")

    def _quotas(self, needs: Needs) -> CheckItem:
        rows, _ = self.client.page("listAccounts")
        account = rows[0] if rows else {}
        facts = {
            name: quota(account.get(f"{word}limit"), account.get(f"{word}total")) for name, word in _QUOTAS.items()
        }
        return quota_item(needs, facts, _RESOURCES)

    def _expunge(self) -> CheckItem:
        is_allowed = bool(self.catalog.account().get("allowuserexpungerecovervm"))
        if self.client.settings.expunge == "always" and not is_allowed:
            remedy = "set properties.expunge: auto, or have allow.user.expunge.recover.vm set"
            return CheckItem("expunge", False, "properties.expunge is always, and this account may not", remedy)
        if self.catalog.may_expunge():
            return CheckItem("expunge", True, "deleted VMs are expunged at once")
        may_not = "this account may not expunge: deleted VMs keep their names and places in groups until expunge.delay"
        if self.catalog.may_change_addresses():
            detail = f"{may_not}; it is stopped first and gives chosen addresses back by updateVmNicIp"
            return CheckItem("expunge", True, detail, "have allow.user.expunge.recover.vm set to free all at once")
        if self.client.settings.expunge_wait_s:
            detail = f"{may_not}; a deletion waits for that, at most {self.client.settings.expunge_wait_s:.0f} s"
            return CheckItem("expunge", True, detail)
        remedy = (
            "have allow.user.expunge.recover.vm set, or updateVmNicIp allowed to the account's role; or set "
            "properties.expunge_wait_s to more than expunge.delay and expunge.interval together"
        )
        return CheckItem("expunge", True, f"{may_not}, and its addresses too", remedy, {"keeps_addresses": True})

    def _templates(self) -> CheckItem:
        """Whether a stemcell could become a template. Nothing is registered to find out."""
        self.catalog.os_type(None)
        names = self.catalog.hypervisors()
        if self.client.settings.hypervisor not in names:
            raise InvalidCall(
                f"there is no hypervisor {self.client.settings.hypervisor!r}",
                remedy=f"set properties.hypervisor to one of: {', '.join(names) or 'none is there'}",
            )
        if self.client.settings.publish_mode == "server":
            return self.publisher.check("templates", "CloudStack")
        return self._uploading()

    def _uploading(self) -> CheckItem:
        """Only administrators see storage VMs."""
        if not self.client.settings.host_visibility:
            detail = "uploaded to the storage VM, which only an administrator can look at before"
            return CheckItem("templates", True, detail)
        rows = self.client.list_all("listSystemVms", systemvmtype="secondarystoragevm", state="Running")
        up = {row.get("zonename") for row in rows if row.get("agentstate") == "Up"}
        stores = {row.get("zonename") for row in self.client.list_all("listImageStores") if not row.get("readonly")}
        dark = sorted(str(zone["name"]) for zone in self.catalog.zones() if zone["name"] not in up & stores)
        if dark:
            detail = f"no storage VM and image store take uploads in {', '.join(dark)}"
            remedy = "have an administrator look at the secondary storage and its system VM there"
            return CheckItem("templates", False, detail, remedy)
        return CheckItem("templates", True, f"storage VMs take uploads in {', '.join(sorted(map(str, up)))}")

    def _private_key(self) -> list[CheckItem]:
        if not self.client.settings.private_key:
            return []
        if read_public_half(self.client.settings.private_key):
            return [CheckItem("private_key", True, "agents get its public half")]
        remedy = "give an OpenSSH or unencrypted RSA key as PEM text or file, or list properties.ssh_public_keys"
        return [CheckItem("private_key", False, "its public half cannot be read", remedy)]

    def _policies(self, needs: Needs) -> set[str]:
        """Those that the cloud offers, asked where some are needed."""
        rows = self.client.list_all("listAffinityGroupTypes") if needs.policies else ()
        offered = {POLICIES.get(str(row.get("type"))) for row in rows}
        return {policy for policy in offered if policy} & self.client.settings.policies

    def _hosts(self, needs: Needs) -> list[CheckItem]:
        """Only administrators see hosts."""
        if not self.client.settings.host_visibility:
            return []
        rows = self.client.list_all("listHosts", type="Routing", state="Up")
        return host_items(needs, [_host(row) for row in rows], strict=True)


def _host(row: Row) -> dict[str, Any]:
    total, taken = row.get("memorytotal"), row.get("memoryallocatedbytes", row.get("memoryallocated"))
    cores, speed, busy = row.get("cpunumber"), row.get("cpuspeed"), row.get("cpuallocatedvalue")
    free_cpu = None if None in (cores, speed, busy) else int(cores or 0) - int(busy or 0) // int(speed or 1)
    free_ram_mb = None if None in (total, taken) else (int(total or 0) - int(taken or 0)) // 2**20
    return host(str(row["name"]), row.get("zonename"), row.get("podname"), free_cpu, free_ram_mb)
