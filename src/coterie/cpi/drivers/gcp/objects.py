"""The object table of Compute Engine. A mark gives the name, so finding is one request for each zone, which never lags;
lists are filtered by label, or by name where a kind has no labels; one that strangers are in proves nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from coterie.cpi.contract import Changed, CloudObject, Kind, Mark, opt_out_reason
from coterie.cpi.drivers.gcp.client import Client, Refusal
from coterie.cpi.drivers.gcp.disks import Disks, users
from coterie.cpi.drivers.gcp.machines import BOOT, EPHEMERAL, Machines, has_policy, host_of, node_group_of, state_of
from coterie.cpi.drivers.gcp.marks import Row, cid_of, describe, labels_of, mark_of, name_of
from coterie.cpi.drivers.gcp.server_groups import Groups
from coterie.cpi.drivers.gcp.stemcells import UPLOADED, Stemcells
from coterie.cpi.kit.marking import DIRECTOR
from coterie.cpi.kit.objects import ObjectKind, ObjectTable, RowPage
from coterie.ids import director_prefix
from coterie.slotted import dataclass

KINDS: Mapping[Kind, str] = {
    "vm": "instances",
    "disk": "disks",
    "snapshot": "snapshots",
    "image": "images",
    "server_group": "resourcePolicies",
    "security_group": "firewalls",
    "network": "subnetworks",
}
_ZONAL: tuple[Kind, ...] = ("vm", "disk")
# those without labels, and how their names begin
_PREFIXES: Mapping[Kind, str] = {"server_group": "cg-{}-", "security_group": "cot-sg-{}-", "network": "cot-{}-"}
_GONE = ("DELETING", "DEPROVISIONING")
_USERS = "_users"  # of a row, where the cloud tells them elsewhere


@dataclass(frozen=True, slots=True)
class Objects:
    client: Client
    groups: Groups
    machines: Machines
    disks: Disks
    stemcells: Stemcells

    def table(self) -> ObjectTable:
        deletions: Mapping[Kind, Callable[[str], None]] = {
            "vm": self._delete_vm,
            "disk": self.disks.delete,
            "snapshot": self.disks.delete_snapshot,
            "image": self.stemcells.delete,
            "server_group": self.groups.server.delete,
            "security_group": self.groups.security.delete,
        }
        kinds = {kind: self._kind(kind, deletions.get(kind)) for kind in KINDS}
        return ObjectTable(self.client.director_uuid, kinds, self.client.permit.limit, self.client.settings.keep)

    def _kind(self, kind: Kind, delete: Callable[[str], None] | None) -> ObjectKind[Row]:
        return ObjectKind(
            lambda mark: self._search(kind, mark),
            lambda director_uuid, cursor: self._page(kind, director_uuid, cursor),
            lambda cid, director_uuid: self._read(kind, cid),
            lambda row, director_uuid: self._describe(kind, row),
            (lambda cid, row: delete(cid)) if delete else None,
            owner=lambda row: labels_of(row).get(DIRECTOR),
            is_gone=lambda row: row.get("status") in _GONE,
            marking="name" if kind in _PREFIXES else "atomic",
        )

    def _delete_vm(self, cid: str) -> None:
        """For cleanup. Google deletes a VM's own disks with it, so a word on one of them keeps the VM."""
        for part in (BOOT, EPHEMERAL):
            row = self.client.get(self.client.path("disks", f"{cid}-{part}"))
            kept = opt_out_reason(labels_of(row), time.time()) if row else None
            if kept:
                raise Changed(f"disk {cid}-{part} of VM {cid} is kept", why=kept, remedy="remove that, then repeat")
        self.machines.delete(cid)

    # -- rows --

    def _read(self, kind: Kind, cid: str) -> Row | None:
        row = self.client.get(self.client.path(KINDS[kind], cid))
        if row is None and kind == "server_group":
            return next(self._recorded(cid), None)
        if row is None and kind == "image" and "/" not in cid:
            return next((one for one in self.stemcells.list_objects(cid) if one["name"] == cid), None)
        return row

    def _search(self, kind: Kind, mark: Mark) -> Iterable[Row]:
        if kind in _ZONAL:
            rows = (self._read(kind, f"{zone}/{mark.name()}") for zone in self.machines.zones())
            return self._with_nodes(row for row in rows if row)
        if kind == "security_group":  # its name follows from the manifest
            listed = self.groups.firewalls.list_rows(_PREFIXES[kind].format(director_prefix(mark.director)))
            return [row for row in self.groups.firewalls.heads(listed) if mark_of(row) == mark]
        row = self._read(kind, mark.group_cid if kind == "server_group" else mark.name())
        return [row] if row else []

    def _page(self, kind: Kind, director_uuid: str, cursor: str | None) -> RowPage[Row]:
        """A cloud that ignores the filter lists strangers' objects too: these show it, and are left out."""
        prefix = _PREFIXES.get(kind, "cot-{}-").format(director_prefix(director_uuid))
        is_named = kind in _PREFIXES
        wanted = f"name eq {prefix}.*" if is_named else f'labels.{DIRECTOR}="{director_uuid}"'
        page = self.client.page(KINDS[kind], self.client.list_path(KINDS[kind]), cursor, filter=wanted)
        ours = [
            row
            for row in page.rows
            if (str(row["name"]).startswith(prefix) if is_named else labels_of(row).get(DIRECTOR) == director_uuid)
        ]
        rows = self._own_rows(kind, ours, prefix, is_last=not page.next)
        return RowPage(self._with_users(kind, rows), page.next, page.complete and len(ours) == len(page.rows))

    def _own_rows(self, kind: Kind, rows: list[Row], prefix: str, *, is_last: bool) -> list[Row]:
        """Without rules of security groups, and disks that VMs have of their own; on the last page with what is there
        in another form: server groups that are nothing but a record, and uploads that no image came of."""
        if kind == "vm":
            return self._with_nodes(rows)
        if kind == "security_group":
            return self.groups.firewalls.heads(rows)
        if kind == "disk":
            return [row for row in rows if not _is_part(row)]
        if kind == "server_group" and is_last:
            return [*rows, *self._recorded()]
        if kind == "image" and is_last:
            images = {row["name"] for row in rows}
            return [*rows, *(row for row in self.stemcells.list_objects(prefix) if row["name"] not in images)]
        return rows

    def _recorded(self, only: str | None = None) -> Iterator[Row]:
        def present() -> list[str]:
            prefix = _PREFIXES["server_group"].format(director_prefix(self.client.director_uuid))
            return [
                str(row["name"]) for row in self.client.everywhere("resourcePolicies", filter=f"name eq {prefix}.*")
            ]

        for group in self.groups.server.list_recorded_only(self.client.director_uuid, present, only):
            row = self.client.get(self.client.path("firewalls", group.cid))
            if row:
                yield {**row, _USERS: group.members}

    def _with_nodes(self, rows: Iterable[Row]) -> list[Row]:
        """With the sole-tenant nodes that they are on."""
        found, nodes = list(rows), dict[str, str]()
        for group in sorted({name for row in found if (name := node_group_of(row))}):
            nodes |= self.groups.policies.nodes_of_vms(group)
        return [{**row, "_node": nodes.get(cid_of(row))} for row in found]

    def _with_users(self, kind: Kind, rows: list[Row]) -> list[Row]:
        """Of groups and networks, of all of them by one list of the instances."""
        if kind not in _PREFIXES or not rows:
            return rows
        vms = list(self.machines.list_all())
        holders = self.groups.records.holders() if kind == "security_group" else {}

        def users_of(name: str) -> tuple[str, ...]:
            if kind == "server_group":
                return tuple(cid_of(vm) for vm in vms if has_policy(vm, name))
            if kind == "security_group":
                return (*holders.get(name, ()), *self.groups.firewalls.users(name, vms))
            nics = [(cid_of(vm), nic) for vm in vms for nic in vm.get("networkInterfaces") or ()]
            return tuple(cid for cid, nic in nics if name_of(str(nic.get("subnetwork"))) == name)

        return [row if _USERS in row else {**row, _USERS: users_of(str(row["name"]))} for row in rows]

    # -- objects --

    def _describe(self, kind: Kind, row: Row) -> CloudObject:
        cid = cid_of(row) if kind in _ZONAL else str(row["name"])
        if kind == "vm":
            return describe(kind, cid, row, in_use_by=(), state=state_of(row), host=row.get("_node") or host_of(row))
        if kind == "disk":
            used = users(row)
            return describe(kind, cid, row, in_use_by=used, state="attached" if used else "detached")
        if kind == "snapshot":
            return describe(kind, cid, row, in_use_by=())
        if kind == "image":
            used = () if row.get("status") == UPLOADED else self._sharers(cid)
            return describe(kind, cid, row, in_use_by=used, state=row.get("status"))
        (row,) = self._with_users(kind, [row])
        return describe(kind, cid, row, in_use_by=tuple(row[_USERS]), state="live" if kind == "server_group" else None)

    def _sharers(self, cid: str) -> tuple[str, ...]:
        """Who has a role on the image itself: it uses it. Roles on the project are for all of it, and share nothing.
        Images name no disks that were made of them, and do not need them."""
        path = f"{self.client.path('images', cid)}/getIamPolicy"
        try:
            policy = self.client.ask(f"read the policy of image {cid}", path, optionsRequestedPolicyVersion="3")
        except Refusal as error:
            if error.is_missing:
                return ()
            raise
        return tuple(dict.fromkeys(who for one in policy.get("bindings") or () for who in one.get("members") or ()))


def _is_part(row: Row) -> bool:
    """A disk that its VM has: it goes with it."""
    return bool(users(row)) and str(row["name"]).endswith((f"-{BOOT}", f"-{EPHEMERAL}"))
