"""Machines: a VM is created whole or not at all, found again by its mark, and deleted with everything but its disks."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from coterie.cpi.contract import (
    InvalidCall,
    Json,
    Mark,
    Networks,
    NoPlacement,
    OutcomeUnknown,
    VmCreated,
    VMCreationFailed,
    VMNotFound,
)
from coterie.cpi.drivers.sandbox.account import CloudAccount
from coterie.cpi.drivers.sandbox.domains import Domains
from coterie.cpi.drivers.sandbox.errors import translate
from coterie.cpi.drivers.sandbox.membership import Membership, Placement
from coterie.cpi.drivers.sandbox.networks import networks_answer, read_nics
from coterie.cpi.drivers.sandbox.properties import SIZES, Settings, read_vm_spec
from coterie.cpi.drivers.sandbox.security_groups import SecurityGroups
from coterie.cpi.drivers.sandbox.server_groups import OWN_SECURITY_GROUPS
from coterie.cpi.kit.agent_settings import AgentSettings, agent_networks
from coterie.cpi.kit.create_vm import CreateVmCall
from coterie.cpi.kit.marking import GROUP, mark_tags, metadata_tags
from coterie.errors import CoterieError
from coterie.sandbox import vms
from coterie.sandbox.errors import NoHost, NoSuch, SandboxError
from coterie.sandbox.fit import Demand
from coterie.sandbox.hosts import list_hosts
from coterie.sandbox.nics import NicRequest
from coterie.sandbox.tags import KEY_LIMIT, set_tags
from coterie.sandbox.vm_shape import Vm, get_vm
from coterie.slotted import replace

SELF = "COTERIE_SANDBOX_VM"
_BUILD_LIMIT_S = 120.0
_LOOK_AGAIN_S = 0.02
_OWN_DISKS = {"system": "/dev/sda", "ephemeral": "/dev/sdb"}


class Machines:
    def __init__(
        self,
        cloud: CloudAccount,
        settings: Settings,
        security_groups: SecurityGroups,
        membership: Membership,
        domains: Domains,
    ) -> None:
        self._cloud = cloud
        self._settings = settings
        self._security_groups = security_groups
        self._membership = membership
        self._domains = domains

    def create(self, call: CreateVmCall) -> VmCreated:
        env, mark, networks = call.env, call.mark, call.networks
        spec = read_vm_spec(call.cloud_properties)
        placement = self._membership.find_placement(env)
        own = self._security_groups.require_all(spec.security_groups)
        size = self._require_zone(spec.size)
        policy = placement.policy if placement else None
        nics = read_nics(networks, mark.name())
        create = partial(
            vms.create_vm,
            self._cloud.account,
            name=mark.name(),
            image=call.stemcell_cid,
            nics=nics,
            group=placement.group if placement else None,
            security_groups=(*own, *(placement.security_groups if placement else ())),
            near_disks=call.disk_cids,
            user_data=self._user_data(call.agent_id, mark.name(), networks, nics, env),
            start=not self._membership.joins_before_boot(placement),
            tags=_tags(mark, call.agent_id, placement, own),
            client_token=mark.intent,
        )
        try:
            vm = create(size=replace(size, rack=self._domains.choose(policy, size.zone, env)))
        except NoHost:
            if policy != "soft-anti-affinity":
                raise
            vm = create(size=size)  # its own rack is full, and a soft policy takes any other
        return VmCreated(vm.id, networks_answer(networks, self._boot_or_delete(vm, placement)), _OWN_DISKS)

    def delete(self, vm_cid: str) -> None:
        try:
            vms.delete_vm(self._cloud.account, vm_cid)
        except NoSuch:
            return

    def exists(self, vm_cid: str) -> bool:
        try:
            get_vm(self._cloud.account, vm_cid)
        except NoSuch:
            return False
        return True

    def reboot(self, vm_cid: str) -> None:
        vms.reboot_vm(self._cloud.account, vm_cid)

    def set_metadata(self, vm_cid: str, metadata: Mapping[str, str]) -> None:
        """Tags; `name` also becomes the VM's name, as people look for it by that."""
        rename = metadata.get("name")
        tags = metadata_tags(metadata, longest_key=KEY_LIMIT)
        set_tags(self._cloud.account, vm_cid, "vm", tags, rename=None if rename is None else str(rename))

    def smallest_fit(self, requirements: Mapping[str, int]) -> Json:
        """Any size can be had, so what is required is the smallest fit, if one host is large enough for it."""
        for key in ("cpu", "ram", "ephemeral_disk_size"):
            if not isinstance(requirements.get(key), int):
                raise InvalidCall(f"requirements.{key} is missing or no number", remedy=f"give {key}")
        cpu, ram, disk = requirements["cpu"], requirements["ram"], requirements["ephemeral_disk_size"]
        hosts = list_hosts(self._cloud.account)
        if not any(host.cpu >= cpu and host.ram_mb >= ram and host.disk_mb >= disk for host in hosts):
            raise NoPlacement(
                f"no VM of {cpu} cpu, {ram} MB ram and {disk} MB disk can be had",
                why="no host of the datacenter is that large",
                remedy="ask for less, or add a larger host",
            )
        return dict(zip(SIZES, (cpu, ram, disk), strict=True))

    def list_disks(self, vm_cid: str) -> list[str]:
        return list(get_vm(self._cloud.account, vm_cid).disks)

    def current_id(self) -> str:
        """The VM that this process runs in, as its environment says: a simulated VM runs no process."""
        cid = os.environ.get(SELF, "")
        if not cid or not self.exists(cid):
            raise VMNotFound("this process runs in no VM of this sandbox", remedy=f"set {SELF} to the cid of one")
        return cid

    def _user_data(self, agent_id: str, name: str, networks: Networks, nics: Sequence[NicRequest], env: Json) -> str:
        macs = {nic.label: nic.mac for nic in nics if nic.nic}
        settings = AgentSettings(
            agent_id=agent_id,
            vm_name=name,
            networks=agent_networks(networks, macs),
            requested_networks=networks,
            disks=_OWN_DISKS,
            env=env,
            cloud=self._settings.agent,
        )
        return json.dumps(settings.document())

    def _require_zone(self, size: Demand) -> Demand:
        if size.zone:
            return size
        zones = sorted({host.zone for host in list_hosts(self._cloud.account)})
        if len(zones) > 1:
            raise InvalidCall("cloud_properties.zone is missing", remedy=f"use one of: {', '.join(zones)}")
        return Demand(size.cpu, size.ram_mb, size.disk_mb, zones[0] if zones else None)

    def _boot_or_delete(self, vm: Vm, placement: Placement | None) -> Vm:
        """The VM joined and running. One that cannot be is deleted before the failure is raised."""
        try:
            return self._boot(vm, placement)
        except CoterieError as error:
            self._delete_after(vm, error)
            raise _certain_failure(error) from error

    def _boot(self, vm: Vm, placement: Placement | None) -> Vm:
        if placement and self._membership.joins_before_boot(placement) and not vm.host:
            self._membership.join(placement.cid, vm)
        if vm.state == "stopped":
            vm = vms.start_vm(self._cloud.account, vm.id)
        vm = self._wait_until_built(vm)
        if vm.state != "error":
            return vm
        raise VMCreationFailed(
            f"VM {vm.id} came up in state error",
            why=f"host {vm.host} could not run it",
            remedy="repeat; if it happens again, look at the host",
            retryable=True,
        )

    def _wait_until_built(self, vm: Vm) -> Vm:
        datacenter = self._cloud.account.datacenter
        deadline = datacenter.clock() + _BUILD_LIMIT_S
        while vm.state == "building" and datacenter.clock() < deadline:
            datacenter.sleep(_LOOK_AGAIN_S)
            vm = get_vm(self._cloud.account, vm.id)
        if vm.state != "building":
            return vm
        raise VMCreationFailed(
            f"VM {vm.id} was still building after {_BUILD_LIMIT_S:.0f} s",
            remedy="repeat; if it happens again, look at the host",
            retryable=True,
        )

    def _delete_after(self, vm: Vm, cause: CoterieError) -> None:
        try:
            self.delete(vm.id)
        except CoterieError as error:
            raise OutcomeUnknown(
                f"VM {vm.id} failed and could not be removed",
                why=f"{cause}; then {error}",
                remedy="look for it by its mark and delete it",
            ) from error


def _certain_failure(error: CoterieError) -> CoterieError:
    """The VM is proven gone, so an unknown outcome is a plain failure now."""
    failure = translate(error) if isinstance(error, SandboxError) else error
    if not isinstance(failure, OutcomeUnknown):
        return failure
    return VMCreationFailed(failure.what, why=failure.why, remedy="repeat", retryable=True)


def _tags(mark: Mark, agent_id: str, placement: Placement | None, own: Sequence[str]) -> dict[str, str]:
    tags: dict[str, Any] = {**mark_tags(mark), "agent_id": agent_id}
    if placement:
        tags[GROUP] = placement.cid
    if own:
        tags[OWN_SECURITY_GROUPS] = " ".join(own)
    return tags
