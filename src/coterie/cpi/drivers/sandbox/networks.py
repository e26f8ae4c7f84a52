"""Networks that the driver makes for a deployment, and the networks argument of create_vm: as NICs of the datacenter,
and as the answer with the addresses that it gave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.cpi.contract import InvalidCall, Json, Mark, NetworkCreated
from coterie.cpi.contract import Networks as NetworksArgument
from coterie.cpi.drivers.sandbox.account import CloudAccount
from coterie.cpi.drivers.sandbox.properties import NETWORK
from coterie.cpi.kit.create_vm import chosen_mac, refuse_prefix
from coterie.cpi.kit.marking import mark_tags
from coterie.sandbox import networks
from coterie.sandbox.errors import NoSuch
from coterie.sandbox.nics import NicRequest
from coterie.sandbox.vm_shape import Vm
from coterie.slotted import replace

# every account begins with a network of this name, which takes any address
DEFAULT_NETWORK = "default"
_TYPES = ("manual", "dynamic", "vip")


class Networks:
    def __init__(self, cloud: CloudAccount) -> None:
        self._cloud = cloud

    def create(self, subnet: Json, mark: Mark) -> NetworkCreated:
        """VMs use it by its cid, since names are not unique."""
        bits = subnet.get("netmask_bits")
        if bits is not None and (isinstance(bits, bool) or not isinstance(bits, int)):
            raise InvalidCall(f"subnet.netmask_bits is {bits!r}", remedy="give a whole number, for example 24")
        created = networks.create_network(
            self._cloud.account,
            name=mark.name(str((subnet.get("cloud_properties") or {}).get("name") or "")),
            range=subnet.get("range"),
            bits=bits,
            gateway=subnet.get("gateway"),
            tags=mark_tags(mark),
            client_token=mark.intent,
        )
        addresses: Json = {"range": created.range, "gateway": created.gateway, "reserved": []}
        return NetworkCreated(created.id, addresses, {"name": created.id})

    def delete(self, cid: str) -> None:
        try:
            networks.delete_network(self._cloud.account, cid)
        except NoSuch:
            return


def read_nics(networks: NetworksArgument, vm_name: str) -> list[NicRequest]:
    """One for each network; an old address of a dynamic network is not asked for again. Networks of one nic_group share
    a NIC. The MACs are chosen here, since the agent's settings name them."""
    read = [_read_nic(name, spec) for name, spec in networks.items()]
    nics = list(dict.fromkeys(request.nic for request in read if request.nic))
    macs = {nic: chosen_mac(vm_name, number) for number, nic in enumerate(nics)}
    return [replace(request, mac=macs.get(request.nic)) for request in read]


def networks_answer(networks: NetworksArgument, vm: Vm) -> Json:
    """The networks as asked, with the address and MAC that each one got."""
    nics = {nic.label: nic for nic in vm.nics}
    answer: Json = {}
    for name, spec in networks.items():
        answer[name] = dict(spec)
        if name in nics:
            answer[name]["ip"] = nics[name].ip
        if name in nics and nics[name].mac:
            answer[name]["mac"] = nics[name].mac
    return answer


def _read_nic(name: str, spec: Mapping[str, Any]) -> NicRequest:
    kind = spec.get("type", "manual")
    if kind not in _TYPES:
        raise _mistake(name, "type", f"is {kind!r}", f"use one of: {', '.join(_TYPES)}")
    ip = None if kind == "dynamic" else spec.get("ip")
    if kind != "dynamic" and not ip:
        raise _mistake(name, "ip", "is missing", f"a {kind} network needs an address")
    if ip:
        refuse_prefix(name, spec)
    properties = NETWORK.read(spec.get("cloud_properties") or {}, f"networks.{name}.cloud_properties")
    nic_group = "" if kind == "vip" else str(spec.get("nic_group") or name)
    return NicRequest(name, str(properties.get("name", DEFAULT_NETWORK)), ip, nic_group)


def _mistake(name: str, field: str, what: str, remedy: str) -> InvalidCall:
    return InvalidCall(f"networks.{name}.{field} {what}", remedy=remedy)
