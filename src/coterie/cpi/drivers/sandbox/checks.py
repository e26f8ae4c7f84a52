"""Whether this cloud can do what a manifest needs, with the facts that were read on the way. Changes nothing.

`Needs.azs` are zones of the datacenter. Keys of `Needs.counts`: a quota's name (instances, cpu, ram_mb, volumes,
volume_gb, snapshots, images, server_groups, security_groups) or a kind (vm, disk, snapshot, image, server_group,
security_group) → how many more are needed; `anti-affinity:ZONE` → how many members of one strict group go there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coterie.cpi.contract import CheckItem, GroupMetadata, Needs
from coterie.cpi.drivers.sandbox.abilities import Abilities
from coterie.cpi.drivers.sandbox.adoption import Adoption
from coterie.cpi.drivers.sandbox.group_tags import read_wish
from coterie.cpi.drivers.sandbox.inspection import Inspection
from coterie.cpi.drivers.sandbox.refusals import cloud_call, translate
from coterie.cpi.kit.check_items import group_items, kind_items, policy_items, quota_item
from coterie.sandbox.errors import SandboxError
from coterie.sandbox.hosts import HostView, list_hosts
from coterie.sandbox.quotas import Quota, get_quotas

_RESOURCES = {
    "vm": "instances",
    "disk": "volumes",
    "snapshot": "snapshots",
    "image": "images",
    "server_group": "server_groups",
    "security_group": "security_groups",
}
_STRICT = "anti-affinity:"


class Checks(Abilities, Inspection, Adoption):
    @cloud_call
    def check(self, needs: Needs | None = None) -> list[CheckItem]:
        needs = needs or Needs()
        try:
            quotas, hosts = get_quotas(self.account), list_hosts(self.account)
        except SandboxError as error:
            told = translate(error)
            if told.retryable:
                raise told from error  # an unanswered question, not a finding
            return [CheckItem("credentials", False, str(told), told.remedy)]
        return [
            CheckItem("credentials", True, f"account {self.settings.account} is open"),
            _azs(needs, hosts),
            _quotas(needs, quotas),
            _hosts(needs, hosts),
            *policy_items(needs, self.settings.policies),
            *kind_items(needs, self.capabilities().kinds),
            *group_items(needs, self.inspect_server_group, self._require_makable),
            *_strict(needs, hosts),
            *self._layout(),
        ]

    def _require_makable(self, metadata: GroupMetadata) -> None:
        self.require_nameable(read_wish(metadata, self.settings.policies))

    def _layout(self) -> list[CheckItem]:
        began = self.account.datacenter.layout()
        if self.settings.layout is None or dict(self.settings.layout) == began:
            return []
        detail = "the datacenter was begun with another layout, and keeps it"
        return [CheckItem("layout", True, detail, "`coterie sandbox reset` begins it anew")]


def _azs(needs: Needs, hosts: Sequence[HostView]) -> CheckItem:
    zones = sorted({host.zone for host in hosts})
    unknown = [az for az in needs.azs if az not in zones]
    if unknown:
        return CheckItem("azs", False, f"no zone {', '.join(unknown)}", f"use one of: {', '.join(zones)}")
    return CheckItem("azs", True, f"zones {', '.join(zones)}", facts={"azs": zones})


def _quotas(needs: Needs, quotas: Mapping[str, Quota]) -> CheckItem:
    facts = {name: {"limit": quota.ceiling, "used": quota.used} for name, quota in quotas.items()}
    return quota_item(needs, facts, _RESOURCES, "ask for fewer, delete some, or `coterie sandbox quota set`")


def _hosts(needs: Needs, hosts: Sequence[HostView]) -> CheckItem:
    up = [host for host in hosts if host.up]
    dark = [az for az in needs.azs if not any(host.zone == az for host in up)]
    detail = f"no host is up in {', '.join(dark)}" if dark else f"{len(up)} of {len(hosts)} hosts are up"
    return CheckItem(
        "hosts", not dark, detail, "`coterie sandbox host up NAME`" if dark else "", {"hosts": [_fact(h) for h in up]}
    )


def _fact(host: HostView) -> dict[str, Any]:
    return {
        "name": host.name,
        "az": host.zone,
        "rack": host.rack,
        "free_cpu": host.free_cpu,
        "free_ram_mb": host.free_ram_mb,
    }


def _strict(needs: Needs, hosts: Sequence[HostView]) -> list[CheckItem]:
    items = []
    for key, count in needs.counts.items():
        if not key.startswith(_STRICT):
            continue
        zone = key.removeprefix(_STRICT)
        up = sum(1 for host in hosts if host.up and host.zone == zone)
        detail = f"{count} members need {count} hosts in {zone}, {up} are up"
        remedy = "" if up >= count else "ask for fewer instances, add hosts, or use soft-anti-affinity"
        items.append(CheckItem(key, up >= count, detail, remedy))
    return items
