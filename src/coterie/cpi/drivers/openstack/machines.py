"""Machines: a VM is made whole or not at all, found again by its mark, and gone with everything but its disks."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

from coterie.cpi.contract import CpiError, Json, Mark, Networks, NotSupported, VmCreated, VMNotFound
from coterie.cpi.drivers.openstack.agent_settings import own_disks
from coterie.cpi.drivers.openstack.api import Row
from coterie.cpi.drivers.openstack.cloud import is_uuid
from coterie.cpi.drivers.openstack.kinds import is_gone
from coterie.cpi.drivers.openstack.making import Making, read_asked
from coterie.cpi.drivers.openstack.marking import owner_of, users_metadata
from coterie.cpi.drivers.openstack.nics import answered
from coterie.cpi.drivers.openstack.refusals import MISSING, Refusal, cloud_call

_METADATA_S = 3.0
_METADATA_BYTES = 2**20
_NAME_LIMIT = 255
# From 2.75 on the answer to a rename is the whole server, for which Nova asks Neutron.
_BRIEF = {"OpenStack-API-Version": "compute 2.74"}


class Machines(Making):
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
        asked = read_asked(agent_id, stemcell_cid, cloud_properties, networks, env, mark)
        server, ports = self.made_vm(asked)
        disks = own_disks(ephemeral=self.second_disk(asked.order))
        return VmCreated(server, answered(networks, ports.by_label), disks)

    @cloud_call
    def delete_vm(self, vm_cid: str) -> None:
        self.remove_vm(vm_cid)

    @cloud_call
    def has_vm(self, vm_cid: str) -> bool:
        row = self.row("vm", vm_cid)
        return row is not None and not is_gone(row)

    @cloud_call
    def vm_owner(self, vm_cid: str) -> str | None:
        server = self.require_vm(vm_cid)
        return owner_of(server.get("tags") or (), str(server.get("name")), self.runtime.director_uuid)

    @cloud_call
    def reboot_vm(self, vm_cid: str) -> None:
        """One that is off is started."""
        server = self.require_vm(vm_cid)
        action = {"os-start": None} if server["status"] == "SHUTOFF" else {"reboot": {"type": "SOFT"}}
        self.act_on_server(vm_cid, action, "restart")
        self.running(vm_cid, None)

    @cloud_call
    def set_vm_metadata(self, vm_cid: str, metadata: Mapping[str, str]) -> None:
        wanted = users_metadata(metadata)
        self._describe(vm_cid, "POST", "/metadata", {"metadata": wanted})
        shown = str(metadata.get("name") or "").strip()[:_NAME_LIMIT]
        if self.settings.human_readable_vm_names and shown:
            self._describe(vm_cid, "PUT", "", {"server": {"name": shown}}, headers=_BRIEF)

    @cloud_call
    def current_vm_id(self) -> str:
        """Only true inside a VM of this cloud: its metadata service knows."""
        url = self.settings.metadata_url
        try:
            with urllib.request.urlopen(url, timeout=_METADATA_S) as answer:  # noqa: S310 # the settings allow http only
                return str(json.loads(answer.read(_METADATA_BYTES))["uuid"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CpiError(
                "this machine does not seem to be a VM of this cloud",
                why=f"{url}: {error}",
                remedy="run it inside a VM that can reach the metadata service",
            ) from error

    @cloud_call
    def configure_networks(self, vm_cid: str, networks: Networks) -> None:
        raise NotSupported("networks of a living VM cannot be configured", remedy="recreate the VM")

    def _describe(self, vm_cid: str, method: str, below: str, body: Json, **more: Any) -> None:
        try:
            if not is_uuid(vm_cid):
                raise _missing(vm_cid)
            self.api.send(method, f"describe server {vm_cid}", "compute", f"/servers/{vm_cid}{below}", body, **more)
        except Refusal as error:
            if error.status == MISSING:
                raise _missing(vm_cid) from error
            raise

    def require_vm(self, vm_cid: str) -> Row:
        row = self.row("vm", vm_cid)
        if row is None or is_gone(row):
            raise _missing(vm_cid)
        return row


def _missing(vm_cid: str) -> VMNotFound:
    return VMNotFound(f"VM {vm_cid[:80]} is not there", remedy="list what exists, and use one of those")
