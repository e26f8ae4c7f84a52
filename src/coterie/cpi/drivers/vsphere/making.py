"""The specification of a new VM: a clone of its template with the asked size, its cards and its ephemeral disk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.cpi.contract import CpiError, Mark
from coterie.cpi.drivers.vsphere import sdk
from coterie.cpi.drivers.vsphere.agent_settings import EPHEMERAL
from coterie.cpi.drivers.vsphere.choice import Store
from coterie.cpi.drivers.vsphere.marking import instance_uuid
from coterie.cpi.drivers.vsphere.nics import Card, card_changes
from coterie.cpi.drivers.vsphere.order import Order
from coterie.cpi.drivers.vsphere.places import Zone
from coterie.cpi.drivers.vsphere.templates import Template

_DISK_KEY, _CD_KEY = -1, -2


def clone_spec(
    template: Template, order: Order, cards: list[Card], zone: Zone, store: Store, mark: Mark, linked: bool
) -> Any:
    """Off, in its folder, whole but for its group: powered on only when it has joined."""
    grow = linked and template.snapshot is not None
    location = sdk.vim.vm.RelocateSpec(
        datastore=store.ref,
        pool=zone.pool,
        diskMoveType="createNewChildDiskBacking" if grow else "moveAllDiskBackingsAndDisallowSharing",
    )
    config = sdk.vim.vm.ConfigSpec(
        instanceUuid=instance_uuid(mark),
        numCPUs=order.cpu,
        memoryMB=order.ram,
        deviceChange=[
            *_old_cards(template),
            *card_changes(cards),
            *_ephemeral(template, order, store),
            *_drive(template),
        ],
        extraConfig=options({"disk.EnableUUID": "TRUE", **order.vmx}),
    )
    snapshot = template.snapshot if grow else None
    return sdk.vim.vm.CloneSpec(location=location, powerOn=False, template=False, config=config, snapshot=snapshot)


def options(values: Mapping[str, str]) -> list[Any]:
    return [sdk.vim.option.OptionValue(key=key, value=value) for key, value in values.items()]


def disc_change(devices: list[Any], path: str) -> Any:
    """Insert this image into the VM's CD drive. An edit, so that two who complete one VM do not add two drives."""
    device = sdk.vim.vm.device
    drive = _first(devices, device.VirtualCdrom, "a CD drive for the agent's settings")
    drive.backing = device.VirtualCdrom.IsoBackingInfo(fileName=path)
    drive.connectable = device.VirtualDevice.ConnectInfo(startConnected=True, allowGuestControl=True, connected=True)
    return device.VirtualDeviceSpec(operation="edit", device=drive)


def scsi(devices: list[Any]) -> Any:
    return _first(devices, sdk.vim.vm.device.VirtualSCSIController, "a SCSI controller for disks")


def _old_cards(template: Template) -> list[Any]:
    change, ethernet = sdk.vim.vm.device.VirtualDeviceSpec, sdk.vim.vm.device.VirtualEthernetCard
    return [change(operation="remove", device=one) for one in template.devices if isinstance(one, ethernet)]


def _ephemeral(template: Template, order: Order, store: Store) -> list[Any]:
    if not order.disk:
        return []
    device = sdk.vim.vm.device
    backing = device.VirtualDisk.FlatVer2BackingInfo(
        fileName=f"[{store.name}]", diskMode="persistent", thinProvisioned=True
    )
    disk = device.VirtualDisk(
        key=_DISK_KEY,
        controllerKey=scsi(template.devices).key,
        unitNumber=EPHEMERAL,
        capacityInKB=order.disk * 1024,
        backing=backing,
    )
    return [device.VirtualDeviceSpec(operation="add", fileOperation="create", device=disk)]


def _drive(template: Template) -> list[Any]:
    """An empty CD drive, where the template has none."""
    device = sdk.vim.vm.device
    if any(isinstance(one, device.VirtualCdrom) for one in template.devices):
        return []
    controller = _first(template.devices, device.VirtualIDEController, "an IDE controller for its CD drive")
    backing = device.VirtualCdrom.RemotePassthroughBackingInfo(deviceName="", exclusive=False)
    drive = device.VirtualCdrom(key=_CD_KEY, controllerKey=controller.key, unitNumber=0, backing=backing)
    drive.connectable = device.VirtualDevice.ConnectInfo(startConnected=False, allowGuestControl=True, connected=False)
    return [device.VirtualDeviceSpec(operation="add", device=drive)]


def _first(devices: list[Any], kind: Any, what: str) -> Any:
    found = next((one for one in devices if isinstance(one, kind)), None)
    if found is None:
        raise CpiError(
            f"the VM has no {kind.__name__.rpartition('.')[2]}", why=f"it needs {what}", remedy="use another stemcell"
        )
    return found
