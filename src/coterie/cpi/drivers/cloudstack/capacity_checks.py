"""Whether there is room for what a manifest needs: the account's limits, and hosts where they can be seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.cpi.contract import CheckItem, Needs
from coterie.cpi.drivers.cloudstack.api import Row
from coterie.cpi.drivers.cloudstack.cloud import CloudstackCloud
from coterie.cpi.drivers.cloudstack.refusals import cloud_call
from coterie.cpi.kit.check_items import quota_item

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


class CapacityChecks(CloudstackCloud):
    @cloud_call
    def quota_check(self, needs: Needs) -> CheckItem:
        rows, _ = self.api.page("listAccounts", 1)
        facts = _read_quotas(rows[0] if rows else {})
        return quota_item(needs, facts, _RESOURCES)

    def host_checks(self, needs: Needs) -> list[CheckItem]:
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
