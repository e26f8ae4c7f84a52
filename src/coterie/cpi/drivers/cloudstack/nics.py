"""The networks argument of create_vm: as cards of a deploy, as public addresses, and as the answer. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coterie.cpi.contract import Form, InvalidCall, Json, Networks
from coterie.cpi.drivers.cloudstack.api import Row
from coterie.cpi.kit.readers import text

_TYPES = ("manual", "dynamic", "vip")


@dataclass(frozen=True, slots=True)
class Wish:
    """One network of a VM: which of the cloud's is meant, and the address, if it must be that one."""

    label: str
    kind: str
    network: str | None
    ip: str | None


def wishes(networks: Networks) -> list[Wish]:
    """In the order of the argument, but the network with the default gateway first: so CloudStack chooses it too."""
    found = [_wish(name, spec) for name, spec in networks.items()]
    routed = {name for name, spec in networks.items() if "gateway" in (spec.get("default") or ())}
    return sorted(found, key=lambda wish: wish.label not in routed)


def cards(wished: list[Wish]) -> list[Wish]:
    return [wish for wish in wished if wish.kind != "vip"]


def vips(wished: list[Wish]) -> list[Wish]:
    return [wish for wish in wished if wish.kind == "vip"]


def answered(networks: Networks, wished: list[Wish], vm: Row) -> Json:
    """The networks as asked, with the address and card that each one got."""
    answer: Json = {name: dict(spec) for name, spec in networks.items()}
    nics = sorted(vm.get("nic") or (), key=lambda nic: int(nic.get("deviceid") or 0))
    for wish, nic in zip(cards(wished), nics, strict=False):
        answer[wish.label]["ip"] = nic.get("ipaddress")
        answer[wish.label]["mac"] = nic.get("macaddress")
    return answer


def _wish(name: str, spec: Mapping[str, Any]) -> Wish:
    kind = str(spec.get("type", "manual"))
    if kind not in _TYPES:
        raise _mistake(name, "type", f"is {kind!r}", f"use one of: {', '.join(_TYPES)}")
    ip = None if kind == "dynamic" else spec.get("ip")
    if kind != "dynamic" and not ip:
        raise _mistake(name, "ip", "is missing", f"a {kind} network needs an address")
    return Wish(name, kind, _network(name, spec.get("cloud_properties") or {}), _address(name, ip) if ip else None)


def _address(name: str, ip: Any) -> str:
    try:
        return str(ipaddress.ip_address(str(ip)))
    except ValueError:
        raise _mistake(name, "ip", f"is {ip!r}", "write it like 10.1.0.7") from None


def _network(name: str, properties: Mapping[str, Any]) -> str | None:
    found = NETWORK.read(properties, f"networks.{name}.cloud_properties")
    return found.get("id") or found.get("name")


def _mistake(name: str, field: str, what: str, remedy: str) -> InvalidCall:
    return InvalidCall(f"networks.{name}.{field} {what}", remedy=remedy)


NETWORK = Form({"name": text, "id": text})
