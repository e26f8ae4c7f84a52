"""What a VM is made of: the spec of its clone, its NICs, disks and CD drive, and the settings of its agent. No cloud is
called here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coterie.cpi.contract import CpiError, Json, Networks
from coterie.cpi.drivers.vsphere import sdk
from coterie.cpi.drivers.vsphere.settings import VmProperties
from coterie.cpi.kit.agent_settings import agent_networks, base64_text, compact_json
from coterie.slotted import dataclass

SYSTEM_UNIT, EPHEMERAL_UNIT = 0, 1  # of the disks that every VM has
CD_NAME = "coterie-env.iso"
_FIRST_UNIT, _RESERVED_UNIT, _UNITS = EPHEMERAL_UNIT + 1, 7, 16  # below are the VM's own, 7 is the controller itself
_DISK_KEY, _CD_KEY, _FIRST_NIC_KEY = -1, -2, -100
_INDEPENDENT = "independent_persistent"


@dataclass(frozen=True, slots=True)
class Nic:
    networks: tuple[str, ...]  # the names that BOSH has for them
    backing: Any


def clone_config(
    devices: list[Any],
    size: VmProperties,
    nics: Sequence[Nic],
    datastore: str,
    instance_uuid: str,
    reserved_mhz: int = 0,
) -> Any:
    """The configuration of a clone of a template with these devices: the requested size, its NICs, its ephemeral disk
    and a CD drive."""
    changes = [*_remove_nics(devices), *_add_nics(nics), *_add_ephemeral(devices, size.disk, datastore)]
    reserved = sdk.vim.ResourceAllocationInfo(reservation=reserved_mhz) if reserved_mhz else None
    return sdk.vim.vm.ConfigSpec(
        cpuAllocation=reserved,
        memoryReservationLockedToMax=size.memory_reservation_locked_to_max or None,
        cpuHotAddEnabled=size.cpu_hot_add_enabled or None,
        memoryHotAddEnabled=size.memory_hot_add_enabled or None,
        nestedHVEnabled=size.nested_hardware_virtualization or None,
        instanceUuid=instance_uuid,
        numCPUs=size.cpu,
        memoryMB=size.ram,
        deviceChange=[*changes, *_add_cd_drive(devices)],
        extraConfig=extra_config({"disk.EnableUUID": "TRUE", **size.vmx, **size.vmx_options}),
    )


def extra_config(values: Mapping[str, str]) -> list[Any]:
    return [sdk.vim.option.OptionValue(key=key, value=value) for key, value in values.items()]


def with_macs(networks: Networks, nics: Sequence[Nic], devices: list[Any]) -> Json:
    """The networks of create_vm, each with the MAC address that its NIC got."""
    macs = [one.macAddress for one in devices if isinstance(one, sdk.vim.vm.device.VirtualEthernetCard)]
    answer: Json = {name: dict(spec) for name, spec in networks.items()}
    for nic, mac in zip(nics, macs, strict=False):
        for name in nic.networks if mac else ():
            answer[name]["mac"] = mac
    return answer


def insert_cd(devices: list[Any], path: str) -> Any:
    """An edit of the VM's drive, so that two processes that complete one VM do not add two drives."""
    device = sdk.vim.vm.device
    drive = _first(devices, device.VirtualCdrom, "a CD drive for the agent's settings")
    drive.backing = device.VirtualCdrom.IsoBackingInfo(fileName=path)
    drive.connectable = _connect_info(connected=True)
    return device.VirtualDeviceSpec(operation="edit", device=drive)


def has_cd(devices: list[Any]) -> bool:
    device = sdk.vim.vm.device.VirtualCdrom
    return any(isinstance(one, device) and isinstance(one.backing, device.IsoBackingInfo) for one in devices)


def cd_path(vmx_path: str) -> str:
    """Where a VM's CD image lies: beside its own files."""
    return f"{vmx_path.rpartition('/')[0]}/{CD_NAME}"


def disks(devices: list[Any]) -> list[Any]:
    return [one for one in devices if isinstance(one, sdk.vim.vm.device.VirtualDisk)]


def disk_path(disk: Any) -> str:
    return str(getattr(disk.backing, "fileName", "") or "")


def disk_uuid(disk: Any) -> str:
    """Of the virtual disk itself, wherever its file is; empty where the vCenter does not tell it."""
    return plain_uuid(getattr(disk.backing, "uuid", None))


def plain_uuid(uuid: Any) -> str:
    """The disk manager writes `60 00 C2 9a …-…`, a device's backing `6000C29a-…`."""
    return "".join(one for one in str(uuid or "").lower() if one in "0123456789abcdef")


def is_own_disk(disk: Any) -> bool:
    """Made with the VM, as its root or ephemeral disk. A file's name proves nothing: Storage vMotion gives every disk
    of a VM a name like the VM's own."""
    return (disk.unitNumber or 0) < _FIRST_UNIT and getattr(disk.backing, "diskMode", None) != _INDEPENDENT


