"""What the cloud offers, by name or id: flavors, images, networks, volume types and zones; and which flavor fits.
What changes rarely is remembered for a while."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from coterie.cpi.contract import CpiError, InvalidCall, Json, NetworkNotFound, StemcellNotFound
from coterie.cpi.drivers.openstack.client import Client, Row
from coterie.cpi.drivers.openstack.properties import gib
from coterie.cpi.drivers.openstack.rows import Rows, is_uuid
from coterie.cpi.kit.lookups import LookupCache, pick_one

LIGHT = "light-"  # before the id of an image that is not ours
_REMEMBERED_S = 60.0
_SIZES = ("cpu", "ram", "ephemeral_disk_size")
_SYSTEM_GIB = 3  # of a root disk, that the system itself needs


@dataclass(frozen=True, slots=True)
class Lookups:
    client: Client
    rows: Rows
    _cache: LookupCache = field(default_factory=lambda: LookupCache(_REMEMBERED_S), init=False)

    def flavors(self) -> Sequence[Row]:
        return self._cache.get(
            "flavors", lambda: self.client.list_all("list flavors", "compute", "/flavors/detail", "flavors")
        )

    def flavor(self, wanted: str) -> Row:
        return pick_one(self.flavors(), wanted, "flavor", where="cloud_properties.instance_type")

    def smallest_fit(self, requirements: Mapping[str, int]) -> Json:
        """cloud_properties with the smallest flavor that fits, or a clear error; never the largest in its stead. A
        flavor with local disk enough; where none has it, the smallest one and a volume as ephemeral disk."""
        for key in _SIZES:
            if not isinstance(requirements.get(key), int):
                raise InvalidCall(f"requirements.{key} is missing or no number", remedy="give cpu, ram and disk size")
        cpu, ram, disk = (int(requirements[key]) for key in _SIZES)
        rows = [row for row in self.flavors() if not row.get("OS-FLV-DISABLED:disabled")]
        fits = [row for row in rows if row["vcpus"] >= cpu and row["ram"] >= ram]
        if not fits:
            raise CpiError(
                f"no flavor has {cpu} cpu and {ram} MB ram",
                why=", ".join(sorted(f"{row['name']}: {row['vcpus']} cpu, {row['ram']} MB" for row in rows)),
                remedy="ask for less, or have an administrator add a flavor",
            )
        fits.sort(key=lambda row: _excess(row, cpu, ram))
        roomy = [row for row in fits if _local_gib(row) >= gib(disk)]
        if roomy:
            return {"instance_type": roomy[0]["name"]}
        return {"instance_type": fits[0]["name"], "ephemeral_disk": {"size": max(gib(disk), 1)}}

    def volume_type(self, wanted: str | None) -> str | None:
        """As Cinder will check it; None: Cinder's own default."""
        name = wanted or self.client.settings.default_volume_type
        if name is None:
            return None
        rows = self._cache.get(
            "types", lambda: self.client.get("list volume types", "block-storage", "/types")["volume_types"]
        )
        return str(pick_one(rows, name, "volume type", where="cloud_properties.type")["name"])

    def zones(self, service: str = "compute") -> list[str]:
        """Availability zones of Nova, or of Cinder, that are up."""
        rows = self._cache.get(
            f"zones of {service}",
            lambda: self.client.get("list zones", service, "/os-availability-zone")["availabilityZoneInfo"],
        )
        return sorted(str(row["zoneName"]) for row in rows if row["zoneState"]["available"])

    def volume_zone(self, wanted: str | None) -> str | None:
        """Cinder has zones of its own; one that it does not know is left to its default."""
        name = wanted or self.client.settings.default_availability_zone
        return name if name in self.zones("block-storage") else None

    def image(self, stemcell_cid: str) -> Row:
        wanted = stemcell_cid.removeprefix(LIGHT)
        found = self._cache.get(_image_key(wanted), lambda: _as_list(self.rows.read("image", wanted)))
        if found and found[0].get("status") == "active":
            return found[0]
        self.forget_image(wanted)
        raise StemcellNotFound(
            f"stemcell {stemcell_cid[:80]} is not ready",
            why=f"the image is {found[0].get('status')}" if found else "there is no such image",
            remedy="upload it again",
        )

    def forget_image(self, wanted: str) -> None:
        self._cache.forget(_image_key(wanted))

    def network(self, wanted: str | None) -> Row:
        """The one named, the default one, or the only one that the project can boot on."""
        name = wanted or self.client.settings.default_network
        found = self._cache.get(f"network {name}", lambda: self._list_networks(name))
        if len(found) == 1:
            return found[0]
        if not found:
            raise NetworkNotFound(
                f"there is no network {name!r}",
                remedy="name in its cloud_properties, as net_id or name, one that exists",
            )
        raise InvalidCall(
            f"{len(found)} networks could be meant" + (f" by {name!r}" if name else ""),
            why=", ".join(str(row["id"]) for row in found[:5]),
            remedy="name it by net_id in its cloud_properties, or set properties.default_network",
        )

    def external_network(self, wanted: str | None) -> Row:
        """Where floating addresses come from."""
        name = wanted or self.client.settings.external_network
        if name:
            return self.network(name)
        external = {"router:external": True}
        rows = self._cache.get("external", lambda: list(self.rows.list_all("network", **external)))
        if len(rows) == 1:
            return rows[0]
        raise InvalidCall(
            f"{len(rows)} external networks could be meant",
            remedy="set properties.external_network, or name in the vip network's cloud_properties",
        )

    def _list_networks(self, name: str | None) -> list[Row]:
        if name and is_uuid(name):
            return _as_list(self.rows.read("network", name))
        if name:
            return list(self.rows.list_all("network", name=name))
        return [row for row in self.rows.list_all("network") if not row.get("router:external")]


def _image_key(wanted: str) -> str:
    return f"image {wanted}"


def _as_list(row: Row | None) -> list[Row]:
    return [row] if row else []


def _excess(row: Row, cpu: int, ram: int) -> tuple[float, bool, str]:
    """How many times too large, in both respects: one that is huge in cpu is not small because it has little memory.
    Of equals, one with a disk of its own, which needs no volume to boot from."""
    return row["vcpus"] / max(cpu, 1) + row["ram"] / max(ram, 1), not row.get("disk"), str(row["name"])


def _local_gib(row: Row) -> int:
    return int(row.get("OS-FLV-EXT-DATA:ephemeral") or 0) or max(int(row.get("disk") or 0) - _SYSTEM_GIB, 0)
