"""From what create_vm is asked to a request, and from a booted server to a finished VM. Methods: `machines`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coterie.cpi.contract import CpiError, InvalidCall, Json, Mark, Networks, OutcomeUnknown
from coterie.cpi.drivers.openstack.agent_settings import Told, userdata
from coterie.cpi.drivers.openstack.api import Row
from coterie.cpi.drivers.openstack.boots import Boots
from coterie.cpi.drivers.openstack.cloud import Overdue
from coterie.cpi.drivers.openstack.joining import Place
from coterie.cpi.drivers.openstack.kinds import is_gone
from coterie.cpi.drivers.openstack.marking import KEY, VIP, VOLUME, group_tag, tags, users_metadata
from coterie.cpi.drivers.openstack.nics import Card, Vip, cards, vips
from coterie.cpi.drivers.openstack.order import Order, read_order
from coterie.cpi.drivers.openstack.ports import Ports
from coterie.cpi.drivers.openstack.refusals import Refusal


@dataclass(frozen=True, slots=True)
class Asked:
    """The arguments of create_vm, read."""

    agent_id: str
    stemcell_cid: str
    order: Order
    networks: Networks
    cards: Sequence[Card]
    vips: Sequence[Vip]
    env: Json
    mark: Mark


def read_asked(agent_id: str, stemcell_cid: str, properties: Json, networks: Networks, env: Json, mark: Mark) -> Asked:
    return Asked(agent_id, stemcell_cid, read_order(properties), networks, cards(networks), vips(networks), env, mark)


class Making(Boots):
    def made_vm(self, asked: Asked) -> tuple[str, Ports]:
        """Everything that can be refused is refused before anything is made. Under a mark that was begun before, by us
        or somebody who died, its ports are there, and what was begun is finished."""
        place = self.place(asked.env)
        order, mark = asked.order, asked.mark
        flavor, image = self.flavor(order.instance_type), self.image(asked.stemcell_cid)
        guards = self._guards(asked, place)
        devices = self.block_devices(order, image, flavor)
        common = self._common(asked, place, flavor, image, devices)
        key = self.keypair(order, mark)
        mine = True
        try:
            ports = self.plug(asked.cards, guards, mark)
            mine = ports.mine
            mapped = self._claimed(asked, ports)
            request = _hinted(self._request(common, asked, ports, devices, key), order, place)
            server = self._booted_with_key(request, asked, place, mine)
            for address in mapped:
                self.map(address, ports.first)
        except (Refusal, CpiError) as error:
            if isinstance(error, OutcomeUnknown) and not isinstance(error, Overdue):
                raise  # what may be there is left for whom asks for the mark
            if not mine and self._runs(mark):
                raise OutcomeUnknown(
                    "a VM that another call made could not be finished", why=str(error), remedy="repeat"
                ) from error
            raise self.undone(mark, key, error) from error
        return server, ports

    def _booted_with_key(self, request: Json, asked: Asked, place: Place | None, mine: bool) -> str:
        """The last VM with the same key may have taken the pair away meanwhile."""
        try:
            return self.booted(request, place, asked.mark, mine=mine)
        except (Refusal, InvalidCall):
            key = request["server"].get("key_name") if asked.order.public_key else None
            if key is None or self.has_keypair(key):
                raise
        body = {**request["server"], "key_name": self.keypair(asked.order, asked.mark)}
        return self.booted({**request, "server": body}, place, asked.mark, mine=mine)

    def _runs(self, mark: Mark) -> bool:
        return any(row["status"] != "ERROR" and not is_gone(row) for row in self.marked("vm", mark))

    def _claimed(self, asked: Asked, ports: Ports) -> list[Row]:
        return [self.claim(vip, ports.first, asked.mark) for vip in asked.vips]

    def _guards(self, asked: Asked, place: Place | None) -> dict[str, list[str]]:
        """Security groups of each card: the group's, then the VM's or the cloud's, and the network's own."""
        named = asked.order.security_groups or self.settings.default_security_groups
        common = [*(place.guards if place else ()), *self.existing_guards(named)]
        return {
            card.label: list(dict.fromkeys([*common, *self.existing_guards(card.security_groups)]))
            for card in asked.cards
        }

    def _common(self, asked: Asked, place: Place | None, flavor: Row, image: Row, devices: list[Json]) -> Json:
        order = asked.order
        drive = self.settings.config_drive if order.config_drive is None else order.config_drive
        marks = [
            *tags(asked.mark),
            *([group_tag(place.cid)] if place else ()),
            *([VIP] if asked.vips else ()),
            *([VOLUME] if devices else ()),
            *([KEY] if order.public_key else ()),
        ]
        body = {
            "name": asked.mark.name(),
            "flavorRef": flavor["id"],
            "imageRef": image["id"],
            "availability_zone": order.availability_zone or self.settings.default_availability_zone,
            "config_drive": True if drive else None,
            "metadata": users_metadata(order.metadata) or None,
            "tags": marks,
        }
        return {key: value for key, value in body.items() if value is not None}

    def _request(self, common: Json, asked: Asked, ports: Ports, devices: list[Json], key: str | None) -> Json:
        told = Told(
            agent_id=asked.agent_id,
            name=asked.mark.name(),
            networks=asked.networks,
            ports=ports.by_label,
            env=asked.env,
            keys=[asked.order.public_key] if asked.order.public_key else [],
            ephemeral=self.second_disk(asked.order),
        )
        body = {
            **common,
            "networks": [{"port": port} for port in ports.ids],
            "user_data": userdata(self.settings, told),
        }
        if key:
            body["key_name"] = key
        if devices:
            body["block_device_mapping_v2"] = devices
        if devices and devices[0]["destination_type"] == "volume":
            body["imageRef"] = ""
        return {"server": body}


def _hinted(request: Json, order: Order, place: Place | None) -> Json:
    hints = {**order.scheduler_hints, **({"group": place.group} if place and place.group else {})}
    return {**request, "OS-SCH-HNT:scheduler_hints": hints} if hints else request
