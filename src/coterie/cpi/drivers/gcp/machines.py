"""Instances that are there: read, deleted with the disks that came with them, rebooted, described; machine types; and
the instance that this process runs in."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping

from coterie.cpi.contract import InvalidCall, Json, opt_out_reason, read_name
from coterie.cpi.drivers.gcp.client import Client, Refusal
from coterie.cpi.drivers.gcp.login import ask_metadata
from coterie.cpi.drivers.gcp.marks import TAGS, Row, labels_of, mark_of, name_of, user_labels, whole_tags, zone_of
from coterie.cpi.kit.calls import rewrite
from coterie.cpi.kit.checks import vm_missing
from coterie.cpi.kit.disks import gib
from coterie.cpi.kit.http import AnswerLost, NotTaken
from coterie.cpi.kit.marking import GROUP
from coterie.cpi.kit.metadata_service import not_inside
from coterie.cpi.kit.sizes import Size, require_fit
from coterie.slotted import dataclass

BOOT, EPHEMERAL = "os", "eph"  # what follows the mark in the names of an instance's own disks
_STATES = {
    **dict.fromkeys(("PROVISIONING", "STAGING", "PENDING"), "building"),
    **dict.fromkeys(("RUNNING", "REPAIRING"), "running"),
    **dict.fromkeys(("TERMINATED", "STOPPED", "STOPPING", "SUSPENDED", "SUSPENDING", "PENDING_STOP"), "stopped"),
}
NODE_GROUP = "compute.googleapis.com/node-group-name"
_GONE = ("DEPROVISIONING",)


@dataclass(frozen=True, slots=True)
class Machines:
    client: Client

    def path(self, cid: str) -> str:
        return self.client.path("instances", cid)

    def read(self, cid: str) -> Row | None:
        return self.client.get(self.path(cid))

    def exists(self, cid: str) -> bool:
        return self.read(cid) is not None

    def require(self, cid: str) -> Row:
        row = self.read(cid)
        if row is None:
            raise vm_missing(cid)
        return row

    def delete(self, cid: str) -> None:
        """One operation, waited for and proven. Disks that were attached stay, also where a person had them go with
        the VM; its own go with it, and by their names and marks where it is gone already: an answer that it is gone is
        no proof for them."""
        path, row = self.path(cid), self.read(cid)
        if row is not None:
            if not row.get("deletionProtection"):  # else Google refuses, and nothing is changed
                self._detach_others(cid, row)
            self.client.delete(f"delete VM {cid}", path)
            self.client.waits.until(
                f"the deletion of VM {cid}", lambda: True if self.client.get(path) is None else None
            )
        name = name_of(cid)
        for part in (BOOT, EPHEMERAL) if read_name(name) else ():
            disk = self.client.path("disks", f"{cid}-{part}")
            left = self.client.get(disk)
            if left is not None and _goes_with(left, name):
                self.client.delete(f"delete disk {name}-{part}", disk)

    def _detach_others(self, cid: str, row: Row) -> None:
        """What Google would delete with the VM, and is not the VM's own."""
        for one in attached(row):
            if not one.get("autoDelete"):
                continue
            device = str(one["deviceName"])
            try:
                what = f"detach {name_of(one['source'])}, which would be deleted with VM {cid}"
                self.client.change(what, "POST", f"{self.path(cid)}/detachDisk", deviceName=device)
            except Refusal:  # another call was faster, or it stays attached and must keep its VM
                left = self.client.get(self.path(cid))
                if left is not None and any(each.get("deviceName") == device for each in attached(left)):
                    raise

    def reboot(self, cid: str) -> None:
        status = self.require(cid).get("status")
        action = {"SUSPENDED": "resume", "TERMINATED": "start", "STOPPED": "start"}.get(str(status), "reset")
        self.client.change(f"{action} VM {cid}", "POST", f"{self.path(cid)}/{action}")

    def set_metadata(self, cid: str, metadata: Mapping[str, str]) -> None:
        """As labels, by which lists are filtered; values that labels cannot hold stand whole in the metadata, too."""
        labels, path = user_labels(metadata), self.path(cid)
        self.client.set_labels(path, lambda: self.require(cid), labels)
        whole = {key: str(value) for key, value in metadata.items() if labels.get(key) != str(value)}

        def write(row: Row) -> None:
            has, given = whole_tags(row), row.get("metadata") or {}
            tags = {**{key: value for key, value in has.items() if key not in metadata}, **whole}
            if tags != has:
                items = [one for one in given.get("items") or () if one["key"] != TAGS]
                items.append({"key": TAGS, "value": json.dumps(tags)})
                body = {"items": items, "fingerprint": given.get("fingerprint", "")}
                self.client.change(f"describe VM {cid}", "POST", f"{path}/setMetadata", body)

        rewrite(lambda: self.require(cid), write)

    def exchange_tags(self, cid: str, old: set[str], new: set[str]) -> None:
        """Network tags, of which other writers' stay."""

        def write(row: Row) -> None:
            tags = row.get("tags") or {}
            has = [str(one) for one in tags.get("items") or ()]
            wanted = [*(one for one in has if one not in old - new), *sorted(new - set(has))]
            if set(wanted) != set(has):
                body = {"items": wanted, "fingerprint": tags.get("fingerprint", "")}
                self.client.change(f"change the tags of {cid}", "POST", f"{self.path(cid)}/setTags", body)

        rewrite(lambda: self.require(cid), write)

    def list_disks(self, cid: str) -> list[str]:
        """Persistent ones: all but the instance's own."""
        row = self.require(cid)
        return [f"{zone_of(row)}/{name_of(one['source'])}" for one in attached(row)]

    def members(self, group_cid: str) -> list[Row]:
        """Ours of a server group, by their label."""
        return self._list_labelled(self.client.list_path("instances"), group_cid)

    def placed_members(self, zone: str, group_cid: str, policy: str) -> list[Row]:
        """Those that share the policy's domains of a zone. A copy that a person made bears our labels under another
        name, and what has not the policy has no domain."""
        rows = self._list_labelled(f"{self.client.project}/zones/{zone}/instances", group_cid)
        return [row for row in rows if has_policy(row, policy) and _has_name_of_mark(row)]

    def _list_labelled(self, path: str, group_cid: str) -> list[Row]:
        """The filter is not believed."""
        label = group_label(group_cid)
        rows = self.client.list_all("instances", path, filter=f'labels.{GROUP}="{label}"')
        return [row for row in rows if labels_of(row).get(GROUP) == label]

    def list_all(self) -> Iterator[Row]:
        """Of all owners: Google filters by no field that is a list, such as policies and tags."""
        return (row for row in self.client.everywhere("instances") if row.get("status") not in _GONE)

    def smallest_fit(self, requirements: Mapping[str, int]) -> Json:
        zone = self.client.settings.default_zone or self.zones()[0]
        rows = self.client.list_all("machineTypes", f"{self.client.project}/zones/{zone}/machineTypes")
        sizes = [Size(str(row["name"]), int(row["guestCpus"]), int(row["memoryMb"])) for row in rows]
        found, wanted = require_fit(requirements, sizes, "machine type", f"zone {zone}")
        disk = {"ephemeral_disk_size_gb": gib(wanted.disk_mb)} if wanted.disk_mb else {}
        return {"machine_type": found.name, **disk}

    def zones(self) -> list[str]:
        row = self.client.ask("read the region", self.client.region)
        return sorted(name_of(one) for one in row.get("zones") or ())

    def require_zone(self, wanted: str | None) -> str:
        """What is in another region would be made, and never found again. Google's zones begin with their region."""
        region, zone = self.client.settings.region, wanted or self.client.settings.default_zone
        if not zone:
            raise InvalidCall("cloud_properties.zone is missing", remedy="name it, or set properties.default_zone")
        if not zone.startswith(f"{region}-") and zone not in self.zones():
            why = "what is in another region would not be found again"
            raise InvalidCall(f"zone {zone[:80]} is not in region {region}", why=why, remedy="name one of this region")
        return zone

    def current_id(self) -> str:
        return f"{name_of(self._read_metadata('zone'))}/{self._read_metadata('name')}"

    def _read_metadata(self, what: str) -> str:
        try:
            return ask_metadata(self.client.http, what).decode(errors="replace")
        except (NotTaken, AnswerLost, ValueError) as error:
            raise not_inside(f"instance/{what}", error) from error


