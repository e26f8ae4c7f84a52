"""Zones, offerings, OS types and networks by name or id, and what the account may do. What an administrator changes
rarely is remembered for a while."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coterie.cpi.contract import CpiError, InvalidCall, Json, NetworkNotFound
from coterie.cpi.drivers.cloudstack.client import Client, Refusal, Row
from coterie.cpi.kit.lookups import LookupCache, pick_one
from coterie.cpi.kit.sizes import Size, fits, read_requirements, smallest_fit
from coterie.slotted import dataclass, field

_REMEMBERED_S = 300.0
_ISOLATED_SERVICES = {"Dhcp", "UserData", "SourceNat", "StaticNat"}


@dataclass(frozen=True, slots=True)
class Catalog:
    client: Client
    _cache: LookupCache = field(default_factory=lambda: LookupCache(_REMEMBERED_S))

    def zone(self, wanted: str | None) -> Row:
        name = wanted or self.client.settings.default_zone
        if not name:
            raise InvalidCall(
                "no zone is named", remedy="say zone in the cloud_properties, or set properties.default_zone"
            )
        return self._pick("listZones", name, "zone")

    def zones(self) -> Sequence[Row]:
        return self._rows("listZones")

    def compute_offering(self, wanted: str) -> Row:
        return self._pick("listServiceOfferings", wanted, "compute offering")

    def compute_offerings(self) -> Sequence[Row]:
        return self._rows("listServiceOfferings")

    def disk_offering(self, wanted: str | None) -> Row:
        """The one named, the default one, or the only one whose size is free and that is on shared storage."""
        name = wanted or self.client.settings.default_disk_offering
        if name:
            return self._pick("listDiskOfferings", name, "disk offering")
        free = [row for row in self._rows("listDiskOfferings") if row.get("iscustomized")]
        shared = [row for row in free if row.get("storagetype") != "local"]
        if len(shared) == 1:
            return shared[0]
        raise InvalidCall(
            f"{len(shared)} disk offerings could be meant",
            remedy="say disk_offering in the cloud_properties, or set properties.default_disk_offering",
        )

    def network_offering(self, wanted: str | None) -> Row:
        name = wanted or self.client.settings.network_offering
        if name:
            return self._pick("listNetworkOfferings", name, "network offering")
        usable = [row for row in self._rows("listNetworkOfferings") if _is_isolated(row)]
        standard = [row for row in usable if row.get("isdefault")] or usable
        if len(standard) == 1:
            return standard[0]
        raise InvalidCall(
            f"{len(standard)} network offerings for isolated networks could be meant",
            remedy="say network_offering in the cloud_properties, or set properties.network_offering",
        )

    def os_type(self, wanted: str | None) -> Row:
        rows = self._rows("listOsTypes")
        return pick_one(rows, wanted or self.client.settings.stemcell_os_type, "OS type", field="description")

    def hypervisors(self) -> list[str]:
        return sorted(str(row["name"]) for row in self._rows("listHypervisors"))

    def network(self, wanted: str | None, zone: Row) -> Row:
        """Networks come and go, so they are not remembered."""
        name = wanted or self.client.settings.default_network
        here = list(self.client.list_all("listNetworks", zoneid=zone["id"]))
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

    def account(self) -> Row:
        """CloudStack's version, and what the account may do."""
        return self._cache.get("listCapabilities", self._read_account)[0]

    def account_id(self) -> str | None:
        """None: administrators see many accounts, and CloudStack does not always tell which one a key belongs to."""
        rows = list(self.client.list_all("listAccounts"))
        if len(rows) == 1:
            return f"account {rows[0]['id']}"
        users = self.client.list_all("listUsers")
        mine = next((user for user in users if user.get("apikey") == self.client.settings.api_key), None)
        return f"account {mine['accountid']}" if mine else None

    def forget_account(self) -> None:
        self._cache.forget("listCapabilities")

    def may_expunge(self) -> bool:
        if self.client.settings.expunge != "auto":
            return self.client.settings.expunge == "always"
        return bool(self.account().get("allowuserexpungerecovervm"))

    def may_change_addresses(self) -> bool:
        """Whether the account's role has the command."""
        try:
            return bool(self.client.call("listApis", name="updateVmNicIp").get("api"))
        except Refusal:
            return False

    def smallest_fit(self, requirements: Mapping[str, int]) -> Json:
        """The smallest offering that fits, or a custom one that can be made so large."""
        wanted = read_requirements(requirements)
        rows = self.compute_offerings()
        found = smallest_fit((_size(row) for row in rows if not row.get("iscustomized")), wanted)
        custom = next((row for row in rows if row.get("iscustomized") and fits(_largest(row), wanted)), None)
        if found:
            size: Json = {"compute_offering": found.name}
        elif custom:
            size = {"compute_offering": custom["name"], "cpu": wanted.cpu, "ram_mb": wanted.ram_mb}
        else:
            sizes = map(_size, rows)
            raise CpiError(
                f"no compute offering has {wanted.cpu} cpu and {wanted.ram_mb} MB ram",
                why=", ".join(sorted(f"{one.name}: {one.cpu} cpu, {one.ram_mb} MB" for one in sizes)),
                remedy="ask for less, or have an administrator add an offering",
            )
        return {**size, "ephemeral_disk_offering": self.disk_offering(None)["name"], "disk": wanted.disk_mb}

    def _pick(self, command: str, wanted: str, what: str) -> Row:
        return pick_one(self._rows(command), wanted, what)

    def _rows(self, command: str) -> Sequence[Row]:
        return self._cache.get(command, lambda: list(self.client.list_all(command)))

    def _read_account(self) -> list[Row]:
        return [self.client.call("listCapabilities").get("capability") or {}]


def _is_isolated(offering: Row) -> bool:
    """One for networks that our VMs can be on: it has addresses, userdata and static NAT to give."""
    services = {service.get("name") for service in offering.get("service") or ()}
    return (
        offering.get("guestiptype") == "Isolated"
        and offering.get("state") == "Enabled"
        and not offering.get("forvpc")
        and services >= _ISOLATED_SERVICES
    )


def _size(row: Row) -> Size:
    return Size(str(row["name"]), int(row.get("cpunumber") or 0), int(row.get("memory") or 0))


def _largest(row: Row) -> Size:
    """A custom offering is used only if its bounds are known."""
    bounds = row.get("serviceofferingdetails") or {}
    return Size(str(row["name"]), int(bounds.get("maxcpunumber") or 0), int(bounds.get("maxmemory") or 0))
