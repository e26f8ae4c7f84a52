"""Disks as devices of a VM: which there are, whose they are, and where another one fits. Pure."""

from __future__ import annotations

from typing import Any

from coterie.cpi.contract import CpiError
from coterie.cpi.drivers.vsphere import sdk
from coterie.cpi.drivers.vsphere.agent_settings import EPHEMERAL
from coterie.cpi.drivers.vsphere.files import File
from coterie.cpi.drivers.vsphere.making import scsi

_FIRST_UNIT, _RESERVED_UNIT, _UNITS = EPHEMERAL + 1, 7, 16  # below are the VM's own, 7 is the controller itself
_INDEPENDENT = "independent_persistent"


def disks(devices: list[Any]) -> list[Any]:
    return [one for one in devices if isinstance(one, sdk.vim.vm.device.VirtualDisk)]


def is_own(disk: Any) -> bool:
    """Made with the VM, as its root or ephemeral disk. A file's name proves nothing: Storage vMotion gives each disk
    of a VM, whosever it is, a name like the VM's own."""
    return (disk.unitNumber or 0) < _FIRST_UNIT and getattr(disk.backing, "diskMode", None) != _INDEPENDENT


def path_of(disk: Any) -> str:
    return str(getattr(disk.backing, "fileName", "") or "")


def free_unit(devices: list[Any]) -> int:
    key = scsi(devices).key
    taken = {one.unitNumber for one in devices if one.controllerKey == key}
    for unit in range(_FIRST_UNIT, _UNITS):
        if unit not in taken and unit != _RESERVED_UNIT:
            return unit
    raise CpiError("the VM has no place for another disk", why="15 is the most per controller", remedy="detach one")


def added(disk: File, devices: list[Any], unit: int) -> Any:
    device = sdk.vim.vm.device
    backing = device.VirtualDisk.FlatVer2BackingInfo(fileName=disk.path, diskMode=_INDEPENDENT)
    made = device.VirtualDisk(
        key=-1,
        controllerKey=scsi(devices).key,
        unitNumber=unit,
        capacityInKB=(disk.size_mb or 0) * 1024,
        backing=backing,
    )
    return device.VirtualDeviceSpec(operation="add", device=made)


def removed(disk: Any) -> Any:
    """Without a file operation, so that the file stays."""
    return sdk.vim.vm.device.VirtualDeviceSpec(operation="remove", device=disk)
