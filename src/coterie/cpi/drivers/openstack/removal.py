"""The end of a VM: its floating addresses, the server, its ports, and volumes that were its own; persistent disks stay.
Killed anywhere and repeated, it goes on where it was."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.cpi.contract import CpiError, Mark, OutcomeUnknown, Unavailable, VMCreationFailed
from coterie.cpi.drivers.openstack.api import Row
from coterie.cpi.drivers.openstack.keypairs import Keypairs
from coterie.cpi.drivers.openstack.kinds import is_gone
from coterie.cpi.drivers.openstack.marking import KEY, VIP, VOLUME, mark_of_name, mark_of_tags
from coterie.cpi.drivers.openstack.ports import PortCalls
from coterie.cpi.drivers.openstack.refusals import CONFLICT, MISSING, Refusal, translate
from coterie.cpi.drivers.openstack.vips import Vips
from coterie.cpi.drivers.openstack.volumes import Volumes
from coterie.cpi.drivers.openstack.waits import Waits


class Removal(PortCalls, Vips, Keypairs, Volumes, Waits):
    def remove_vm(self, wanted: str) -> None:
        """Gone when this returns. Gone already is fine."""
        tags = self.server_tags(wanted)
        if tags is None:
            self.unplug(self.leaving(wanted))  # whoever deleted it may have died before its ports went
            return
        mark = mark_of_tags(tags) or self._young_mark(wanted)
        told = set(tags) if mark_of_tags(tags) else {VIP, VOLUME, KEY}  # of a young one it may be any
        ports = (
            [port for port in self.marked("port", mark) if port.get("device_id") in (None, "", wanted)] if mark else []
        )
        if mark and VIP in told:
            self.unmap(ports)
        volumes = self.passing_volumes(wanted) if mark and VOLUME in told else []
        key = (self.row("vm", wanted) or {}).get("key_name") if mark and KEY in told else None
        self.note_leaving(ports, wanted)
        self.remove_server(wanted, mark)
        self.unplug(ports)
        for volume in volumes:
            self.remove_volume(volume)
        self.drop_keypair(key)

    def _young_mark(self, wanted: str) -> Mark | None:
        """Nova writes the tags of a server a moment after the server itself; until it is renamed its name tells."""
        name = str((self.row("vm", wanted) or {}).get("name"))
        return mark_of_name(name, self.runtime.director_uuid)

    def remove_server(self, wanted: str, mark: Mark | None) -> None:
        try:
            self.api.send("DELETE", f"delete server {wanted}", "compute", f"/servers/{wanted}")
        except Refusal as error:
            if error.status not in (MISSING, CONFLICT):
                raise
            if error.status == CONFLICT and not self._deleting(wanted):
                raise
        self.gone(wanted, mark)

    def scrap(self, mark: Mark) -> None:
        """Everything of a VM that was not finished: nothing under its mark stays."""
        for server in self.marked("vm", mark):
            volumes = self.passing_volumes(str(server["id"])) if VOLUME in (server.get("tags") or ()) else []
            self.remove_server(str(server["id"]), mark)
            for volume in volumes:
                self.remove_volume(volume)
        self.drop_ips(mark)
        ports = self.marked("port", mark)
        self.require_unused(ports)
        self.unplug(ports)

    def require_unused(self, ports: Sequence[Row]) -> None:
        """Nova leaves servers of a cell that is down out of its lists without a word; their ports still name them."""
        for server in {str(port["device_id"]) for port in ports if port.get("device_id")}:
            row = self.row("vm", server)
            if row is not None and not is_gone(row):
                raise Unavailable(
                    f"server {server} is there, and Nova does not list it",
                    why="a cell of Nova's may be down",
                    remedy="repeat once all of Nova's cells are up",
                )

    def undone(self, mark: Mark, key: str | None, error: Refusal | CpiError) -> CpiError:
        """Remove the half-made VM, then say why it failed; whatever was in doubt is certain once it is gone."""
        told = translate(error) if isinstance(error, Refusal) else error
        try:
            self.scrap(mark)
            self.drop_keypair(key)
        except (Refusal, CpiError) as trouble:
            return OutcomeUnknown(
                "a VM failed and could not be removed",
                why=f"{told}; then {trouble}",
                remedy="look for it by its mark and delete it",
            )
        if isinstance(told, OutcomeUnknown):
            return VMCreationFailed(told.what, why=told.why, remedy=told.remedy, retryable=True)
        return told

    def _deleting(self, wanted: str) -> bool:
        server = self.row("vm", wanted)
        return server is None or server.get("OS-EXT-STS:task_state") == "deleting"
