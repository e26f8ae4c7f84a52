"""Which flavor fits what a VM needs: the smallest, or a clear error; never the largest in its stead."""

from __future__ import annotations

from collections.abc import Mapping

from coterie.cpi.contract import CpiError, InvalidCall, Json
from coterie.cpi.drivers.openstack.api import Row
from coterie.cpi.drivers.openstack.lookups import Lookups
from coterie.cpi.drivers.openstack.order import gib
from coterie.cpi.drivers.openstack.refusals import cloud_call

_NEEDED = ("cpu", "ram", "ephemeral_disk_size")
_SYSTEM_GIB = 3  # of a root disk, that the system itself needs


class Sizes(Lookups):
    @cloud_call
    def calculate_vm_cloud_properties(self, requirements: Mapping[str, int]) -> Json:
        """A flavor with local disk enough; where none has it, the smallest and a volume as ephemeral disk."""
        for key in _NEEDED:
            if not isinstance(requirements.get(key), int):
                raise InvalidCall(f"requirements.{key} is missing or no number", remedy="give cpu, ram and disk size")
        cpu, ram, disk = (int(requirements[key]) for key in _NEEDED)
        rows = [row for row in self.flavors() if not row.get("OS-FLV-DISABLED:disabled")]
        fits = sorted(
            (row for row in rows if row["vcpus"] >= cpu and row["ram"] >= ram), key=lambda row: _excess(row, cpu, ram)
        )
        if not fits:
            raise CpiError(
                f"no flavor has {cpu} cpu and {ram} MB ram",
                why=", ".join(sorted(f"{row['name']}: {row['vcpus']} cpu, {row['ram']} MB" for row in rows)),
                remedy="ask for less, or have an administrator add a flavor",
            )
        roomy = [row for row in fits if _local_gib(row) >= gib(disk)]
        if roomy:
            return {"instance_type": roomy[0]["name"]}
        return {"instance_type": fits[0]["name"], "ephemeral_disk": {"size": max(gib(disk), 1)}}


def _excess(row: Row, cpu: int, ram: int) -> tuple[float, bool, str]:
    """How many times too large, in both respects: one that is huge in cpu is not small because it has little memory.
    Of equals, one with a disk of its own, which needs no volume to boot from."""
    return row["vcpus"] / max(cpu, 1) + row["ram"] / max(ram, 1), not row.get("disk"), str(row["name"])


def _local_gib(row: Row) -> int:
    return int(row.get("OS-FLV-EXT-DATA:ephemeral") or 0) or max(int(row.get("disk") or 0) - _SYSTEM_GIB, 0)
