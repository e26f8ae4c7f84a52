"""From what create_vm is asked to a deploy, and from a deployed VM to a finished one. Contract methods: `machines`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coterie.cpi.contract import CpiError, Json, Mark, Networks
from coterie.cpi.drivers.cloudstack.addresses import Addresses
from coterie.cpi.drivers.cloudstack.agent_settings import Told, userdata
from coterie.cpi.drivers.cloudstack.api import Row
from coterie.cpi.drivers.cloudstack.deploys import deploy_parameters
from coterie.cpi.drivers.cloudstack.groups import group_tag
from coterie.cpi.drivers.cloudstack.joining import Place
from coterie.cpi.drivers.cloudstack.marking import VIP, tags_of, users_tags
from coterie.cpi.drivers.cloudstack.nics import Wish, cards, vips
from coterie.cpi.drivers.cloudstack.order import Order, gib
from coterie.cpi.drivers.cloudstack.refusals import Refusal
from coterie.cpi.drivers.cloudstack.templates import Templates
from coterie.cpi.drivers.cloudstack.userdata_sources import UserdataSources
from coterie.ids import Ids


@dataclass(frozen=True, slots=True)
class Asked:
    """The arguments of create_vm, read."""

    agent_id: str
    stemcell_cid: str
    order: Order
    networks: Networks
    wished: list[Wish]
    disk_cids: Sequence[str]
    env: Json
    mark: Mark


class Making(Addresses, Templates, UserdataSources):
    def made_vm(self, asked: Asked) -> Row:
        """Everything that can be refused is refused before the deploy."""
        place, zone = self.place(asked.env), self.zone(asked.order.zone)
        name = self._name(asked.mark)
        networks = [(self.network(wish.network, zone), wish.ip) for wish in cards(asked.wished)]
        parameters = {
            **self._sized(asked, zone, name, networks),
            **self._grouped(asked.order, place),
            "hostid": self.host_of_disks(asked.disk_cids),
            "userdata": userdata(self.settings, self._told(asked, name, [row for row, _ in networks])),
        }
        self.require_free(name, networks)
        parameters["keypair"] = self.keypair(asked.order, asked.mark)
        vm, mine = self.deployed(asked.mark, parameters, place, asked.order)
        return self.finished_vm(vm, asked, place, mine=mine)

    def finished_vm(self, vm: Row, asked: Asked, place: Place | None, *, mine: bool) -> Row:
        """Tags and public addresses come after the deploy; a VM that cannot have them is none."""
        try:
            self._tagged(vm, self._tags(asked, place))
            for wish in vips(asked.wished):
                self.map(wish, vm, asked.mark)
        except (Refusal, CpiError) as error:
            if not mine:
                raise
            raise self.undone(str(vm["id"]), error) from error
        return vm

    def _sized(self, asked: Asked, zone: Row, name: str, networks: list[tuple[Row, str | None]]) -> dict[str, Any]:
        order = asked.order
        template = self.ready_template(asked.stemcell_cid, zone)
        offering = self.compute_offering(str(order.compute_offering))
        disk = self.disk_offering(order.ephemeral_disk_offering) if order.ephemeral_disk_offering else {}
        return {
            **deploy_parameters(order, zone, offering, template, name, networks),
            "diskofferingid": disk.get("id"),
            "size": gib(order.disk or 1) if disk.get("iscustomized") else None,
        }

    def _grouped(self, order: Order, place: Place | None) -> dict[str, Any]:
        groups = [place.affinity] if place and place.affinity else []
        groups += [self._operators_group(one) for one in order.affinity_groups]
        guards = [*(place.guards if place else ()), *self.existing_guards(order.security_groups)]
        return {"affinitygroupids": groups or None, "securitygroupids": list(dict.fromkeys(guards)) or None}

    def _told(self, asked: Asked, name: str, networks: list[Row]) -> Told:
        return Told(
            agent_id=asked.agent_id,
            name=name,
            networks=asked.networks,
            env=asked.env,
            keys=self.public_keys(asked.order),
            sources=self.userdata_sources(networks),
            ephemeral=bool(asked.order.ephemeral_disk_offering),
        )

    def _name(self, mark: Mark) -> str:
        """Who may not expunge finds the name of a failed VM taken for a day, so there every try has its own."""
        return mark.name() if self.may_expunge() else mark.name(Ids().uuid()[:8])

    def _tags(self, asked: Asked, place: Place | None) -> dict[str, str]:
        group = group_tag(place.cid) if place else {}
        vip = {VIP: ",".join(str(wish.ip) for wish in vips(asked.wished))}
        return {**users_tags(asked.order.tags), **self.mark_tags(asked.mark), **group, **(vip if vip[VIP] else {})}

    def _tagged(self, vm: Row, tags: Mapping[str, str]) -> None:
        """Callers under one mark may tag at once; the API refuses all but one, and all are content."""
        try:
            self.retag("UserVm", vm, tags)
        except Refusal:
            again = self.row("listVirtualMachines", str(vm["id"])) or {}
            if not tags.items() <= tags_of(again).items():
                raise

    def _operators_group(self, name: str) -> str:
        found = self.affinity_named(name)
        if found is None:
            raise CpiError(f"there is no affinity group {name!r}", remedy="create it, or name one that exists")
        return str(found["id"])
