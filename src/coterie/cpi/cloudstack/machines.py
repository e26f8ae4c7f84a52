"""Machines: a VM is made whole or not at all, found again by its mark, and gone with everything but its disks."""

from __future__ import annotations

import urllib.request
from collections.abc import Mapping, Sequence

from coterie.cpi.cloudstack.addresses import Addresses
from coterie.cpi.cloudstack.agent_settings import userdata
from coterie.cpi.cloudstack.api import Row
from coterie.cpi.cloudstack.calls import cloud_call
from coterie.cpi.cloudstack.deploys import deploy_parameters
from coterie.cpi.cloudstack.groups import group_tag
from coterie.cpi.cloudstack.joining import Place
from coterie.cpi.cloudstack.marking import VIP, mark_of, tags_of, users_tags
from coterie.cpi.cloudstack.nics import Wish, answered, cards, vips, wishes
from coterie.cpi.cloudstack.order import Order, gib, read_order
from coterie.cpi.cloudstack.refusals import Refusal
from coterie.cpi.cloudstack.templates import Templates
from coterie.cpi.contract import CpiError, Json, Mark, Networks, NotSupported, VmCreated, VMNotFound
from coterie.ids import Ids

_METADATA_S = 3.0


class Machines(Addresses, Templates):
    @cloud_call
    def create_vm(
        self,
        agent_id: str,
        stemcell_cid: str,
        cloud_properties: Json,
        networks: Networks,
        disk_cids: Sequence[str],
        env: Json,
        *,
        mark: Mark,
    ) -> VmCreated:
        order, wished = read_order(cloud_properties), wishes(networks)
        known = self.vm_marked(mark)
        if known is None:
            place = self.place(env)
            known = self._made(agent_id, stemcell_cid, order, networks, wished, disk_cids, env, place, mark)
        elif not self.mark_tags(mark).items() <= tags_of(known).items():
            # whoever made it died before it was finished
            known = self._finished(known, order, wished, self.place(env), mark, mine=False)
        return VmCreated(str(known["id"]), answered(networks, wished, known))

    @cloud_call
    def delete_vm(self, vm_cid: str) -> None:
        self.remove_vm(vm_cid)

    @cloud_call
    def has_vm(self, vm_cid: str) -> bool:
        row = self.row("listVirtualMachines", vm_cid)
        return row is not None and row.get("state") not in ("Destroyed", "Expunging")

    @cloud_call
    def reboot_vm(self, vm_cid: str) -> None:
        """One that is off is started."""
        row = self.require_vm(vm_cid)
        self.api.run("rebootVirtualMachine" if row.get("state") == "Running" else "startVirtualMachine", id=vm_cid)

    @cloud_call
    def set_vm_metadata(self, vm_cid: str, metadata: Mapping[str, str]) -> None:
        row = self.require_vm(vm_cid)
        self.retag("UserVm", row, users_tags(metadata))
        shown = metadata.get("name")
        if shown and shown != row.get("displayname"):
            self.api.call("updateVirtualMachine", id=vm_cid, displayname=str(shown)[:255])

    @cloud_call
    def current_vm_id(self) -> str:
        """Only true inside a VM of this cloud: its virtual router knows."""
        url = self.settings.metadata_url
        try:
            with urllib.request.urlopen(url, timeout=_METADATA_S) as answer:  # noqa: S310 # the settings allow http only
                return str(answer.read(256).decode("ascii", "replace")).strip()
        except OSError as error:
            raise CpiError(
                "this machine does not seem to be a VM of this cloud",
                why=f"{url}: {error}",
                remedy="run it inside a VM, or set properties.metadata_url to the router's /latest/vm-id",
            ) from error

    @cloud_call
    def configure_networks(self, vm_cid: str, networks: Networks) -> None:
        raise NotSupported("networks of a living VM cannot be configured", remedy="recreate the VM")

    def require_vm(self, vm_cid: str) -> Row:
        row = self.row("listVirtualMachines", vm_cid)
        if row is None or row.get("state") in ("Destroyed", "Expunging"):
            raise VMNotFound(f"VM {vm_cid[:80]} is not there", remedy="list what exists, and use one of those")
        return row

    def vm_marked(self, mark: Mark) -> Row | None:
        """The VM of this mark; one that a broken deploy left is removed, so that it can be made anew."""
        for row in self.api.every("listVirtualMachines", name=mark.name()):
            if mark_of(row, mark.director) != mark or row.get("state") in ("Destroyed", "Expunging"):
                continue
            if row.get("state") == "Error":
                self.remove_vm(str(row["id"]))
                continue
            if row.get("state") == "Starting":
                continue  # somebody's job is at it: joining that job is `started_once`'s business
            return row
        return None

    def _made(
        self,
        agent_id: str,
        stemcell_cid: str,
        order: Order,
        networks: Networks,
        wished: list[Wish],
        disk_cids: Sequence[str],
        env: Json,
        place: Place | None,
        mark: Mark,
    ) -> Row:
        zone = self.zone(order.zone)
        template = self.ready_template(stemcell_cid, zone)
        offering = self.compute_offering(str(order.compute_offering))
        rows = [(self.network(wish.network, zone), wish.ip) for wish in cards(wished)]
        name, ephemeral = self._name(mark), order.ephemeral_disk_offering
        self.require_free(name, rows)
        host = self.host_of_disks(disk_cids)
        told = userdata(self.settings, agent_id, name, networks, env, [row for row, _ in rows], bool(ephemeral))
        groups = [place.affinity] if place and place.affinity else []
        groups += [self._operators_group(one) for one in order.affinity_groups]
        guards = [*(place.guards if place else ()), *self.existing_guards(order.security_groups)]
        disk = self.disk_offering(ephemeral) if ephemeral else {}
        pair = self.keypair(order, mark)
        vm, mine = self.deployed(
            mark,
            {
                **deploy_parameters(order, zone, offering, template, name, rows),
                "userdata": told,
                "keypair": pair,
                "affinitygroupids": groups or None,
                "securitygroupids": list(dict.fromkeys(guards)) or None,
                "hostid": host,
                "diskofferingid": disk.get("id"),
                "size": gib(order.disk or 1) if disk.get("iscustomized") else None,
            },
            place,
            order,
        )
        return self._finished(vm, order, wished, place, mark, mine=mine)

    def _name(self, mark: Mark) -> str:
        """Who may not expunge finds the name of a failed VM taken for a day, so there every try has its own."""
        return mark.name() if self.may_expunge() else mark.name(Ids().uuid()[:8])

    def _finished(
        self, vm: Row, order: Order, wished: list[Wish], place: Place | None, mark: Mark, *, mine: bool
    ) -> Row:
        """Tags and public addresses come after the deploy; a VM that cannot have them is none."""
        tags = {**users_tags(order.tags), **self.mark_tags(mark), **(group_tag(place.cid) if place else {})}
        if vips(wished):
            tags[VIP] = ",".join(str(wish.ip) for wish in vips(wished))
        try:
            self._tagged(vm, tags)
            for wish in vips(wished):
                self.map(wish, vm, mark)
        except (Refusal, CpiError) as error:
            if not mine:
                raise
            raise self.undone(str(vm["id"]), error) from error
        return vm

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
