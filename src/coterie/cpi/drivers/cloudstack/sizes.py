"""Which offerings fit what a VM needs: the smallest, or a clear error; never the largest in its stead."""

from __future__ import annotations

from collections.abc import Mapping

from coterie.cpi.contract import CpiError, InvalidCall, Json
from coterie.cpi.drivers.cloudstack.api import Row
from coterie.cpi.drivers.cloudstack.lookups import Lookups
from coterie.cpi.drivers.cloudstack.refusals import cloud_call

_NEEDED = ("cpu", "ram", "ephemeral_disk_size")


class Sizes(Lookups):
    @cloud_call
    def calculate_vm_cloud_properties(self, requirements: Mapping[str, int]) -> Json:
        for key in _NEEDED:
            if not isinstance(requirements.get(key), int):
                raise InvalidCall(f"requirements.{key} is missing or no number", remedy="give cpu, ram and disk size")
        cpu, ram, disk = (int(requirements[key]) for key in _NEEDED)
        rows = self.remembered("listServiceOfferings")
        fixed = sorted((row for row in rows if _fits(row, cpu, ram)), key=lambda row: _excess(row, cpu, ram))
        free = [row for row in rows if _stretches(row, cpu, ram)]
        if fixed:
            size: Json = {"compute_offering": fixed[0]["name"]}
        elif free:
            size = {"compute_offering": free[0]["name"], "cpu": cpu, "ram_mb": ram}
        else:
            raise CpiError(
                f"no compute offering has {cpu} cpu and {ram} MB ram",
                why=", ".join(sorted(f"{row['name']}: {_cpu(row)} cpu, {_ram(row)} MB" for row in rows)),
                remedy="ask for less, or have an administrator add an offering",
            )
        return {**size, "ephemeral_disk_offering": self.disk_offering(None)["name"], "disk": disk}


def _fits(row: Row, cpu: int, ram: int) -> bool:
    return not row.get("iscustomized") and _cpu(row) >= cpu and _ram(row) >= ram


def _stretches(row: Row, cpu: int, ram: int) -> bool:
    """A custom offering says its bounds, or is not relied upon."""
    bounds = row.get("serviceofferingdetails") or {}
    most_cpu, most_ram = int(bounds.get("maxcpunumber") or 0), int(bounds.get("maxmemory") or 0)
    return bool(row.get("iscustomized")) and most_cpu >= cpu and most_ram >= ram


def _excess(row: Row, cpu: int, ram: int) -> tuple[float, str]:
    """How many times too large, in both respects: one that is huge in cpu is not small because it has little memory."""
    return _cpu(row) / max(cpu, 1) + _ram(row) / max(ram, 1), str(row["name"])


def _cpu(row: Row) -> int:
    return int(row.get("cpunumber") or 0)


def _ram(row: Row) -> int:
    return int(row.get("memory") or 0)
