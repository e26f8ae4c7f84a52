"""The table of methods: names, arguments, results. It drives both directions of the wire and the conformance kit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.cpi.contract import DiskHint, StemcellNotFound, VmCreated
from coterie.cpi.wire import questions as q
from coterie.cpi.wire import results as r
from coterie.cpi.wire import shapes as s
from coterie.cpi.wire import values as v
from coterie.cpi.wire.method import HIGHEST, Argument, Method

_VM_CID = Argument("vm_cid", s.TEXT)
_DISK_CID = Argument("disk_cid", s.TEXT)
_CID = Argument("cid", s.TEXT)
_METADATA = Argument("metadata", s.LABELS)
_CLOUD_PROPERTIES = Argument("cloud_properties", s.OBJECT_OR_NULL)
_NETWORKS = Argument("networks", v.NETWORKS)
_NEW_SIZE = Argument("new_size", s.WHOLE)
_GROUP = Argument("metadata", v.GROUP_METADATA)
_KIND = Argument("kind", v.KIND)
_DIRECTOR = Argument("director_uuid", s.TEXT)

CAPABILITIES = Method("capabilities", (), r.CAPABILITIES)
INFO = Method("info", (), r.INFO)
PING = Method("ping", (), r.ANY)
CHECK = Method("check", (Argument("needs", q.NEEDS_OR_NULL, optional_until=HIGHEST),), r.CHECK_ITEMS)

CREATE_STEMCELL = Method(
    "create_stemcell",
    (Argument("image_path", s.PATH), _CLOUD_PROPERTIES, Argument("env", s.OBJECT_OR_NULL, 3, optional_until=HIGHEST)),
    s.TEXT,
    changes=True,
    marks="image",
)
DELETE_STEMCELL = Method(
    "delete_stemcell", (Argument("stemcell_cid", s.TEXT),), s.NULL, changes=True, gone=StemcellNotFound
)

CREATE_VM: Method[VmCreated] = Method(
    "create_vm",
    (
        Argument("agent_id", s.TEXT),
        Argument("stemcell_cid", s.TEXT),
        _CLOUD_PROPERTIES,
        _NETWORKS,
        Argument("disk_cids", s.TEXTS_OR_NULL, optional_until=1),
        Argument("env", s.OBJECT_OR_NULL, optional_until=1),
    ),
    r.VM,
    r.VM_V1,
    changes=True,
    marks="vm",
)
DELETE_VM = Method("delete_vm", (_VM_CID,), s.NULL, changes=True)
HAS_VM = Method("has_vm", (_VM_CID,), s.FLAG)
VM_OWNER = Method("vm_owner", (_VM_CID,), s.nullable(s.TEXT))
REBOOT_VM = Method("reboot_vm", (_VM_CID,), s.NULL, changes=True)
SET_VM_METADATA = Method("set_vm_metadata", (_VM_CID, _METADATA), s.NULL, changes=True)
CALCULATE_VM_CLOUD_PROPERTIES = Method("calculate_vm_cloud_properties", (Argument("requirements", v.SIZES),), s.OBJECT)
CURRENT_VM_ID = Method("current_vm_id", (), s.TEXT)
CONFIGURE_NETWORKS = Method("configure_networks", (_VM_CID, _NETWORKS), s.NULL, changes=True)

CREATE_DISK = Method(
    "create_disk",
    (Argument("size", s.WHOLE), _CLOUD_PROPERTIES, Argument("vm_cid", s.nullable(s.TEXT), optional_until=1)),
    s.TEXT,
    changes=True,
    marks="disk",
)
DELETE_DISK = Method("delete_disk", (_DISK_CID,), s.NULL, changes=True)
HAS_DISK = Method("has_disk", (_DISK_CID,), s.FLAG)
ATTACH_DISK: Method[DiskHint] = Method("attach_disk", (_VM_CID, _DISK_CID), r.HINT, r.HINT_V1, changes=True)
DETACH_DISK = Method("detach_disk", (_VM_CID, _DISK_CID), s.NULL, changes=True)
GET_DISKS = Method("get_disks", (_VM_CID,), s.TEXTS)
SET_DISK_METADATA = Method("set_disk_metadata", (_DISK_CID, _METADATA), s.NULL, changes=True)
RESIZE_DISK = Method("resize_disk", (_DISK_CID, _NEW_SIZE), s.NULL, changes=True)
UPDATE_DISK = Method(
    "update_disk", (_DISK_CID, _NEW_SIZE, _CLOUD_PROPERTIES), s.nullable(s.TEXT), changes=True, since=2
)
SNAPSHOT_DISK = Method(
    "snapshot_disk", (_DISK_CID, Argument("metadata", s.OBJECT_OR_NULL)), s.TEXT, changes=True, marks="snapshot"
)
DELETE_SNAPSHOT = Method("delete_snapshot", (Argument("snapshot_cid", s.TEXT),), s.NULL, changes=True)

CREATE_NETWORK = Method("create_network", (Argument("subnet", s.OBJECT),), r.NETWORK, changes=True, marks="network")
DELETE_NETWORK = Method("delete_network", (Argument("network_cid", s.TEXT),), s.NULL, changes=True)

CREATE_SERVER_GROUP = Method("create_server_group", (_GROUP,), s.TEXT, changes=True, marks="server_group")
UPDATE_SERVER_GROUP = Method("update_server_group", (_CID, _GROUP), s.NULL, changes=True)
DELETE_SERVER_GROUP = Method("delete_server_group", (_CID,), s.NULL, changes=True)
INSPECT_SERVER_GROUP = Method("inspect_server_group", (_CID,), r.GROUP_VIEW)

FIND = Method("find", (_KIND, Argument("mark", v.MARK)), r.FOUND)
SURVEY = Method("survey", (_KIND, _DIRECTOR, Argument("cursor", s.nullable(s.TEXT), optional_until=HIGHEST)), r.PAGE)
DELETE_OBJECT = Method("delete_object", (_KIND, _CID, Argument("expected", q.EXPECTED)), s.NULL, changes=True)
CLEANUP = Method(
    "cleanup",
    (_DIRECTOR, Argument("known", q.KNOWN_OR_NULL), Argument("options", q.SWEEP)),
    r.REPORT,
    changes=True,
    of_cpi=False,
)

METHODS: Mapping[str, Method[Any]] = {
    entry.name: entry for entry in tuple(globals().values()) if isinstance(entry, Method)
}
