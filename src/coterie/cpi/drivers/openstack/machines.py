"""VMs that exist: waiting for Nova's servers, describing and restarting them, and their end. A VM goes with its
floating addresses, ports and volumes of its own; persistent disks stay. How a VM is created: `create_vm`."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from coterie.cpi.contract import Json, Mark, NoPlacement, Unavailable, VMCreationFailed
from coterie.cpi.drivers.openstack.client import CONFLICT, MISSING, Client, Refusal, Row, has_no_host
from coterie.cpi.drivers.openstack.disks import Volumes
from coterie.cpi.drivers.openstack.lookups import Lookups
from coterie.cpi.drivers.openstack.networks import FloatingIps, Ports
from coterie.cpi.drivers.openstack.rows import (
    KEY,
    LISTINGS,
    VIP,
    VOLUME,
    Rows,
    director_tag,
    ids,
    is_gone,
    is_uuid,
    mark_of_tags,
    user_metadata,
)
from coterie.cpi.kit.checks import vm_missing
from coterie.cpi.kit.key_pairs import KeyPairs
from coterie.cpi.kit.marking import read_mark_name
from coterie.cpi.kit.metadata_service import not_inside, read_metadata
from coterie.cpi.kit.waits import Waits
from coterie.slotted import dataclass, field

_DEFERRED, _FAILED = "SOFT_DELETED", "ERROR"
_BUILDING = ("BUILD", "REBOOT", "HARD_REBOOT")
_NAME_LIMIT = 255
# From 2.75 on the answer to a rename is the whole server, for which Nova asks Neutron.
_BRIEF = {"OpenStack-API-Version": "compute 2.74"}


@dataclass(frozen=True, slots=True)
class Servers:
    """Nova's servers, one by one. To read a whole server Nova asks Neutron too, so ours are waited for in short lists,
    by their tags; all that boot at the same time in one list."""

    client: Client
    rows: Rows
    waits: Waits
    _listing: threading.Lock = field(default_factory=threading.Lock, init=False)
    # by Director: when its building servers were listed, and their ids
    _building: dict[str, tuple[float, frozenset[str]]] = field(default_factory=dict, init=False)

    def wait_until_running(self, wanted: str, mark: Mark | None) -> None:
        """One that failed, or went, is an error that says why."""
        began = time.monotonic()

        def look() -> bool | None:
            if mark and wanted in self._list_building(mark.director, began):
                return None
            return True if mark and self._is_listed(wanted, mark, status="ACTIVE") else self._is_decided(wanted)

        self.waits.until(f"the boot of server {wanted}", look, first_s=self.waits.poll_s)

    def delete(self, wanted: str, mark: Mark | None) -> None:
        """Gone when this returns."""
        try:
            self.rows.delete("vm", wanted)
        except Refusal as error:
            if error.status != CONFLICT or not self._is_deleting(wanted):
                raise
        self._wait_until_gone(wanted, mark)

    def read_tags(self, wanted: str) -> list[str] | None:
        """None where there is no such server. Before it has a host only the whole server shows its tags."""
        if not is_uuid(wanted):
            return None
        answer = self.client.look(f"look at server {wanted}", "compute", f"/servers/{wanted}/tags")
        found = answer or self.rows.read("vm", wanted)
        return None if found is None else list(found.get("tags") or ())

    def act(self, wanted: str, action: Row, what: str) -> None:
        self.client.send("POST", f"{what} server {wanted}", "compute", f"/servers/{wanted}/action", action)

    def require_listed(self, ports: Sequence[Row]) -> None:
        """Nova silently leaves servers of a cell that is down out of its lists; their ports still name them."""
        for server in {str(port["device_id"]) for port in ports if port.get("device_id")}:
            row = self.rows.read("vm", server)
            if row is not None and not is_gone(row):
                raise Unavailable(
                    f"server {server} is there, and Nova does not list it",
                    why="a cell of Nova's may be down",
                    remedy="repeat once all of Nova's cells are up",
                )

    def _wait_until_gone(self, wanted: str, mark: Mark | None) -> None:
        def look() -> bool | None:
            if mark and self._is_listed(wanted, mark):
                return None
            server = self.rows.read("vm", wanted)
            if server is not None and server["status"] == _DEFERRED:
                self._delete_for_good(wanted)
            return True if server is None else None

        self.waits.until(f"the deletion of server {wanted}", look, first_s=self.waits.poll_s)

    def _delete_for_good(self, wanted: str) -> None:
        try:
            self.act(wanted, {"forceDelete": None}, "delete for good")
        except Refusal as error:
            if error.status not in (MISSING, CONFLICT):  # gone, or requested before
                raise

    def _is_deleting(self, wanted: str) -> bool:
        server = self.rows.read("vm", wanted)
        return server is None or server.get("OS-EXT-STS:task_state") == "deleting"

    def _list_building(self, director: str, since: float) -> frozenset[str]:
        """The servers of a Director that are being built; listed once for all waiting threads, not before `since`."""
        with self._listing:
            listed_at, found = self._building.get(director, (0.0, frozenset()))
            if listed_at < max(since, time.monotonic() - self.waits.poll_s):
                listed_at = time.monotonic()
                params = {"tags": director_tag(director), "status": "BUILD"}
                rows = self.client.list_all("list building servers", "compute", "/servers", "servers", **params)
                found = frozenset(ids(rows))
                self._building[director] = listed_at, found
            return found

    def _is_listed(self, wanted: str, mark: Mark, **more: Any) -> bool:
        params = {**LISTINGS["vm"].by_mark(mark), **more}
        return wanted in ids(self.client.get("look for servers", "compute", "/servers", **params)["servers"])

    def _is_decided(self, wanted: str) -> bool | None:
        server = self.rows.read("vm", wanted)
        if server is None:
            why = "it was deleted while it was built"
            raise VMCreationFailed(f"server {wanted} is gone", why=why, remedy="repeat", retryable=True)
        if server["status"] == _FAILED:
            raise _boot_error(server)
        return None if server["status"] in _BUILDING else True


def _boot_error(server: Row) -> VMCreationFailed:
    text = str((server.get("fault") or {}).get("message") or "Nova gives no reason")
    if has_no_host(text):
        remedy = "ask for less, add hosts, free some, or use a soft policy"
        return NoPlacement("no host can take the VM", why=text, remedy=remedy)
    remedy = "repeat; if it happens again, look at Nova's log"
    return VMCreationFailed("Nova could not build the VM", why=text, remedy=remedy, retryable=True)


@dataclass(frozen=True, slots=True)
class Machines:
    """Whole VMs: the server with everything that comes and goes with it."""

    client: Client
    rows: Rows
    lookups: Lookups
    servers: Servers
    ports: Ports
    floating_ips: FloatingIps
    volumes: Volumes
    key_pairs: KeyPairs

    def exists(self, vm_cid: str) -> bool:
        row = self.rows.read("vm", vm_cid)
        return row is not None and not is_gone(row)

    def reboot(self, vm_cid: str) -> None:
        """One that is off is started."""
        server = self.rows.require_vm(vm_cid)
        action = {"os-start": None} if server["status"] == "SHUTOFF" else {"reboot": {"type": "SOFT"}}
        self.servers.act(vm_cid, action, "restart")
        self.servers.wait_until_running(vm_cid, None)

    def set_metadata(self, vm_cid: str, metadata: Mapping[str, str]) -> None:
        wanted = user_metadata(metadata)
        self._describe(vm_cid, "POST", "/metadata", {"metadata": wanted})
        shown = str(metadata.get("name") or "").strip()[:_NAME_LIMIT]
        if self.client.settings.human_readable_vm_names and shown:
            self._describe(vm_cid, "PUT", "", {"server": {"name": shown}}, headers=_BRIEF)

    def delete(self, wanted: str) -> None:
        """Gone when this returns; gone already is fine. Killed anywhere and repeated, it goes on where it was."""
        tags = self.servers.read_tags(wanted)
        if tags is None:
            self.ports.delete(self.ports.list_leaving(wanted))  # an earlier call may have died before its ports went
            return
        mark = mark_of_tags(tags) or self._young_mark(wanted)
        has = set(tags) if mark_of_tags(tags) else {VIP, VOLUME, KEY}  # a young one may have any
        ports = self._list_ports(wanted, mark) if mark else []
        if mark and VIP in has:
            self.floating_ips.detach(ports)
        volumes = self.volumes.list_attached(wanted, passing=True) if mark and VOLUME in has else []
        key = (self.rows.read("vm", wanted) or {}).get("key_name") if mark and KEY in has else None
        self.ports.note_leaving(ports, wanted)
        self.servers.delete(wanted, mark)
        self.ports.delete(ports)
        for volume in volumes:
            self.volumes.delete(volume)
        self.key_pairs.release(key)

    def delete_unfinished(self, mark: Mark) -> None:
        """Everything under the mark of a VM that was not finished."""
        for server in self.rows.list_marked("vm", mark):
            wanted, tags = str(server["id"]), server.get("tags") or ()
            volumes = self.volumes.list_attached(wanted, passing=True) if VOLUME in tags else []
            self.servers.delete(wanted, mark)
            for volume in volumes:
                self.volumes.delete(volume)
        self.floating_ips.release(self.rows.list_parts("ip", mark))
        ports = self.rows.list_parts("port", mark)
        self.servers.require_listed(ports)
        self.ports.delete(ports)

    def smallest_fit(self, requirements: Mapping[str, int]) -> Json:
        return self.lookups.smallest_fit(requirements)

    def list_disks(self, vm_cid: str) -> list[str]:
        self.rows.require_vm(vm_cid)
        return self.volumes.list_attached(vm_cid, passing=False)

    def current_id(self) -> str:
        """Inside a VM of this cloud, its metadata service knows."""
        url = self.client.settings.metadata_url
        try:
            return str(json.loads(read_metadata(url))["uuid"])
        except (ValueError, KeyError, TypeError) as error:
            raise not_inside(url, error) from error

    def _list_ports(self, server: str, mark: Mark) -> list[Row]:
        rows = self.rows.list_parts("port", mark)
        return [port for port in rows if port.get("device_id") in (None, "", server)]

    def _young_mark(self, wanted: str) -> Mark | None:
        """Nova writes the tags of a server a moment after the server itself; until it is renamed its name tells."""
        return read_mark_name(str((self.rows.read("vm", wanted) or {}).get("name")), self.client.director_uuid)

    def _describe(self, vm_cid: str, method: str, below: str, body: Json, **more: Any) -> None:
        if not is_uuid(vm_cid):
            raise vm_missing(vm_cid)
        path = f"/servers/{vm_cid}{below}"
        try:
            self.client.send(method, f"describe server {vm_cid}", "compute", path, body, **more)
        except Refusal as error:
            if error.status == MISSING:
                raise vm_missing(vm_cid) from error
            raise


@dataclass(frozen=True, slots=True)
class NovaKeyPairs:
    """Fills the kit's `KeyPairPort`. Nova keeps key pairs per user and by unique names. There is one pair for all VMs
    with a key, under the mark of the first; two calls at once may make two, and each goes with its last VM."""

    client: Client
    rows: Rows

    def find(self, digest: bytes, mark: Mark) -> str | None:
        names = [str(row["name"]) for row in self.rows.list_all("keypair")]
        return min((one for one in names if one.endswith(_ending(digest)) and self.mark(one)), default=None)

    def name(self, digest: bytes, mark: Mark) -> str:
        return mark.name() + _ending(digest)

    def register(self, name: str, public_key: str) -> None:
        pair = {"keypair": {"name": name, "public_key": public_key, "type": "ssh"}}
        try:
            self.client.send("POST", "register a key pair", "compute", "/os-keypairs", pair)
        except Refusal as error:
            if error.status != CONFLICT or error.is_quota:
                raise

    def mark(self, name: str) -> Mark | None:
        return read_mark_name(name, self.client.director_uuid)

    def exists(self, name: str) -> bool:
        return self.client.look(f"look at key pair {name}", "compute", f"/os-keypairs/{name}") is not None

    def list_users(self, name: str) -> tuple[str, ...]:
        """Older releases ignore the filter, so each row is compared."""
        rows = self.rows.list_all("vm", key_name=name)
        return tuple(ids(row for row in rows if row.get("key_name") == name and not is_gone(row)))

    def delete(self, name: str) -> None:
        self.rows.delete("keypair", name)


def _ending(digest: bytes) -> str:
    return f"-{digest.hex()[:20]}"