def free_unit(devices: list[Any]) -> int:
    key = _scsi_key(devices)
    taken = {one.unitNumber for one in devices if one.controllerKey == key}
    for unit in range(_FIRST_UNIT, _UNITS):
        if unit not in taken and unit != _RESERVED_UNIT:
            return unit
    raise CpiError("the VM has no place for another disk", why="15 is the most per controller", remedy="detach one")


def attach(path: str, size_mb: int, devices: list[Any], unit: int) -> Any:
    return sdk.vim.vm.device.VirtualDeviceSpec(
        operation="add", device=_disk(devices, unit, size_mb, fileName=path, diskMode=_INDEPENDENT)
    )


def detach(disk: Any) -> Any:
    """Without a file operation, so that the file stays."""
    return sdk.vim.vm.device.VirtualDeviceSpec(operation="remove", device=disk)


def agent_settings(
    agent_id: str, name: str, moid: str, networks: Networks, env: Json, devices: list[Any], agent: Mapping[str, Any]
) -> bytes:
    """All settings of the agent inside a VM, so that it needs no registry. `agent`: the cloud's properties.agent."""
    ephemeral = str(EPHEMERAL_UNIT) if len(disks(devices)) > 1 else None
    settings = {
        "agent_id": agent_id,
        "vm": {"name": name, "id": moid},
        "networks": agent_networks(networks, {}),
        "disks": {"system": str(SYSTEM_UNIT), "ephemeral": ephemeral, "persistent": {}},
        "env": env,
        **{key: value for key, value in agent.items() if key in ("mbus", "ntp", "blobstore")},
    }
    return compact_json(settings)


def guestinfo(settings: bytes) -> dict[str, str]:
    return {
        "guestinfo.userdata": base64_text(settings),
        "guestinfo.userdata.encoding": "base64",
    }


def _remove_nics(devices: list[Any]) -> list[Any]:
    change, ethernet = sdk.vim.vm.device.VirtualDeviceSpec, sdk.vim.vm.device.VirtualEthernetCard
    return [change(operation="remove", device=one) for one in devices if isinstance(one, ethernet)]


def _add_nics(nics: Sequence[Nic]) -> list[Any]:
    """In the order of the networks."""
    device = sdk.vim.vm.device
    adapters = [
        device.VirtualVmxnet3(
            key=_FIRST_NIC_KEY - number,
            backing=nic.backing,
            connectable=_connect_info(connected=True),
            addressType="assigned",
        )
        for number, nic in enumerate(nics)
    ]
    return [device.VirtualDeviceSpec(operation="add", device=one) for one in adapters]


def grow_root(devices: list[Any], size_kb: int) -> list[Any]:
    """Never smaller than the stemcell's own."""
    root = next((one for one in disks(devices) if one.unitNumber == SYSTEM_UNIT), None)
    if root is None or size_kb <= (root.capacityInKB or 0):
        return []
    root.capacityInKB, root.capacityInBytes = size_kb, size_kb * 1024
    return [sdk.vim.vm.device.VirtualDeviceSpec(operation="edit", device=root)]


def _add_ephemeral(devices: list[Any], size_mb: int, datastore: str) -> list[Any]:
    if not size_mb:
        return []
    backing = {"fileName": f"[{datastore}]", "diskMode": "persistent", "thinProvisioned": True}
    disk = _disk(devices, EPHEMERAL_UNIT, size_mb, **backing)
    return [sdk.vim.vm.device.VirtualDeviceSpec(operation="add", fileOperation="create", device=disk)]


def _disk(devices: list[Any], unit: int, size_mb: int, **backing: Any) -> Any:
    device = sdk.vim.vm.device
    return device.VirtualDisk(
        key=_DISK_KEY,
        controllerKey=_scsi_key(devices),
        unitNumber=unit,
        capacityInKB=size_mb * 1024,
        backing=device.VirtualDisk.FlatVer2BackingInfo(**backing),
    )


def _add_cd_drive(devices: list[Any]) -> list[Any]:
    """An empty one, where the template has none."""
    device = sdk.vim.vm.device
    if any(isinstance(one, device.VirtualCdrom) for one in devices):
        return []
    controller = _first(devices, device.VirtualIDEController, "an IDE controller for its CD drive")
    backing = device.VirtualCdrom.RemotePassthroughBackingInfo(deviceName="", exclusive=False)
    drive = device.VirtualCdrom(key=_CD_KEY, controllerKey=controller.key, unitNumber=0, backing=backing)
    drive.connectable = _connect_info(connected=False)
    return [device.VirtualDeviceSpec(operation="add", device=drive)]


def _connect_info(connected: bool) -> Any:
    info = sdk.vim.vm.device.VirtualDevice.ConnectInfo
    return info(startConnected=connected, allowGuestControl=True, connected=connected)


def _scsi_key(devices: list[Any]) -> Any:
    return _first(devices, sdk.vim.vm.device.VirtualSCSIController, "a SCSI controller for disks").key


def _first(devices: list[Any], kind: Any, what: str) -> Any:
    found = next((one for one in devices if isinstance(one, kind)), None)
    if found is None:
        raise CpiError(
            f"the VM has no {kind.__name__.rpartition('.')[2]}", why=f"it needs {what}", remedy="use another stemcell"
        )
    return found