def has_policy(row: Row, name: str) -> bool:
    return name in {name_of(one) for one in row.get("resourcePolicies") or ()}


def group_label(group_cid: str) -> str:
    return group_cid.replace(".", "_")[:63]


def state_of(row: Row) -> str | None:
    """In the contract's words."""
    return _STATES.get(str(row.get("status")))


def attached(row: Row) -> list[Row]:
    """The persistent disks of an instance. Not told by `autoDelete`, which people may have switched on."""
    own = {f"{row['name']}-{part}" for part in (BOOT, EPHEMERAL)}
    disks = [one for one in row.get("disks") or () if one.get("source") and not one.get("boot")]
    return [one for one in disks if name_of(one["source"]) not in own]


def _goes_with(disk: Row, vm_name: str) -> bool:
    """A disk that is named like the VM's own: whether it is that, and bears no word that keeps it."""
    mark = mark_of(disk)
    return mark is not None and mark.name() == vm_name and not opt_out_reason(labels_of(disk), time.time())


def _has_name_of_mark(row: Row) -> bool:
    mark = mark_of(row)
    return mark is not None and mark.name() == row["name"]


def domain_of(row: Row) -> str | None:
    """The availability domain that the cloud shows; those of different zones are different ones."""
    found = ((row.get("resourceStatus") or {}).get("scheduling") or {}).get("availabilityDomain")
    return f"{zone_of(row)}/{found}" if found else None


def node_group_of(row: Row) -> str | None:
    """The group of sole-tenant nodes that it was put on."""
    for one in (row.get("scheduling") or {}).get("nodeAffinities") or ():
        if one.get("key") == NODE_GROUP and one.get("operator") == "IN" and one.get("values"):
            return str(one["values"][0])
    return None


def host_of(row: Row) -> str | None:
    """Shown for placements in which Google tells the host."""
    status = row.get("resourceStatus") or {}
    found = (status.get("physicalHostTopology") or {}).get("host") or status.get("physicalHost")
    return str(found) if found else None
