"""The object table of Compute Engine. A mark gives the name, so finding is one request for each zone, which never lags;
lists are filtered by label, or by name where a kind has no labels; one that strangers are in proves nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from coterie.cpi.contract import Changed, CloudObject, Kind, Mark, opt_out_reason
from coterie.cpi.drivers.gcp.client import Client, Refusal, RowsPage
from coterie.cpi.drivers.gcp.disks import Disks, users
from coterie.cpi.drivers.gcp.machines import BOOT, EPHEMERAL, Machines, host_of, node_group_of, state_of
from coterie.cpi.drivers.gcp.marks import Row, cid_of, describe, labels_of, mark_of, name_of
from coterie.cpi.drivers.gcp.networks import Subnetworks
from coterie.cpi.drivers.gcp.server_groups import Groups
from coterie.cpi.drivers.gcp.stemcells import Stemcells
from coterie.cpi.kit.marking import DIRECTOR, read_mark_name, read_mark_tags
from coterie.cpi.kit.objects import ObjectKind, ObjectTable, RowPage
from coterie.ids import director_prefix

_ZONAL: Mapping[Kind, str] = {"vm": "instances", "disk": "disks"}
_LISTS: Mapping[Kind, str] = {
    "vm": "aggregated/instances",
    "disk": "aggregated/disks",
    "snapshot": "global/snapshots",
    "image": "global/images",
    "server_group": "aggregated/resourcePolicies",
    "security_group": "global/firewalls",
    "network": "aggregated/subnetworks",
}
_LABELLED: tuple[Kind, ...] = ("vm", "disk", "snapshot", "image")
_PREFIXES: Mapping[Kind, str] = {"server_group": "cg-{}-", "security_group": "cot-sg-{}-", "network": "cot-{}-"}
_GONE = ("DELETING", "DEPROVISIONING")


class Objects:
    def __init__(
        self,
        client: Client,
        groups: Groups,
        machines: Machines,
        disks: Disks,
        stemcells: Stemcells,
        networks: Subnetworks,
    ) -> None:
        self._client = client
        self._groups = groups
        self._machines = machines
        self._stemcells = stemcells
        self._networks = networks
        self._describe: Mapping[Kind, Callable[[Row], CloudObject]] = {
            "vm": self._describe_vm,
            "disk": lambda row: describe(
                "disk", cid_of(row), row, in_use_by=users(row), state="attached" if users(row) else "detached"
            ),
            "snapshot": lambda row: describe("snapshot", str(row["name"]), row, in_use_by=()),
            "image": self._describe_image,
            "server_group": self._describe_group,
            "security_group": self._describe_security_group,
            "network": self._describe_network,
        }
        self._delete: Mapping[Kind, Callable[[str], None]] = {
            "vm": self._delete_vm,
            "disk": disks.delete,
            "snapshot": disks.delete_snapshot,
            "image": stemcells.delete,
            "server_group": groups.delete,
            "security_group": groups.security.delete,
        }

    def table(self) -> ObjectTable:
        kinds = {kind: self._kind(kind) for kind in _LISTS}
        return ObjectTable(self._client.director_uuid, kinds, self._client.limit, self._client.settings.keep)

    def _kind(self, kind: Kind) -> ObjectKind[Row]:
        return ObjectKind(
            lambda mark: self._search(kind, mark),
            lambda director_uuid, cursor: self._page(kind, director_uuid, cursor),
            lambda cid, director_uuid: self._read(kind, cid),
            lambda row, director_uuid: self._describe[kind](row),
            (lambda cid, row: self._delete[kind](cid)) if kind in self._delete else None,
            owner=lambda row: labels_of(row).get(DIRECTOR),
            is_gone=lambda row: row.get("status") in _GONE,
            marking="atomic" if kind in _LABELLED else "name",
        )

    def _delete_vm(self, cid: str) -> None:
        """For cleanup. Google deletes a VM's own disks with it, so a word on one of them keeps the VM."""
        for part in (BOOT, EPHEMERAL):
            row = self._client.get(self._client.zonal("disks", f"{cid}-{part}"))
            kept = opt_out_reason(labels_of(row), time.time()) if row else None
            if kept:
                raise Changed(f"disk {cid}-{part} of VM {cid} is kept", why=kept, remedy="remove that, then repeat")
        self._machines.delete(cid)

    def _read(self, kind: Kind, cid: str) -> Row | None:
        client = self._client
        if kind in _ZONAL:
            return client.get(client.zonal(_ZONAL[kind], cid))
        paths: Mapping[Kind, str] = {
            "server_group": f"{client.region}/resourcePolicies/{cid}",
            "security_group": client.firewall(cid),
            "network": self._networks.path(cid),
        }
        row = client.get(paths.get(kind) or f"{client.project}/{_LISTS[kind]}/{cid}")
        if row is None and kind == "server_group":
            return next(self._recorded(cid), None)
        if row is None and kind == "image" and "/" not in cid:
            return next((one for one in self._stemcells.list_objects(cid) if one["name"] == cid), None)
        return row

    def _search(self, kind: Kind, mark: Mark) -> Iterable[Row]:
        if kind in _ZONAL:
            rows = (self._read(kind, f"{zone}/{mark.name()}") for zone in self._machines.zones())
            return self._with_nodes(row for row in rows if row)
        if kind == "security_group":  # its name follows from the manifest
            rows_of = self._groups.firewalls.list_rows(_PREFIXES[kind].format(director_prefix(mark.director)))
            return [row for row in self._groups.firewalls.heads(rows_of) if mark_of(row) == mark]
        row = self._read(kind, mark.group_cid if kind == "server_group" else mark.name())
        return [row] if row else []

    def _page(self, kind: Kind, director_uuid: str, cursor: str | None) -> RowPage[Row]:
        prefix = _PREFIXES.get(kind, "cot-{}-").format(director_prefix(director_uuid))
        labelled = kind in _LABELLED
        wanted = f'labels.{DIRECTOR}="{director_uuid}"' if labelled else f"name eq {prefix}.*"
        project = self._client.settings.network_project if kind in ("security_group", "network") else None
        base = f"projects/{project}" if project else self._client.project
        page = self._client.page(_LISTS[kind].partition("/")[2], f"{base}/{_LISTS[kind]}", cursor, filter=wanted)
        ours = [row for row in page.rows if self._may_be(kind, row, prefix, director_uuid)]
        if kind not in _LABELLED and ours:
            context = self._context()
            ours = [{**row, **context} for row in ours]
        return RowPage(
            self._own_rows(kind, ours, page, prefix), page.next, page.complete and len(ours) == len(page.rows)
        )

    def _context(self) -> Row:
        """What tells the users of groups and networks: read once for a page."""
        return {"_vms": list(self._machines.list_all()), "_holders": self._groups.records.holders()}

    def _may_be(self, kind: Kind, row: Row, prefix: str, director_uuid: str) -> bool:
        """A cloud that ignores the filter lists strangers' objects too: these show it, and are left out."""
        if kind in _LABELLED:
            return labels_of(row).get(DIRECTOR) == director_uuid
        return str(row["name"]).startswith(prefix)

    def _own_rows(self, kind: Kind, rows: list[Row], page: RowsPage, prefix: str) -> list[Row]:
        """Without rules of security groups, and disks that VMs have of their own; on the last page with what is there
        in another form: server groups that are nothing but a record, and uploads that no image came of."""
        if kind == "vm":
            return self._with_nodes(rows)
        if kind == "security_group":
            return self._groups.firewalls.heads(rows)
        if kind == "disk":
            return [row for row in rows if not _is_part(row)]
        if kind == "server_group" and not page.next:
            return [*rows, *self._recorded()]
        if kind == "image" and not page.next:
            left = self._stemcells.list_objects(prefix)
            return [*rows, *(row for row in left if not any(one["name"] == row["name"] for one in rows))]
        return rows

    def _recorded(self, only: str | None = None) -> Iterator[Row]:
        def present() -> list[str]:
            prefix = f"cg-{director_prefix(self._client.director_uuid)}-"
            rows = self._client.everywhere("resourcePolicies", filter=f"name eq {prefix}.*")
            return [str(row["name"]) for row in rows]

        for group in self._groups.server.list_recorded_only(self._client.director_uuid, present, only):
            row = self._client.get(self._client.firewall(group.cid))
            if row:
                yield {**row, "_members": group.members}

    def _with_nodes(self, rows: Iterable[Row]) -> list[Row]:
        """An instance does not tell its sole-tenant node: the node tells its instances."""
        found = list(rows)
        on: dict[str, str] = {}
        for group in sorted({name for row in found if (name := node_group_of(row))}):
            for node in self._groups.policies.list_nodes(group):
                for link in node.get("instances") or ():
                    zone, _, name = str(link).rsplit("/", 3)[-3:]
                    on[f"{zone}/{name}"] = str(node["name"])
        return [{**row, "_node": on[cid_of(row)]} if cid_of(row) in on else row for row in found]

    def _describe_vm(self, row: Row) -> CloudObject:
        host = row.get("_node") or host_of(row)
        return describe("vm", cid_of(row), row, in_use_by=(), state=state_of(row), host=host)

    def _describe_image(self, row: Row) -> CloudObject:
        """Images name no disks that were made of them, and do not need them; who has a role on one uses it. An upload
        has its mark beside it."""
        if "timeCreated" in row:
            mark = read_mark_tags(row.get("metadata") or {}) or read_mark_name(
                str(row["name"]), self._client.director_uuid
            )
            found = {"name": row["name"], "labels": {}, "creationTimestamp": row.get("timeCreated")}
            return describe("image", str(row["name"]), found, mark=mark, in_use_by=(), state="uploaded")
        cid = str(row["name"])
        return describe("image", cid, row, in_use_by=self._sharers(cid), state=row.get("status"))

    def _sharers(self, cid: str) -> tuple[str, ...]:
        """Who has a role on the image itself. Roles on the project are for all of it, and share nothing."""
        path = f"{self._client.project}/global/images/{cid}/getIamPolicy"
        try:
            policy = self._client.ask(f"read the policy of image {cid}", path, optionsRequestedPolicyVersion="3")
        except Refusal as error:
            if error.is_missing:
                return ()
            raise
        return tuple(dict.fromkeys(who for one in policy.get("bindings") or () for who in one.get("members") or ()))

    def _describe_group(self, row: Row) -> CloudObject:
        name = str(row["name"])
        members = row.get("_members")
        if members is None:
            members = [cid_of(one) for one in self._groups.policies.list_members(name, row.get("_vms"))]
        return describe("server_group", name, row, in_use_by=tuple(members), state="live")

    def _describe_security_group(self, row: Row) -> CloudObject:
        cid = str(row["name"])
        holders = row["_holders"] if "_holders" in row else self._groups.records.holders()
        used = (*holders.get(cid, ()), *self._groups.firewalls.users(cid, row.get("_vms")))
        return describe("security_group", cid, row, in_use_by=used)

    def _describe_network(self, row: Row) -> CloudObject:
        vms = row["_vms"] if "_vms" in row else self._machines.list_all()
        nics = [(cid_of(vm), nic) for vm in vms for nic in vm.get("networkInterfaces") or ()]
        used = tuple(cid for cid, nic in nics if name_of(str(nic.get("subnetwork"))) == row["name"])
        return describe("network", str(row["name"]), row, in_use_by=used)


def _is_part(row: Row) -> bool:
    """A disk that its VM has: it goes with it."""
    return bool(users(row)) and str(row["name"]).endswith((f"-{BOOT}", f"-{EPHEMERAL}"))
