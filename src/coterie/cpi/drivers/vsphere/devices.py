"""What a VM is made of: the spec of its clone, its NICs, disks and CD drive, and the settings of its agent with the CD
image that carries them. Pure: no cloud is called here."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coterie.cpi.contract import CpiError, Json, Networks
from coterie.cpi.drivers.vsphere import sdk
from coterie.cpi.drivers.vsphere.settings import VmProperties

SYSTEM_UNIT, EPHEMERAL_UNIT = 0, 1  # of the disks that every VM has
CD_NAME = "coterie-env.iso"
_FIRST_UNIT, _RESERVED_UNIT, _UNITS = EPHEMERAL_UNIT + 1, 7, 16  # below are the VM's own, 7 is the controller itself
_DISK_KEY, _CD_KEY, _FIRST_NIC_KEY = -1, -2, -100
_INDEPENDENT = "independent_persistent"


@dataclass(frozen=True, slots=True)
class Nic:
    network: str  # the name that BOSH has for it
    backing: Any


def clone_config(
    devices: list[Any], size: VmProperties, nics: Sequence[Nic], datastore: str, instance_uuid: str
) -> Any:
    """The configuration of a clone of a template with these devices: the requested size, its NICs, its ephemeral disk
    and a CD drive."""
    changes = [*_remove_nics(devices), *_add_nics(nics), *_add_ephemeral(devices, size.disk, datastore)]
    return sdk.vim.vm.ConfigSpec(
        instanceUuid=instance_uuid,
        numCPUs=size.cpu,
        memoryMB=size.ram,
        deviceChange=[*changes, *_add_cd_drive(devices)],
        extraConfig=extra_config({"disk.EnableUUID": "TRUE", **size.vmx}),
    )


def extra_config(values: Mapping[str, str]) -> list[Any]:
    return [sdk.vim.option.OptionValue(key=key, value=value) for key, value in values.items()]


def with_macs(networks: Networks, nics: Sequence[Nic], devices: list[Any]) -> Json:
    """The networks of create_vm, each with the MAC address that its NIC got."""
    macs = [one.macAddress for one in devices if isinstance(one, sdk.vim.vm.device.VirtualEthernetCard)]
    answer: Json = {name: dict(spec) for name, spec in networks.items()}
    for nic, mac in zip(nics, macs, strict=False):
        if mac:
            answer[nic.network]["mac"] = mac
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
    device = sdk.vim.vm.device
    disk = device.VirtualDisk(
        key=_DISK_KEY,
        controllerKey=_scsi_key(devices),
        unitNumber=unit,
        capacityInKB=size_mb * 1024,
        backing=device.VirtualDisk.FlatVer2BackingInfo(fileName=path, diskMode=_INDEPENDENT),
    )
    return device.VirtualDeviceSpec(operation="add", device=disk)


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
        "networks": {label: dict(spec) for label, spec in networks.items() if spec.get("type") != "vip"},
        "disks": {"system": str(SYSTEM_UNIT), "ephemeral": ephemeral, "persistent": {}},
        "env": env,
        **{key: value for key, value in agent.items() if key in ("mbus", "ntp", "blobstore")},
    }
    return json.dumps(settings, separators=(",", ":")).encode()


def guestinfo(settings: bytes) -> dict[str, str]:
    return {
        "guestinfo.userdata": base64.b64encode(settings).decode(),
        "guestinfo.userdata.encoding": "base64",
    }


def _remove_nics(devices: list[Any]) -> list[Any]:
    change, ethernet = sdk.vim.vm.device.VirtualDeviceSpec, sdk.vim.vm.device.VirtualEthernetCard
    return [change(operation="remove", device=one) for one in devices if isinstance(one, ethernet)]


def _add_nics(nics: Sequence[Nic]) -> list[Any]:
    """In the order of the networks."""
    device = sdk.vim.vm.device
    cards = [
        device.VirtualVmxnet3(
            key=_FIRST_NIC_KEY - number,
            backing=nic.backing,
            connectable=_connect_info(connected=True),
            addressType="assigned",
        )
        for number, nic in enumerate(nics)
    ]
    return [device.VirtualDeviceSpec(operation="add", device=card) for card in cards]


def _add_ephemeral(devices: list[Any], size_mb: int, datastore: str) -> list[Any]:
    if not size_mb:
        return []
    device = sdk.vim.vm.device
    disk = device.VirtualDisk(
        key=_DISK_KEY,
        controllerKey=_scsi_key(devices),
        unitNumber=EPHEMERAL_UNIT,
        capacityInKB=size_mb * 1024,
        backing=device.VirtualDisk.FlatVer2BackingInfo(
            fileName=f"[{datastore}]", diskMode="persistent", thinProvisioned=True
        ),
    )
    return [device.VirtualDeviceSpec(operation="add", fileOperation="create", device=disk)]


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


_SECTOR = 2048
_DESCRIPTOR, _END, _PATHS_L, _PATHS_M, _ROOT, _FILE = 16, 17, 18, 19, 20, 21
_DATE = bytes([126, 11, 16, 0, 0, 0, 0])  # fixed: the same settings give the same image
_LONG_DATE = b"0" * 16 + b"\0"


def cd_image(name: str, content: bytes) -> bytes:
    """An ISO 9660 image with one file, as BOSH's agents on vSphere read their settings. `name`: eight characters at
    most; Linux shows it in lower case."""
    identifier = f"{name.upper()}.;1".encode("ascii")
    data_sectors = max(1, -(-len(content) // _SECTOR))
    sectors = {
        _DESCRIPTOR: _volume_descriptor(_FILE + data_sectors),
        _END: b"\xffCD001\x01",
        _PATHS_L: struct.pack("<BBIH", 1, 0, _ROOT, 1) + b"\0\0",
        _PATHS_M: struct.pack(">BBIH", 1, 0, _ROOT, 1) + b"\0\0",
        _ROOT: _record(b"\0", _ROOT, _SECTOR, True)
        + _record(b"\1", _ROOT, _SECTOR, True)
        + _record(identifier, _FILE, len(content), False),
    }
    head = b"".join(sectors.get(number, b"").ljust(_SECTOR, b"\0") for number in range(_FILE))
    return head + content.ljust(data_sectors * _SECTOR, b"\0")


def _volume_descriptor(sectors: int) -> bytes:
    """How long the volume is, and where its root folder and path tables are."""
    parts = (
        b"\x01CD001\x01\0",
        b"".ljust(32),
        b"COTERIE".ljust(32),
        b"\0" * 8,
        _both32(sectors),
        b"\0" * 32,
        _both16(1) + _both16(1) + _both16(_SECTOR),
        _both32(10),
        struct.pack("<II", _PATHS_L, 0) + struct.pack(">II", _PATHS_M, 0),
        _record(b"\0", _ROOT, _SECTOR, True),
        b"".ljust(128 * 4 + 37 * 3),
        _LONG_DATE * 4,
        b"\x01\0",
    )
    return b"".join(parts)


def _record(identifier: bytes, sector: int, size: int, is_folder: bool) -> bytes:
    flags = b"\x02" if is_folder else b"\0"
    parts = (b"\0", _both32(sector), _both32(size), _DATE, flags, b"\0\0", _both16(1), bytes([len(identifier)]))
    body = b"".join(parts) + identifier
    body += b"\0" * ((len(body) + 1) % 2)  # records have an even length
    return bytes([len(body) + 1]) + body


def _both16(value: int) -> bytes:
    return struct.pack("<H", value) + struct.pack(">H", value)


def _both32(value: int) -> bytes:
    return struct.pack("<I", value) + struct.pack(">I", value)
