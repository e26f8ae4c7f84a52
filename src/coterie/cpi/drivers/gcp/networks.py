"""Subnetworks that VMs are put on or that Coterie makes, and public addresses, which operators reserve."""

from __future__ import annotations

import ipaddress

from coterie.cpi.contract import CpiError, InvalidCall, Json, Mark, NetworkCreated, NetworkNotFound
from coterie.cpi.drivers.gcp.client import Client
from coterie.cpi.drivers.gcp.marks import Row, describe_mark, name_of
from coterie.cpi.drivers.gcp.properties import NETWORK
from coterie.cpi.kit.create_vm import NetworkRequest
from coterie.slotted import dataclass


@dataclass(frozen=True, slots=True)
class Subnetworks:
    client: Client

    def link(self, request: NetworkRequest) -> tuple[Row, str]:
        """What a NIC says of where it is, and the name of its network; refuses what is not there."""
        given, settings = request.properties, self.client.settings
        wanted = given.get("subnetwork_name") or (None if given.get("network_name") else settings.default_subnetwork)
        network = given.get("network_name") or settings.default_network
        if wanted:
            row = self.client.get(self.path(wanted))
            if row is None:
                raise NetworkNotFound(f"there is no subnetwork {wanted}", remedy="name one of this region")
            return {"subnetwork": self.path(wanted)}, name_of(row["network"])
        path = self.client.path("networks", network)
        if self.client.get(path) is None:
            raise NetworkNotFound(f"there is no network {network}", remedy="name one of this project, or a subnetwork")
        return {"network": path}, network

    def require_address(self, ip: str) -> None:
        """That it is reserved here; whether it is free Google decides."""
        path = f"{self.client.region}/addresses"
        rows = self.client.list_all("addresses", path, filter=f'address="{ip}"')
        if not any(row.get("address") == ip for row in rows):
            raise CpiError(f"there is no public address {ip}", remedy="reserve it in this project and region")

    def create(self, subnet: Json, mark: Mark) -> NetworkCreated:
        given = NETWORK.read(subnet.get("cloud_properties") or {}, "cloud_properties")
        try:
            network = ipaddress.ip_network(str(subnet.get("range")), strict=False)
        except ValueError:
            remedy = "Google chooses none: write it like 10.9.0.0/24"
            raise InvalidCall(f"range is {subnet.get('range')!r}", remedy=remedy) from None
        name = mark.name()
        body = {
            "description": describe_mark(mark),
            "network": self.client.path("networks", given.get("network_name") or self.client.settings.default_network),
            "ipCidrRange": str(network),
        }
        row = self.client.insert(f"create subnetwork {name}", self.path(name), body, mark)
        gateway = str(row.get("gatewayAddress") or network[1])
        reserved = [str(network[-2]), str(network[-1])]
        addresses = {"range": str(network), "gateway": gateway, "reserved": reserved}
        return NetworkCreated(name, addresses, {"subnetwork_name": name})

    def delete(self, cid: str) -> None:
        self.client.delete(f"delete subnetwork {cid}", self.path(cid))

    def path(self, name: str) -> str:
        return self.client.path("subnetworks", name)
