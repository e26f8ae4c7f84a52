"""The networks argument of create_vm: as wishes to the datacenter, and as the answer with what it gave. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.cpi.contract import Form, InvalidCall, Json, Networks
from coterie.cpi.kit.readers import text
from coterie.sandbox.nics import NicWish
from coterie.sandbox.vm_shape import Vm

# every account begins with a network of this name, which takes any address
DEFAULT_NETWORK = "default"
_TYPES = ("manual", "dynamic", "vip")


def wishes(networks: Networks) -> list[NicWish]:
    """One wish per network; a dynamic network's old address is not one."""
    return [_wish(name, spec) for name, spec in networks.items()]


def answered(networks: Networks, vm: Vm) -> Json:
    """The networks as asked, with the address and card that each one got."""
    got = {nic.label: nic for nic in vm.nics}
    answer: Json = {}
    for name, spec in networks.items():
        answer[name] = dict(spec)
        if name in got:
            answer[name]["ip"] = got[name].ip
        if name in got and got[name].mac:
            answer[name]["mac"] = got[name].mac
    return answer


def _wish(name: str, spec: Mapping[str, Any]) -> NicWish:
    kind = spec.get("type", "manual")
    if kind not in _TYPES:
        raise _mistake(name, "type", f"is {kind!r}", f"use one of: {', '.join(_TYPES)}")
    ip = None if kind == "dynamic" else spec.get("ip")
    if kind != "dynamic" and not ip:
        raise _mistake(name, "ip", "is missing", f"a {kind} network needs an address")
    card = "" if kind == "vip" else str(spec.get("nic_group") or name)
    return NicWish(name, _network(name, spec.get("cloud_properties") or {}), ip, card)


def _network(name: str, cloud_properties: Mapping[str, Any]) -> str:
    found = NETWORK.read(cloud_properties, f"networks.{name}.cloud_properties")
    return str(found.get("name", DEFAULT_NETWORK))


def _mistake(name: str, field: str, what: str, remedy: str) -> InvalidCall:
    return InvalidCall(f"networks.{name}.{field} {what}", remedy=remedy)


NETWORK = Form({"name": text})
