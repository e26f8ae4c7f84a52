"""Flavors, images, networks and volume types by name or id. What changes rarely is remembered for a while."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from coterie.cpi.contract import InvalidCall, NetworkNotFound, Runtime, StemcellNotFound
from coterie.cpi.drivers.openstack.api import Row
from coterie.cpi.drivers.openstack.cloud import is_uuid
from coterie.cpi.drivers.openstack.once import Once

_REMEMBERED_S = 60.0
LIGHT = "light-"  # before the id of an image that is not ours


class Lookups(Once):
    def __init__(self, cloud: str, properties: Mapping[str, Any], runtime: Runtime) -> None:
        super().__init__(cloud, properties, runtime)
        self._known: dict[str, tuple[float, list[Row]]] = {}

    def flavors(self) -> list[Row]:
        return self.remembered("flavors", self._all_flavors)

    def flavor(self, wanted: str) -> Row:
        return self._one(self.flavors(), wanted, "flavor", "instance_type")

    def volume_type(self, wanted: str | None) -> str | None:
        """As Cinder will check it; None: Cinder's own default."""
        name = wanted or self.settings.default_volume_type
        if name is None:
            return None
        rows = self.remembered(
            "types", lambda: self.api.get("list volume types", "block-storage", "/types")["volume_types"]
        )
        return str(self._one(rows, name, "volume type", "type")["name"])

    def zones(self) -> list[str]:
        """Availability zones that are up."""
        rows = self.remembered(
            "zones", lambda: self.api.get("list zones", "compute", "/os-availability-zone")["availabilityZoneInfo"]
        )
        return sorted(str(row["zoneName"]) for row in rows if row["zoneState"]["available"])

    def volume_zones(self) -> list[str]:
        rows = self.remembered(
            "volume zones",
            lambda: self.api.get("list zones", "block-storage", "/os-availability-zone")["availabilityZoneInfo"],
        )
        return sorted(str(row["zoneName"]) for row in rows if row["zoneState"]["available"])

    def image(self, stemcell_cid: str) -> Row:
        wanted = stemcell_cid.removeprefix(LIGHT)
        found = self.remembered(f"image {wanted}", lambda: [row] if (row := self.row("image", wanted)) else [])
        if found and found[0].get("status") == "active":
            return found[0]
        self._known.pop(f"image {wanted}", None)
        raise StemcellNotFound(
            f"stemcell {stemcell_cid[:80]} is not ready",
            why=f"the image is {found[0].get('status')}" if found else "there is no such image",
            remedy="upload it again",
        )

    def network(self, wanted: str | None) -> Row:
        """The one named, the default one, or the only one that the project can boot on."""
        name = wanted or self.settings.default_network
        found = self.remembered(f"network {name}", lambda: self._networks(name))
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

    def remembered(self, what: str, look: Callable[[], list[Row]]) -> list[Row]:
        at, rows = self._known.get(what, (0.0, []))
        if not rows or time.monotonic() - at > _REMEMBERED_S:
            rows = look()
            self._known[what] = (time.monotonic(), rows)
        return rows

    def _all_flavors(self) -> list[Row]:
        found: list[Row] = []
        marker: str | None = None
        while True:
            rows, marker = self.api.page("list flavors", "compute", "/flavors/detail", "flavors", marker)
            found += rows
            if marker is None:
                return found

    def _networks(self, name: str | None) -> list[Row]:
        if name and is_uuid(name):
            found = self.row("network", name)
            return [found] if found else []
        if name:
            return list(self.rows("network", name=name))
        return [row for row in self.rows("network") if not row.get("router:external")]

    def _one(self, rows: list[Row], wanted: str, what: str, field: str) -> Row:
        found = [row for row in rows if wanted in (row["id"], row["name"])]
        if len(found) == 1:
            return found[0]
        if found:
            raise InvalidCall(f"{len(found)} times there is a {what} {wanted!r}", remedy="name it by its id")
        names = ", ".join(sorted(str(row["name"]) for row in rows)[:20])
        raise InvalidCall(
            f"there is no {what} {wanted!r}",
            remedy=f"set cloud_properties.{field} to one of: {names or 'none is there'}",
        )
