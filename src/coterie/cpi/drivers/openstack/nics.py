"""The networks argument of create_vm: as cards, each one port; as floating addresses; and as the answer. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coterie.cpi.contract import Form, InvalidCall, Json, Networks
from coterie.cpi.drivers.openstack.api import Row
from coterie.cpi.kit.readers import text, texts

_TYPES = ("manual", "dynamic", "vip")


@dataclass(frozen=True, slots=True)
class Card:
    """One port of a VM: networks of one `nic_group` share it. `ips` empty: the cloud chooses."""

    labels: tuple[str, ...]
    network: str | None
    ips: tuple[str, ...]
    security_groups: tuple[str, ...]

    @property
    def label(self) -> str:
        return self.labels[0]


@dataclass(frozen=True, slots=True)
class Vip:
    label: str
    ip: str
    network: str | None


def cards(networks: Networks) -> list[Card]:
    """In the order of the argument, but the one with the default gateway first."""
    found: dict[str, Card] = {}
    for name, spec in networks.items():
        if _kind(name, spec) == "vip":
            continue
        card = _card(name, spec)
        slot = str(spec.get("nic_group") or f"\0{name}")
        found[slot] = _joined(found[slot], card) if slot in found else card
    if not found:
        raise InvalidCall("networks names no manual or dynamic network", remedy="give the VM at least one")
    routed = {name for name, spec in networks.items() if "gateway" in (spec.get("default") or ())}
    return sorted(found.values(), key=lambda card: not routed & set(card.labels))


def vips(networks: Networks) -> list[Vip]:
    specs = [(name, spec) for name, spec in networks.items() if _kind(name, spec) == "vip"]
    return [Vip(name, _address(name, spec.get("ip")), _network(_properties(name, spec))) for name, spec in specs]


def answered(networks: Networks, ports: Mapping[str, Row]) -> Json:
    """The networks as asked, with the address and card that each one got; `ports` by the network's name."""
    answer: Json = {name: dict(spec) for name, spec in networks.items()}
    for name, port in ports.items():
        given = [str(one["ip_address"]) for one in port.get("fixed_ips") or ()]
        if answer[name].get("type", "manual") == "dynamic" or answer[name].get("ip") not in given:
            answer[name]["ip"] = given[0] if given else None
        answer[name]["mac"] = port.get("mac_address")
    return answer


def _card(name: str, spec: Mapping[str, Any]) -> Card:
    manual = _kind(name, spec) == "manual"
    ips = (_address(name, spec.get("ip")),) if manual else ()
    properties = _properties(name, spec)
    return Card((name,), _network(properties), ips, properties.get("security_groups", ()))


def _joined(first: Card, second: Card) -> Card:
    if first.network != second.network:
        raise _mistake(second.label, "nic_group", "is shared with another network of the cloud", "use one net_id")
    guards = tuple(dict.fromkeys((*first.security_groups, *second.security_groups)))
    return Card((*first.labels, *second.labels), first.network, (*first.ips, *second.ips), guards)


def _kind(name: str, spec: Mapping[str, Any]) -> str:
    kind = str(spec.get("type", "manual"))
    if kind not in _TYPES:
        raise _mistake(name, "type", f"is {kind!r}", f"use one of: {', '.join(_TYPES)}")
    return kind


def _address(name: str, ip: Any) -> str:
    if not ip:
        raise _mistake(name, "ip", "is missing", "a manual or vip network needs an address")
    try:
        return str(ipaddress.ip_address(str(ip)))
    except ValueError:
        raise _mistake(name, "ip", f"is {ip!r}", "write it like 10.1.0.7") from None


def _properties(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return NETWORK.read(spec.get("cloud_properties") or {}, f"networks.{name}.cloud_properties")


def _network(properties: Mapping[str, Any]) -> str | None:
    return properties.get("net_id") or properties.get("name")


def _mistake(name: str, field: str, what: str, remedy: str) -> InvalidCall:
    return InvalidCall(f"networks.{name}.{field} {what}", remedy=remedy)


NETWORK = Form({"net_id": text, "name": text, "security_groups": texts})
