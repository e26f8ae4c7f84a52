"""The addresses of a plan: which ones nodes keep, and which one is free next. No address is given twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from coterie.manifest import InstanceGroupSpec, NetworkSpec, SubnetSpec
from coterie.manifest.addresses import each, number, span_of
from coterie.manifest.spans import Ranges
from coterie.plan.model import NodeNow, Snapshot


class AddressPool:
    """Built once per plan, from the addresses of the deployment's nodes and those that other deployments use."""

    def __init__(self, snapshot: Snapshot, specs: Sequence[InstanceGroupSpec]) -> None:
        self._taken: dict[str, set[int]] = {
            network: {number(ip) for ip in ips} for network, ips in snapshot.taken.items()
        }
        # A node holds its address until it is deleted, and nodes are deleted after the new ones are created.
        self._holders: dict[tuple[str, int], str] = {}
        for node in snapshot.nodes:
            for where, ip in node.addresses.items():
                self._holders[where, number(ip)] = node.name
                self._taken.setdefault(where, set()).add(number(ip))
        self._free: dict[tuple[str, str | None], Iterator[str]] = {}
        self._subnets = _Subnets()
        self.refusals: list[str] = []
        for spec in specs:
            for network in spec.networks:
                self._enter_static(spec, network)

    def keep(self, spec: InstanceGroupSpec, node: NodeNow, az: str) -> dict[str, str]:
        """The addresses that the node may keep."""
        kept: dict[str, str] = {}
        for network in spec.networks:
            ip = node.addresses.get(network.name)
            if ip and network.type == "manual" and not network.static_ips and self._subnets.fits(network, az, ip):
                kept[network.name] = ip
        return kept

    def fill(self, spec: InstanceGroupSpec, index: int, az: str, kept: dict[str, str]) -> dict[str, str]:
        """All addresses of a node: fixed ones, kept ones, and new ones where it has none."""
        given: dict[str, str] = {}
        for network in spec.networks:
            if network.static_ips:
                given[network.name] = network.static_ips[index]
            elif network.name in kept:
                given[network.name] = kept[network.name]
            elif network.type == "manual":
                ip = self._next(network, az)
                if ip is None:
                    self.refusals.append(f"{spec.name}/{index}: network {network.name} has no free address in {az}")
                    continue
                given[network.name] = ip
        return given

    def open_networks(self, spec: InstanceGroupSpec, kept: dict[str, str]) -> list[str]:
        """Networks in which any free address will do."""
        return [
            one.name for one in spec.networks if one.type == "manual" and not one.static_ips and one.name not in kept
        ]

    def _enter_static(self, spec: InstanceGroupSpec, network: NetworkSpec) -> None:
        taken = self._taken.setdefault(network.name, set())
        for index, ip in enumerate(network.static_ips[: spec.instances]):
            value, name = number(ip), f"{spec.name}/{index}"
            holder = self._holders.get((network.name, value))
            if holder is not None and holder != name:
                self.refusals.append(
                    f"{name}: {ip} in network {network.name} still belongs to {holder}; "
                    "free it with one deploy, and give it away with the next"
                )
            elif holder is None and value in taken:
                self.refusals.append(
                    f"{name}: {ip} in network {network.name} belongs to another deployment; give it "
                    "another one, or free it there first"
                )
            taken.add(value)

    def _next(self, network: NetworkSpec, az: str) -> str | None:
        taken = self._taken.setdefault(network.name, set())
        for subnet in network.by_az[az]:
            # Subnets may serve several azs: each has one iterator, which gives no address twice.
            key = (network.name, subnet.range)
            if key not in self._free:
                self._free[key] = each(subnet.free(), taken)
            ip = next(self._free[key], None)
            if ip is not None:
                taken.add(number(ip))
                return ip
        return None


class _Subnets:
    """What a network's subnets cover in an az, measured once."""

    def __init__(self) -> None:
        self._free: dict[int, Ranges] = {}

    def fits(self, network: NetworkSpec, az: str, ip: str) -> bool:
        value = number(ip)
        return any(value in self._measure(subnet) for subnet in network.by_az[az])

    def _measure(self, subnet: SubnetSpec) -> Ranges:
        if id(subnet) not in self._free:
            self._free[id(subnet)] = subnet.free()
        return self._free[id(subnet)]


def covers(network: NetworkSpec, az: str, ip: str) -> bool:
    """Whether an address, free or static, lies in a subnet of the az."""
    value = number(ip)
    spans = [span_of(subnet.range) for subnet in network.by_az[az] if subnet.range]
    return any(span.first <= value <= span.last for span in spans)
