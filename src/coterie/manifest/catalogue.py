"""The cloud config by name, and the networks of an instance group as specs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from coterie.errors import InvalidDocument
from coterie.manifest.addresses import AddressList
from coterie.manifest.schema import Az, CloudConfig, DiskType, GroupNetwork, InstanceGroup, Network, Subnet, VmType
from coterie.manifest.space import azs_of
from coterie.manifest.spec import NetworkSpec, SubnetSpec

T = TypeVar("T")


class Catalogue:
    def __init__(self, config: CloudConfig) -> None:
        self._azs = {az.name: az for az in config.azs}
        self._vm_types = {kind.name: kind for kind in config.vm_types}
        self._disk_types = {kind.name: kind for kind in config.disk_types}
        self._networks = {network.name: network for network in config.networks}
        self._subnets = {network.name: _subnets(network) for network in config.networks}

    def az(self, name: str) -> Az:
        return self.one(self._azs, name, "az")

    def vm_type(self, name: str) -> VmType:
        return self.one(self._vm_types, name, "vm type")

    def disk_type(self, name: str) -> DiskType:
        return self.one(self._disk_types, name, "disk type")

    def networks(self, group: InstanceGroup) -> tuple[NetworkSpec, ...]:
        found = [(attached, self.one(self._networks, attached.name, "network")) for attached in group.networks]
        lone = sum(network.type != "vip" for _, network in found) == 1
        return tuple(self._network(group, attached, network, lone) for attached, network in found)

    def _network(self, group: InstanceGroup, attached: GroupNetwork, network: Network, lone: bool) -> NetworkSpec:
        subnets = self._subnets[network.name]
        return NetworkSpec(
            name=network.name,
            type=network.type,
            # The only real network of a node gives it both by default.
            default=("dns", "gateway") if lone and network.type != "vip" else attached.default,
            by_az={az: tuple(s for s in subnets if not s.azs or az in s.azs) for az in group.azs},
            static_ips=AddressList.of(attached.static_ips),
        )

    @staticmethod
    def one(entries: Mapping[str, T], name: str, noun: str) -> T:
        if name not in entries:
            raise InvalidDocument(
                f"no {noun} is named {name!r}", remedy="check the two documents before resolving them"
            )
        return entries[name]


def _subnets(network: Network) -> tuple[SubnetSpec, ...]:
    """A network without subnets counts as one that serves every az."""
    whole = Subnet(dns=network.dns, cloud_properties=network.cloud_properties)
    return tuple(_subnet(subnet, network) for subnet in network.subnets or (whole,))


def _subnet(subnet: Subnet, network: Network) -> SubnetSpec:
    return SubnetSpec(
        range=subnet.range,
        gateway=subnet.gateway,
        dns=subnet.dns or network.dns,
        reserved=subnet.reserved,
        static=subnet.static,
        azs=azs_of(subnet),
        cloud_properties={**network.cloud_properties, **subnet.cloud_properties},
    )
