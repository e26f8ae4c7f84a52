"""Networks that we make: one network with one subnet for each that a Director manages."""

from __future__ import annotations

import ipaddress

from coterie.cpi.contract import CpiError, InvalidCall, Json, Mark, NetworkCreated
from coterie.cpi.drivers.openstack.api import Row
from coterie.cpi.drivers.openstack.lookups import Lookups
from coterie.cpi.drivers.openstack.marking import director_tag
from coterie.cpi.drivers.openstack.refusals import CONFLICT, MISSING, Refusal, cloud_call

_DEFAULT = "10.{0}.{1}.0/24"


class NetworkCalls(Lookups):
    @cloud_call
    def create_network(self, subnet: Json, *, mark: Mark) -> NetworkCreated:
        for key in subnet.get("cloud_properties") or {}:
            raise InvalidCall(f"cloud_properties.{key} is not known", remedy="a managed network takes none")
        within = _range(subnet, mark)
        gateway = str(subnet.get("gateway") or within[1])
        body = {"name": mark.name(), "description": director_tag(mark.director)}
        wanted, _ = self.once("network", mark, body)
        found = self.finished(lambda: self._subnet(wanted, mark, within, gateway), lambda: self._remove(wanted))
        addresses = {"range": found["cidr"], "gateway": found["gateway_ip"], "reserved": []}
        return NetworkCreated(wanted, addresses, {"net_id": wanted})

    @cloud_call
    def delete_network(self, network_cid: str) -> None:
        if self.row("network", network_cid) is None:
            return
        try:
            self._remove(network_cid)
        except Refusal as error:
            if error.status != CONFLICT:
                raise
            ports = [str(row["id"]) for row in self.rows("port", network_id=network_cid)]
            raise CpiError(
                f"network {network_cid} cannot be deleted",
                why=f"ports on it: {', '.join(ports[:5])}" if ports else error.text,
                remedy="delete its VMs and routers first",
                retryable=True,
            ) from error

    def _subnet(
        self, network: str, mark: Mark, within: ipaddress.IPv4Network | ipaddress.IPv6Network, gateway: str
    ) -> Row:
        """Whoever made the network may have died before; Neutron refuses a second one of the same range."""
        for row in self._subnets(network):
            return row
        body = {
            "network_id": network,
            "name": mark.name(),
            "description": director_tag(mark.director),
            "cidr": str(within),
            "ip_version": within.version,
            "gateway_ip": gateway,
        }
        try:
            made: Row = self.api.send("POST", "create a subnet", "network", "/subnets", {"subnet": body})["subnet"]
        except Refusal:
            for row in self._subnets(network):
                return row
            raise
        return made

    def _subnets(self, network: str) -> list[Row]:
        rows: list[Row] = self.api.get("list subnets", "network", "/subnets", network_id=network)["subnets"]
        return rows

    def _remove(self, network: str) -> None:
        try:
            self.api.send("DELETE", f"delete network {network}", "network", f"/networks/{network}")
        except Refusal as error:
            if error.status != MISSING:
                raise


def _range(subnet: Json, mark: Mark) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """As asked; without a range, one of the private ones that follows from the mark, so that a repeat asks the same."""
    if not subnet.get("range"):
        return ipaddress.ip_network(_DEFAULT.format(ord(mark.intent[-1]) % 256, ord(mark.intent[-2]) % 256))
    try:
        return ipaddress.ip_network(str(subnet["range"]))
    except ValueError as error:
        raise InvalidCall(
            f"range {subnet['range']!r} is no network", remedy=f"write it like 10.1.0.0/24: {error}"
        ) from None
