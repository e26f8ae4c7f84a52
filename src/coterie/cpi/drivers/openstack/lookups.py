"""What the cloud offers, by name or id: flavors, images, networks, volume types and zones; and which flavor fits.
What changes rarely is remembered for a while."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coterie.cpi.contract import CpiError, InvalidCall, Json, NetworkNotFound, StemcellNotFound
from coterie.cpi.drivers.openstack.client import Client, Row
from coterie.cpi.drivers.openstack.rows import Rows, is_uuid
from coterie.cpi.kit.disks import gib
from coterie.cpi.kit.lookups import LookupCache, pick_one
from coterie.cpi.kit.sizes import Size, excess, fits, read_requirements
from coterie.slotted import dataclass, field

LIGHT = "light-"  # before the id of an image that is not ours
_REMEMBERED_S = 60.0
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
        """cloud_properties with the smallest flavor that fits. One with local disk enough; where none has it, the
        smallest one and a volume as ephemeral disk."""
        wanted = read_requirements(requirements)
        rows = [row for row in self.flavors() if not row.get("OS-FLV-DISABLED:disabled")]
        fitting = [row for row in rows if fits(_size(row), wanted)]
        if not fitting:
            raise CpiError(
                f"no flavor has {wanted.cpu} cpu and {wanted.ram_mb} MB ram",
                why=", ".join(sorted(f"{row['name']}: {row['vcpus']} cpu, {row['ram']} MB" for row in rows)),
                remedy="ask for less, or have an administrator add a flavor",
            )
        # of equals, one with a disk of its own, which needs no volume to boot from
        fitting.sort(key=lambda row: (excess(_size(row), wanted), not row.get("disk"), str(row["name"])))
        disk = gib(wanted.disk_mb)
        for row in fitting:
            if _local_gib(row) >= disk:
                return {"instance_type": row["name"]}
        return {"instance_type": fitting[0]["name"], "ephemeral_disk": {"size": max(disk, 1)}}

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


def _size(row: Row) -> Size:
    return Size(str(row["name"]), row["vcpus"], row["ram"])


def _local_gib(row: Row) -> int:
    return int(row.get("OS-FLV-EXT-DATA:ephemeral") or 0) or max(int(row.get("disk") or 0) - _SYSTEM_GIB, 0)
