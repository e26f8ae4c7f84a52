"""Zones, offerings and networks by name or id. What an administrator changes rarely is remembered for a while."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from coterie.cpi.contract import InvalidCall, NetworkNotFound, Runtime
from coterie.cpi.drivers.cloudstack.api import Row
from coterie.cpi.drivers.cloudstack.once import Once

_REMEMBERED_S = 300.0


class Lookups(Once):
    def __init__(self, cloud: str, properties: Mapping[str, Any], runtime: Runtime) -> None:
        super().__init__(cloud, properties, runtime)
        self._known: dict[str, tuple[float, list[Row]]] = {}

    def zone(self, wanted: str | None) -> Row:
        name = wanted or self.settings.default_zone
        if not name:
            raise InvalidCall(
                "no zone is named", remedy="say zone in the cloud_properties, or set properties.default_zone"
            )
        return self._one("listZones", name, "zone")

    def zones(self) -> list[Row]:
        return self.remembered("listZones")

    def compute_offering(self, wanted: str) -> Row:
        return self._one("listServiceOfferings", wanted, "compute offering")

    def disk_offering(self, wanted: str | None) -> Row:
        """The one named, the default one, or the only one whose size is free and that is on shared storage."""
        name = wanted or self.settings.default_disk_offering
        if name:
            return self._one("listDiskOfferings", name, "disk offering")
        free = [row for row in self.remembered("listDiskOfferings") if row.get("iscustomized")]
        shared = [row for row in free if row.get("storagetype") != "local"]
        if len(shared) == 1:
            return shared[0]
        raise InvalidCall(
            f"{len(shared)} disk offerings could be meant",
            remedy="say disk_offering in the cloud_properties, or set properties.default_disk_offering",
        )

    def network_offering(self, wanted: str | None) -> Row:
        name = wanted or self.settings.network_offering
        if name:
            return self._one("listNetworkOfferings", name, "network offering")
        usable = [row for row in self.remembered("listNetworkOfferings") if _isolated(row)]
        standard = [row for row in usable if row.get("isdefault")] or usable
        if len(standard) == 1:
            return standard[0]
        raise InvalidCall(
            f"{len(standard)} network offerings for isolated networks could be meant",
            remedy="say network_offering in the cloud_properties, or set properties.network_offering",
        )

    def os_type(self, wanted: str | None) -> Row:
        name = wanted or self.settings.stemcell_os_type
        return self._one("listOsTypes", name, "OS type", field="description")

    def network(self, wanted: str | None, zone: Row) -> Row:
        """Networks come and go, so they are asked for anew."""
        name = wanted or self.settings.default_network
        here = list(self.api.every("listNetworks", zoneid=zone["id"]))
        found = [row for row in here if name in (None, row["id"], row["name"])]
        if len(found) == 1:
            return found[0]
        if not found:
            raise NetworkNotFound(
                f"zone {zone['name']} has no network {name!r}",
                remedy=f"use one of: {', '.join(sorted(row['name'] for row in here)) or 'none is there'}",
            )
        raise InvalidCall(
            f"{len(found)} networks of zone {zone['name']} could be meant",
            remedy="name the network by its id in its cloud_properties, or set properties.default_network",
        )

    def remembered(self, command: str) -> list[Row]:
        at, rows = self._known.get(command, (0.0, []))
        if not rows or time.monotonic() - at > _REMEMBERED_S:
            rows = list(self.api.every(command))
            self._known[command] = (time.monotonic(), rows)
        return rows

    def _one(self, command: str, wanted: str, what: str, field: str = "name") -> Row:
        rows = self.remembered(command)
        found = [row for row in rows if wanted in (row["id"], row.get(field))]
        if len(found) == 1:
            return found[0]
        if found:
            raise InvalidCall(f"{len(found)} times there is a {what} {wanted!r}", remedy="name it by its id")
        names = sorted(str(row.get(field)) for row in rows)[:20]
        raise InvalidCall(f"there is no {what} {wanted!r}", remedy=f"use one of: {', '.join(names) or 'none is there'}")


def _isolated(offering: Row) -> bool:
    """One that our VMs can live in: it has addresses, userdata and static NAT to give."""
    services = {service.get("name") for service in offering.get("service") or ()}
    return (
        offering.get("guestiptype") == "Isolated"
        and offering.get("state") == "Enabled"
        and not offering.get("forvpc")
        and {"Dhcp", "UserData", "SourceNat", "StaticNat"} <= services
    )
