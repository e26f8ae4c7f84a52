"""The object table of the sandbox: for each kind the datacenter's calls, and how a record reads as an object.

The datacenter filters by tag itself. Deletions carry the revision that was read, so what changes between look and
deletion is not deleted either.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from coterie.cpi.contract import Changed, CloudObject, Kind, Mark
from coterie.cpi.drivers.sandbox.account import CloudAccount, of_director, with_mark
from coterie.cpi.drivers.sandbox.group_records import GroupRecord, GroupRecords
from coterie.cpi.drivers.sandbox.security_groups import security_group_users
from coterie.cpi.kit.call_limit import CallLimit
from coterie.cpi.kit.marking import DIRECTOR, GROUP, read_mark_tags
from coterie.cpi.kit.objects import ObjectKind, ObjectTable, RowPage
from coterie.sandbox import disks, images, networks, security_groups, snapshots, vm_shape, vms
from coterie.sandbox.datacenter import Account
from coterie.sandbox.errors import NoSuch
from coterie.sandbox.labels import list_labels
from coterie.sandbox.pages import Page
from coterie.sandbox.records import Record
from coterie.sandbox.server_groups import ServerGroup, list_members, list_server_groups

# On clouds that reserve, labels are listed first and then the groups whose label is gone.
_STRAYS = "strays:"


def object_table(
    cloud: CloudAccount,
    records: GroupRecords,
    delete_group: Callable[[str], None],
    *,
    director_uuid: str,
    single_writer: bool,
    with_snapshots: bool,
    with_hosts: bool,
    limit: CallLimit,
    keep: Collection[str],
    owns_security_group: Callable[[security_groups.SecurityGroup], bool],
) -> ObjectTable:
    groups = _Groups(cloud, records, delete_group, single_writer=single_writer)

    def security_group_facts(group: security_groups.SecurityGroup) -> dict[str, Any]:
        """A server group that is gone uses nothing any more, even if its tag is still on a security group."""
        users = security_group_users(group)
        return {"in_use_by": tuple(user for user in users if not user.startswith("cg-") or records.find(user))}

    def vm_facts(vm: vm_shape.Vm) -> dict[str, Any]:
        return {"in_use_by": (), "az": vm.zone, "state": vm.state, "host": vm.host if with_hosts else None}

    def delete_security_group(account: Account, cid: str, *, revision: int) -> None:
        if not owns_security_group(security_groups.get_security_group(account, cid)):
            raise Changed(
                f"security group {cid} bears a copied mark", remedy="leave it: this Director did not create it"
            )
        security_groups.delete_security_group(account, cid, revision=revision)

    kinds: dict[Kind, ObjectKind[Any]] = {
        "vm": _kind(cloud, "vm", vm_shape.list_vms, vm_shape.get_vm, vms.delete_vm, vm_facts),
        "disk": _kind(cloud, "disk", disks.list_disks, disks.get_disk, disks.delete_disk, _disk_facts),
        "snapshot": _kind(
            cloud,
            "snapshot",
            snapshots.list_snapshots,
            snapshots.get_snapshot,
            snapshots.delete_snapshot,
            lambda snapshot: {"in_use_by": ()},
        ),
        "image": _kind(
            cloud,
            "image",
            images.list_images,
            images.get_image,
            images.delete_image,
            lambda image: {"in_use_by": image.vms},
        ),
        "network": _kind(
            cloud, "network", networks.list_networks, networks.get_network, None, lambda net: {"in_use_by": net.vms}
        ),
        "security_group": _kind(
            cloud,
            "security_group",
            security_groups.list_security_groups,
            security_groups.get_security_group,
            delete_security_group,
            security_group_facts,
        ),
        "server_group": ObjectKind(groups.search, groups.page, groups.read, groups.describe, groups.delete),
    }
    if not with_snapshots:
        del kinds["snapshot"]
    return ObjectTable(director_uuid, kinds, limit, keep)


def _kind(
    cloud: CloudAccount,
    kind: Kind,
    list_page: Callable[..., Page[Any]],
    get: Callable[..., Any],
    delete: Callable[..., None] | None,
    facts: Callable[[Any], dict[str, Any]],
) -> ObjectKind[Any]:
    """`facts`: what the contract wants to know beyond what all objects share."""

    def search(mark: Mark) -> Iterable[Record]:
        return list_page(cloud.account, with_mark(mark)).items

    def page(director_uuid: str, cursor: str | None) -> RowPage[Record]:
        found = list_page(cloud.account, of_director(director_uuid), cursor)
        return RowPage(found.items, found.next)

    def read(cid: str, director_uuid: str) -> Record | None:
        try:
            found: Record = get(cloud.account, cid)
        except NoSuch:
            return None
        return found

    def delete_as_read(cid: str, row: Record) -> None:
        assert delete is not None
        try:
            delete(cloud.account, cid, revision=row.revision)
        except NoSuch:
            return

    return ObjectKind(
        search,
        page,
        read,
        lambda row, _: _describe(kind, row.id, row, **facts(row)),
        delete_as_read if delete else None,
        owner=lambda row: row.tags.get(DIRECTOR),
    )


def _describe(kind: Kind, cid: str, found: Record, **facts: Any) -> CloudObject:
    return CloudObject(
        kind=kind,
        cid=cid,
        name=found.name,
        created_at=found.created_at,
        etag=str(found.revision),
        mark=read_mark_tags(found.tags),
        tags=dict(found.tags),
        **facts,
    )


def _disk_facts(disk: disks.Disk) -> dict[str, Any]:
    users = (disk.vm,) if disk.vm else ()
    return {"in_use_by": users, "az": disk.zone, "state": "attached" if disk.vm else "detached"}


class _Groups:
    """Server groups as objects: one per CID, whatever the cloud holds behind it. A row is a server group or a label."""

    def __init__(
        self,
        cloud: CloudAccount,
        records: GroupRecords,
        delete_group: Callable[[str], None],
        *,
        single_writer: bool,
    ) -> None:
        self._cloud = cloud
        self._records = records
        self._delete_group = delete_group
        self._single_writer = single_writer

    def search(self, mark: Mark) -> Iterable[Record]:
        record = self._records.find(mark.group_cid)
        if record:
            return [record.holder]
        return self._records.groups_behind(mark.group_cid) if self._single_writer else []

    def page(self, director_uuid: str, cursor: str | None) -> RowPage[Record]:
        if cursor and cursor.startswith(_STRAYS):
            return self._strays(director_uuid, cursor.removeprefix(_STRAYS))
        listing: Callable[..., Page[Any]] = list_labels if self._single_writer else list_server_groups
        page = listing(self._cloud.account, of_director(director_uuid), cursor)
        return RowPage(page.items, page.next or (_STRAYS if self._single_writer else None))

    def read(self, cid: str, director_uuid: str) -> Record | None:
        record = self._records.find(cid)
        return record.holder if record else None

    def describe(self, row: Record, director_uuid: str) -> CloudObject:
        cid = GroupRecord(row).cid
        groups = [row] if isinstance(row, ServerGroup) else self._records.groups_behind(cid)
        members = tuple(vm for group in groups if group.members for vm in self._first_members(group))
        return _describe("server_group", cid, row, in_use_by=members, state="live" if groups else "reserved")

    def delete(self, cid: str, row: Record) -> None:
        self._delete_group(cid)

    def _strays(self, director_uuid: str, cursor: str) -> RowPage[Record]:
        only = of_director(director_uuid)
        known = {label.tags.get(GROUP) for label in self._cloud.every(list_labels, only)}
        page = list_server_groups(self._cloud.account, only, cursor or None)
        strays = [group for group in page.items if group.tags.get(GROUP) not in known]
        return RowPage(strays, f"{_STRAYS}{page.next}" if page.next else None)

    def _first_members(self, group: ServerGroup) -> list[str]:
        members, _ = list_members(self._cloud.account, group.id)
        return [member.vm for member in members]
