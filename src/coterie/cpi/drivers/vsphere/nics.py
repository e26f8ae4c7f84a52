"""Network cards: which port group each network of a VM is, and the devices that come of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coterie.cpi.contract import Form, InvalidCall, Json, NetworkNotFound, Networks
from coterie.cpi.drivers.vsphere import sdk
from coterie.cpi.drivers.vsphere.places import Places
from coterie.cpi.kit.readers import text

_TYPES = ("manual", "dynamic", "vip")
_FIRST_KEY = -100


@dataclass(frozen=True, slots=True)
class Card:
    network: str  # the name that BOSH has for it
    backing: Any


class Nics(Places):
    _port_groups: Mapping[str, list[Any]] = {}  # name → references

    def cards(self, networks: Networks) -> list[Card]:
        """One card per network; a vip is an address and no card."""
        return [
            Card(name, self._backing(self._port_group(name, spec)))
            for name, spec in networks.items()
            if _kind(name, spec) != "vip"
        ]

    def _port_group(self, name: str, spec: Mapping[str, Any]) -> Any:
        given = NETWORK.read(spec.get("cloud_properties") or {}, f"networks.{name}.cloud_properties")
        wanted = given.get("name") or self.settings.network
        if wanted is None:
            raise InvalidCall(
                f"networks.{name}.cloud_properties.name is missing",
                remedy="name the port group, or set properties.network",
            )
        if wanted not in self._port_groups:
            self._port_groups = self._read_port_groups()
        if wanted not in self._port_groups:
            raise NetworkNotFound(
                f"there is no port group {wanted!r} in {self.datacenter.path}",
                remedy=f"use one of: {', '.join(sorted(self._port_groups)[:20])}",
            )
        if len(self._port_groups[wanted]) > 1:
            raise InvalidCall(
                f"networks.{name}: {self.datacenter.path} has more than one port group {wanted!r}",
                why=", ".join(ref._moId for ref in self._port_groups[wanted]),
                remedy="have the administrator rename all but one",
            )
        return self._port_groups[wanted][0]

    def _read_port_groups(self) -> dict[str, list[Any]]:
        refs = self.reader.one(self.datacenter.ref, "network").get("network") or []
        unique = list({ref._moId: ref for ref in refs}.values())
        found: dict[str, list[Any]] = {}
        for row in self.reader.several(unique, sdk.vim.Network, ["name"]):
            found.setdefault(str(row.get("name")), []).append(row.ref)
        return found

    def _backing(self, port_group: Any) -> Any:
        ethernet = sdk.vim.vm.device.VirtualEthernetCard
        if not isinstance(port_group, sdk.vim.dvs.DistributedVirtualPortgroup):
            name = self.reader.one(port_group, "name").get("name")
            return ethernet.NetworkBackingInfo(deviceName=name, network=port_group)
        row = self.reader.one(port_group, "key", "config.distributedVirtualSwitch")
        switch = self.reader.one(row.get("config.distributedVirtualSwitch"), "uuid").get("uuid")
        connection = sdk.vim.dvs.PortConnection(portgroupKey=row.get("key"), switchUuid=switch)
        return ethernet.DistributedVirtualPortBackingInfo(port=connection)


def card_changes(cards: list[Card]) -> list[Any]:
    """Devices to add, in the order of the networks."""
    change = sdk.vim.vm.device.VirtualDeviceSpec
    return [
        change(
            operation="add",
            device=sdk.vim.vm.device.VirtualVmxnet3(
                key=_FIRST_KEY - number,
                backing=card.backing,
                connectable=sdk.vim.vm.device.VirtualDevice.ConnectInfo(
                    startConnected=True, allowGuestControl=True, connected=True
                ),
                addressType="assigned",
            ),
        )
        for number, card in enumerate(cards)
    ]


def answered(networks: Networks, cards: list[Card], devices: list[Any]) -> Json:
    """The networks as asked, each with the MAC address that its card got."""
    macs = [one.macAddress for one in devices if isinstance(one, sdk.vim.vm.device.VirtualEthernetCard)]
    answer: Json = {name: dict(spec) for name, spec in networks.items()}
    for card, mac in zip(cards, macs, strict=False):
        if mac:
            answer[card.network]["mac"] = mac
    return answer


def _kind(name: str, spec: Mapping[str, Any]) -> str:
    kind = str(spec.get("type", "manual"))
    if kind not in _TYPES:
        raise InvalidCall(f"networks.{name}.type is {kind!r}", remedy=f"use one of: {', '.join(_TYPES)}")
    return kind


NETWORK = Form({"name": text})
