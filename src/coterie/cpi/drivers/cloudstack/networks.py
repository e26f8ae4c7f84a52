"""Networks that we make: isolated ones, one zone each."""

from __future__ import annotations

import ipaddress

from coterie.cpi.contract import CpiError, InvalidCall, Json, Mark, NetworkCreated
from coterie.cpi.drivers.cloudstack.api import Row
from coterie.cpi.drivers.cloudstack.election import Election
from coterie.cpi.drivers.cloudstack.lookups import Lookups
from coterie.cpi.drivers.cloudstack.marking import DIRECTOR, tags_of
from coterie.cpi.drivers.cloudstack.refusals import INTERNAL, PARAMETER, Refusal, cloud_call, translate

_KNOWN = ("zone", "network_offering")


class NetworkCalls(Lookups, Election):
    @cloud_call
    def create_network(self, subnet: Json, *, mark: Mark) -> NetworkCreated:
        properties = subnet.get("cloud_properties") or {}
        for key in properties:
            if key not in _KNOWN:
                raise InvalidCall(f"cloud_properties.{key} is not known", remedy=f"use some of: {', '.join(_KNOWN)}")
        zone = self.zone(properties.get("zone"))
        found = self._elected_network(mark)
        if found is None:
            offering = self.network_offering(properties.get("network_offering"))
            made = self.api.call(
                "createNetwork",
                name=mark.name(),
                displaytext=mark.name(),
                zoneid=zone["id"],
                networkofferingid=offering["id"],
                **_addresses(subnet),
            )["network"]
            found = self._won(made, mark)
        addresses = {"range": found["cidr"], "gateway": found["gateway"], "reserved": []}
        return NetworkCreated(str(found["id"]), addresses, {"id": str(found["id"])})

    @cloud_call
    def delete_network(self, network_cid: str) -> None:
        if self.row("listNetworks", network_cid) is None:
            return
        try:
            self.api.run("deleteNetwork", id=network_cid)
        except Refusal as error:
            if error.code != PARAMETER or self.row("listNetworks", network_cid):
                raise self._kept(network_cid, error) from error

    def _kept(self, network_cid: str, error: Refusal) -> CpiError:
        """The commonest reason is a VM that is there still; users do not see it if it is destroyed already."""
        users = [
            f"{row['id']} ({row.get('state')})" for row in self.api.every("listVirtualMachines", networkid=network_cid)
        ]
        if not users and error.code != INTERNAL:
            return translate(error)
        return CpiError(
            f"network {network_cid} cannot be deleted",
            why=f"VMs on it: {', '.join(users[:5])}" if users else error.text,
            remedy="delete its VMs first; one that is destroyed leaves it when CloudStack expunges it",
            retryable=True,
        )

    def _elected_network(self, mark: Mark) -> Row | None:
        for row in self.api.every("listNetworks", keyword=mark.name()):
            if row["name"] == mark.name() and tags_of(row).get(DIRECTOR) == mark.director:
                return row
        return None

    def _won(self, made: Row, mark: Mark) -> Row:
        def winner() -> str | None:
            found = self._elected_network(mark)
            return str(found["id"]) if found else None

        chosen = self.elect(mark, "Network", str(made["id"]), self.mark_tags(mark), winner)
        if chosen == made["id"]:
            return made
        self.api.run("deleteNetwork", id=made["id"])
        return self.row("listNetworks", chosen) or made


def _addresses(subnet: Json) -> dict[str, str]:
    """Without a range, CloudStack gives the network the zone's own."""
    if not subnet.get("range"):
        return {}
    try:
        within = ipaddress.ip_network(str(subnet["range"]))
    except ValueError as error:
        raise InvalidCall(
            f"range {subnet['range']!r} is no network", remedy=f"write it like 10.1.0.0/24: {error}"
        ) from None
    return {"gateway": str(subnet.get("gateway") or within[1]), "netmask": str(within.netmask)}
