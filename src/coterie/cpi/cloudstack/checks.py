"""Whether this cloud can do what a manifest needs, with the facts that were read on the way. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from coterie.cpi.cloudstack.abilities import Abilities
from coterie.cpi.cloudstack.affinity import POLICIES
from coterie.cpi.cloudstack.api import Row
from coterie.cpi.cloudstack.calls import cloud_call
from coterie.cpi.cloudstack.refusals import Refusal, translate
from coterie.cpi.cloudstack.removal import Removal
from coterie.cpi.contract import CheckItem, CpiError, Needs

# name of the quota, as the planner knows it → the account's words for it
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
_STRICT = "anti-affinity:"


class Checks(Abilities, Removal):
    @cloud_call
    def check(self, needs: Needs | None = None) -> list[CheckItem]:
        needs = needs or Needs()
        first = self._tried("credentials", self._credentials)
        if not first.ok:
            return [first]
        return [
            first,
            self._tried("azs", lambda: self._azs(needs)),
            self._tried("offerings", self._offerings),
            self._tried("quotas", lambda: self._quotas(needs)),
            self._tried("expunge", self._expunge),
            *self._policies(needs),
            *self._kinds(needs),
            *self._hosts(needs),
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
        self._known.pop("listCapabilities", None)
        version = self.remembered_capabilities().get("cloudstackversion", "unknown")
        return CheckItem("credentials", True, f"CloudStack {version} accepts the keys")

    def _azs(self, needs: Needs) -> CheckItem:
        names = sorted(str(zone["name"]) for zone in self.zones())
        unknown = [az for az in needs.azs if az not in names]
        if self.settings.default_zone and self.settings.default_zone not in names:
            unknown.append(self.settings.default_zone)
        if unknown:
            return CheckItem("azs", False, f"no zone {', '.join(unknown)}", f"use one of: {', '.join(names)}")
        return CheckItem("azs", True, f"zones {', '.join(names)}", facts={"azs": names})

    def _offerings(self) -> CheckItem:
        compute = self.remembered("listServiceOfferings")
        disk = self.disk_offering(None)
        if not compute:
            return CheckItem("offerings", False, "no compute offering", "have an administrator add one")
        return CheckItem("offerings", True, f"{len(compute)} compute offerings; disks by {disk['name']!r}")

    def _quotas(self, needs: Needs) -> CheckItem:
        rows, _ = self.api.page("listAccounts", 1)
        facts = _read_quotas(rows[0] if rows else {})
        asked: dict[str, int] = {}
        for key, count in needs.counts.items():
            resource = _RESOURCES.get(key, key)
            asked[resource] = asked.get(resource, 0) + count
        short = [
            f"{name}: {asked[name]} more needed, {one['used']} of {one['limit']} used"
            for name, one in facts.items()
            if asked.get(name) and one["limit"] is not None and (one["used"] or 0) + asked[name] > one["limit"]
        ]
        remedy = "ask for fewer, delete some, or have an administrator raise the limit" if short else ""
        return CheckItem("quotas", not short, "; ".join(short) or "enough is left", remedy, {"quotas": facts})

    def _expunge(self) -> CheckItem:
        if self.may_expunge():
            return CheckItem("expunge", True, "deleted VMs are expunged at once")
        detail = "this account may not expunge: addresses of deleted VMs are free only after expunge.delay"
        return CheckItem("expunge", True, detail, "have allow.user.expunge.recover.vm set, or wait")

    def _policies(self, needs: Needs) -> list[CheckItem]:
        if not needs.policies:
            return []
        offered = {POLICIES.get(str(row.get("type"))) for row in self.api.every("listAffinityGroupTypes")}
        can = {policy for policy in offered if policy} & self.settings.policies
        return [
            CheckItem(f"policy {policy}", True, "possible")
            if policy in can
            else CheckItem(
                f"policy {policy}", False, "impossible on this cloud", f"use {', '.join(sorted(can)) or 'no policy'}"
            )
            for policy in needs.policies
        ]

    def _kinds(self, needs: Needs) -> list[CheckItem]:
        can = self.capabilities().kinds
        return [
            CheckItem(f"kind {kind}", False, "this cloud makes none", "do without")
            for kind in needs.kinds
            if kind not in can
        ]

    def _hosts(self, needs: Needs) -> list[CheckItem]:
        """Only administrators see hosts."""
        if not self.settings.host_visibility:
            return []
        rows = list(self.api.every("listHosts", type="Routing", state="Up"))
        dark = [az for az in needs.azs if not any(row.get("zonename") == az for row in rows)]
        detail = f"no host is up in {', '.join(dark)}" if dark else f"{len(rows)} hosts are up"
        remedy = "have an administrator look at them" if dark else ""
        items = [CheckItem("hosts", not dark, detail, remedy, {"hosts": [_host(row) for row in rows]})]
        for key, count in needs.counts.items():
            if key.startswith(_STRICT):
                items.append(_strict(key, count, rows))
        return items


def _strict(key: str, count: int, rows: list[Row]) -> CheckItem:
    zone = key.removeprefix(_STRICT)
    up = sum(1 for row in rows if row.get("zonename") == zone)
    detail = f"{count} members need {count} hosts in {zone}, {up} are up"
    remedy = "" if up >= count else "ask for fewer instances, add hosts, or use soft-anti-affinity"
    return CheckItem(key, up >= count, detail, remedy)


def _read_quotas(account: Row) -> dict[str, dict[str, int | None]]:
    facts: dict[str, dict[str, int | None]] = {}
    for name, word in _QUOTAS.items():
        limit = str(account.get(f"{word}limit", "Unlimited"))
        used = int(float(account.get(f"{word}total") or 0))
        facts[name] = {"limit": int(limit) if limit.isdecimal() else None, "used": used}
    return facts


def _host(row: Row) -> Mapping[str, Any]:
    total, taken = row.get("memorytotal"), row.get("memoryallocatedbytes", row.get("memoryallocated"))
    cores, speed, busy = row.get("cpunumber"), row.get("cpuspeed"), row.get("cpuallocatedvalue")
    return {
        "name": row["name"],
        "az": row.get("zonename"),
        "rack": row.get("podname"),
        "free_cpu": None if None in (cores, speed, busy) else int(cores or 0) - int(busy or 0) // int(speed or 1),
        "free_ram_mb": None if None in (total, taken) else (int(total or 0) - int(taken or 0)) // 2**20,
    }
