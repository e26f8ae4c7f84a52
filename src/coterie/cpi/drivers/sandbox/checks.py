"""Whether this cloud can do what a manifest needs, with the facts that were read on the way. Changes nothing.

`Needs.azs` are zones of the datacenter. Keys of `Needs.counts`: a quota's name (instances, cpu, ram_mb, volumes,
volume_gb, snapshots, images, server_groups, security_groups) or a kind (vm, disk, snapshot, image, server_group,
security_group) → how many more are needed; `anti-affinity:ZONE` → how many members of one strict group go there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from coterie.cpi.contract import CheckItem, Needs
from coterie.cpi.drivers.sandbox.account import CloudAccount
from coterie.cpi.drivers.sandbox.domains import Domains
from coterie.cpi.drivers.sandbox.errors import translate
from coterie.cpi.drivers.sandbox.properties import Settings
from coterie.cpi.drivers.sandbox.server_groups import ServerGroups
from coterie.cpi.kit.check_items import group_items, kind_items, policy_items, quota_item, security_group_items
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


class Checks:
    """`kinds`: those that the cloud creates."""

    def __init__(
        self, cloud: CloudAccount, groups: ServerGroups, settings: Settings, kinds: Collection[str], domains: Domains
    ) -> None:
        self._cloud = cloud
        self._groups = groups
        self._settings = settings
        self._kinds = kinds
        self._domains = domains

    def identity(self) -> str:
        return self._cloud.identity()

    def run(self, needs: Needs) -> list[CheckItem]:
        try:
            quotas, hosts = get_quotas(self._cloud.account), list_hosts(self._cloud.account)
        except SandboxError as error:
            refusal = translate(error)
            if refusal.retryable:
                raise  # an unanswered question, not a finding
            return [CheckItem("credentials", False, str(refusal), refusal.remedy)]
        return [
            CheckItem("credentials", True, f"account {self._settings.account} is open"),
            _azs(needs, hosts),
            _quotas(needs, quotas),
            _hosts(needs, hosts, are_shown=not self._domains.are_shown),
            *policy_items(needs, self._settings.policies),
            *kind_items(needs, self._kinds),
            *group_items(needs, self._groups.inspect, self._groups.require_creatable),
            *security_group_items(needs, self._groups.require_security_groups),
            *(self._domains.items(needs) if self._domains.are_shown else _strict(needs, hosts)),
            *self._layout(),
        ]

    def _layout(self) -> list[CheckItem]:
        began = self._cloud.account.datacenter.layout()
        if self._settings.layout is None or dict(self._settings.layout) == began:
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


def _hosts(needs: Needs, hosts: Sequence[HostView], *, are_shown: bool) -> CheckItem:
    up = [host for host in hosts if host.up]
    dark = [az for az in needs.azs if not any(host.zone == az for host in up)]
    detail = f"no host is up in {', '.join(dark)}" if dark else f"{len(up)} of {len(hosts)} hosts are up"
    facts = {"hosts": [_fact(host) for host in up]} if are_shown else None
    return CheckItem("hosts", not dark, detail, "`coterie sandbox host up NAME`" if dark else "", facts)


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
