"""The spec of one node: everything that its VM is made from. Two equal specs are one and the same machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.manifest import AzWish, GroupWish, NetworkWish, SubnetWish
from coterie.manifest.addresses import number, span_of
from coterie.manifest.spans import Span

Json = dict[str, Any]


class SpecMaker:
    """Makes the specs of one instance group; what its nodes share is worked out once."""

    def __init__(self, wish: GroupWish, stemcell: str) -> None:
        self._wish = wish
        self._azs: dict[str, AzWish] = {az.name: az for az in wish.azs}
        self._networks = {az.name: [_Network(network, az.name) for network in wish.networks] for az in wish.azs}
        self._shared: Json = {
            "stemcell": stemcell,
            "disk": _disk(wish),
            "env": dict(wish.env),
            "user_data": wish.user_data,
            "tags": dict(wish.tags),
            "health": _health(wish),
        }

    def cloud(self, az: str) -> str:
        return self._azs[az].cloud

    def make(self, az: str, addresses: Mapping[str, str], canary: bool) -> Json:
        update = self._wish.update
        return {
            **self._shared,
            "az": az,
            "cloud": self._azs[az].cloud,
            "vm": self._azs[az].vm_properties,
            "networks": {network.name: network.entry(addresses.get(network.name)) for network in self._networks[az]},
            "watch_s": update.canary_watch_s if canary else update.update_watch_s,
        }


# What a difference means. Fields that are in none of these never reach the cloud.
_NEEDS_NEW_VM = ("az", "stemcell", "vm", "networks", "env", "user_data")
_IN_PLACE = ("tags", "health")


def reasons_to_recreate(now: Json, wish: Json) -> list[str]:
    return [_difference(field, now, wish) for field in _NEEDS_NEW_VM if now.get(field) != wish[field]]


def reasons_to_update(now: Json, wish: Json) -> list[str]:
    return [_difference(field, now, wish) for field in _IN_PLACE if now.get(field) != wish[field]]


def _difference(field: str, now: Json, wish: Json) -> str:
    match field:
        case "stemcell":
            old, new = str(now["stemcell"]), str(wish["stemcell"])
            if old.rpartition("/")[0] == new.rpartition("/")[0]:
                new = new.rpartition("/")[2]
            return f"stemcell {old} → {new}"
        case "az":
            return f"az {now['az']} → {wish['az']}"
        case "vm" | "tags":
            name = "vm type" if field == "vm" else "tags"
            return f"{name}: {_keys(now.get(field) or {}, wish[field])}"
        case "networks":
            return _network_difference(now.get("networks") or {}, wish["networks"])
        case "health":
            return "health check changed"
    return f"{field.replace('_', ' ')} changed"


def _keys(now: Json, wish: Json) -> str:
    changed = sorted(key for key in now.keys() | wish.keys() if now.get(key) != wish.get(key))
    shown = [f"{key} {now.get(key, '–')} → {wish.get(key, '–')}" for key in changed[:3]]
    return ", ".join(shown) + (", …" if len(changed) > 3 else "")


def _network_difference(now: Json, wish: Json) -> str:
    for name in sorted(now.keys() | wish.keys()):
        old, new = now.get(name), wish.get(name)
        if old == new:
            continue
        if old is None or new is None:
            return f"network {name} {'added' if old is None else 'removed'}"
        if old.get("ip") != new.get("ip"):
            return f"address in {name} {old.get('ip')} → {new.get('ip')}"
        return f"network {name} changed"
    return "networks changed"


def _disk(wish: GroupWish) -> Json | None:
    if wish.disk is None:
        return None
    return {"size_mb": wish.disk.size_mb, "cloud_properties": dict(wish.disk.cloud_properties)}


def _health(wish: GroupWish) -> Json | None:
    health = wish.health
    if health.kind == "none":
        return None
    return {
        "kind": health.kind,
        "port": health.port,
        "path": health.path,
        "expect": health.expect,
        "interval_s": health.interval_s,
        "timeout_s": health.timeout_s,
    }


class _Network:
    """Entries of the `networks` argument of create_vm, as BOSH shapes them; all but the address is worked out once."""

    def __init__(self, network: NetworkWish, az: str) -> None:
        self.name = network.name
        self._type = network.type
        self._default = list(network.default)
        self._subnets = [(_shape(subnet), _span(subnet)) for subnet in network.by_az[az]]

    def entry(self, ip: str | None) -> Json:
        entry: Json = {"type": self._type, **self._shape(ip)}
        if self._default:
            entry["default"] = self._default
        if ip is not None:
            entry["ip"] = ip
        return entry

    def _shape(self, ip: str | None) -> Json:
        if ip is not None and self._type == "manual":
            value = number(ip)
            for shape, span in self._subnets:
                if span is not None and span.first <= value <= span.last:
                    return shape
        return self._subnets[0][0]


def _shape(subnet: SubnetWish) -> Json:
    shape: Json = {"cloud_properties": dict(subnet.cloud_properties)}
    if subnet.dns:
        shape["dns"] = list(subnet.dns)
    if subnet.range:
        shape.update(netmask=subnet.netmask, prefix=subnet.range.rpartition("/")[2], gateway=subnet.gateway)
    return shape


def _span(subnet: SubnetWish) -> Span | None:
    return span_of(subnet.range) if subnet.range else None
