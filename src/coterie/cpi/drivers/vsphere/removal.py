"""The end of a VM: off, out of its group, its persistent disks taken out, and gone with its own files."""

from __future__ import annotations

from typing import Any

from coterie.cpi.drivers.vsphere import sdk
from coterie.cpi.drivers.vsphere.agent_settings import ISO_NAME
from coterie.cpi.drivers.vsphere.attachments import Attachments
from coterie.cpi.drivers.vsphere.joining import Joining
from coterie.cpi.drivers.vsphere.refusals import Refusal

_PATHS = ("runtime.powerState", "config.files.vmPathName", "config.hardware.device", "customValue")


class Removal(Joining, Attachments):
    def remove(self, machine: Any) -> None:
        """Gone already is fine."""
        try:
            row = self.reader.one(machine, *_PATHS)
            if row.get("runtime.powerState") != "poweredOff":
                self.power_off(machine)
            self.leave(machine, self.described(row.get("customValue")))
            self.take_out(machine, row.get("config.hardware.device") or [])
            if _has_disc(row.get("config.hardware.device") or []):
                self.deleted_file(iso_path(row.get("config.files.vmPathName")))
            self.tasks.run(machine.Destroy_Task)
        except Refusal as refusal:
            if not refusal.is_a("ManagedObjectNotFound"):
                raise

    def power_off(self, machine: Any) -> None:
        try:
            self.tasks.run(machine.PowerOffVM_Task)
        except Refusal as refusal:
            if not refusal.is_a("InvalidPowerState"):
                raise


def iso_path(vmx: str) -> str:
    """Where a VM's CD lies: beside its own files."""
    return f"{vmx.rpartition('/')[0]}/{ISO_NAME}"


def _has_disc(devices: list[Any]) -> bool:
    device = sdk.vim.vm.device.VirtualCdrom
    return any(isinstance(one, device) and isinstance(one.backing, device.IsoBackingInfo) for one in devices)
