"""Instances that are there: read, configured, started, deleted; and the name of the one that this process runs in."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from coterie.cpi.contract import CpiError, Json, NoPlacement, Unavailable
from coterie.cpi.drivers.incus.client import Client, Refusal, Row
from coterie.cpi.drivers.incus.marks import UNREAD, is_unread, user_config
from coterie.cpi.drivers.incus.placement import Members, ReservationRecords
from coterie.cpi.kit.checks import vm_missing
from coterie.cpi.kit.metadata_service import not_inside
from coterie.cpi.kit.sizes import read_requirements
from coterie.cpi.kit.waits import Waits
from coterie.slotted import dataclass

GUEST_SOCKETS = ("/dev/incus/sock", "/dev/lxd/sock")
_TIMEOUT_S = 3.0


@dataclass(frozen=True, slots=True)
class Machines:
    client: Client
    members: Members
    recorded: ReservationRecords
    waits: Waits

    def read(self, cid: str) -> Row | None:
        """Where its member is silent only the list has it, with the status Error."""
        if not _is_name(cid):
            return None
        try:
            found: Row | None = self.client.ask(f"read instance {cid}", f"/instances/{cid}")
        except Refusal as error:
            listed = self.client.rows("list instances", "/instances", {"name": cid})
            if not listed:
                raise error
            return {**listed[0], **UNREAD}
        if found and found["status"] == "Ready":  # it runs, and its guest told Incus that it is ready
            found["status"] = "Running"
        return found

    def exists(self, cid: str) -> bool:
        return self.read(cid) is not None

    def require(self, cid: str) -> Row:
        row = self.read(cid)
        if row is None:
            raise vm_missing(cid)
        return row

    def require_read(self, cid: str) -> Row:
        """With all that it has: nothing is concluded from what a silent member does not tell."""
        row = self.require(cid)
        if is_unread(row):
            raise Unavailable(f"member {row.get('location')}, which has VM {cid}, is silent", remedy="bring it back")
        return row

    def await_creation(self, cid: str, operation: str) -> Row | None:
        """The instance once Incus is through with making it; None if it came to nothing. Without an operation's id the
        one that makes it is looked for."""
        for one in [operation] if operation else self.operations_of(cid):
            self.client.wait(f"create instance {cid}", one)
        return self.read(cid)

    def operations_of(self, cid: str) -> list[str]:
        return self.client.at_work().get(cid, [])

    def await_idle(self, cid: str) -> Row | None:
        """The instance once no other call is at it."""
        for operation in self.operations_of(cid):
            with suppress(CpiError):
                self.client.wait(f"change {cid}", operation)
        return self.read(cid)

    def start(self, cid: str) -> None:
        """Another call may start it at the same time: only its state tells."""
        self._change_state(cid, "start", "Running")

    def reboot(self, cid: str) -> None:
        row = self.require(cid)
        if row["status"] == "Running":
            body = {"action": "restart", "force": True, "timeout": -1}
            self.client.run(f"restart {cid}", "PUT", f"/instances/{cid}/state", body)
        else:
            self.start(cid)

    def delete(self, cid: str) -> None:
        """Volumes stay. What another call does with the instance meanwhile is waited for."""
        is_settled = False

        def attempt() -> bool | None:
            nonlocal is_settled
            row = self.read(cid)
            if row is None:
                return True
            if not is_settled:
                self.recorded.settle(row)
                is_settled = True
            try:
                if row["status"] not in ("Stopped", "Error"):
                    self._change_state(cid, "stop", "Stopped")
                    row = {**row, "status": "Stopped"}
                self.client.run(f"delete {cid}", "DELETE", f"/instances/{cid}")
                return True
            except Refusal as error:
                if error.is_missing:
                    return True
                if not self.operations_of(cid) and self._is_final(row, error):
                    raise
            return None

        self.waits.until(f"the deletion of {cid}", attempt)

    def _is_final(self, row: Row, error: Refusal) -> bool:
        """Whether a repeat would be refused too: all but a state that changed between look and call."""
        now = self.read(str(row["name"]))
        return now is not None and now["status"] == row["status"]

    def set_metadata(self, cid: str, metadata: Mapping[str, str]) -> None:
        config = user_config(metadata)
        try:
            if config and _is_name(cid):
                self.client.run(f"configure {cid}", "PATCH", f"/instances/{cid}", {"config": config})
                return
        except Refusal:
            self.require_read(cid)
            raise
        self.require_read(cid)

    def list_disks(self, cid: str) -> list[str]:
        return disks_of(self.require_read(cid))

    def smallest_fit(self, requirements: Mapping[str, int]) -> Json:
        """Sizes are free; only the largest member limits them."""
        wanted = read_requirements(requirements)
        sizes = {str(row["server_name"]): row["status"] for row in self.members.rows()}
        known = {name: self.members.size(name) for name, status in sizes.items() if status == "Online"}
        if not any(cpu >= wanted.cpu and memory >= wanted.ram_mb for cpu, memory in known.values()):
            raise NoPlacement(
                f"no member has {wanted.cpu} CPUs and {wanted.ram_mb} MiB",
                why=", ".join(f"{name}: {cpu} CPUs, {memory} MiB" for name, (cpu, memory) in sorted(known.items())),
                remedy="ask for less",
            )
        return {"cpu": wanted.cpu, "memory": wanted.ram_mb, "ephemeral_disk": wanted.disk_mb}

    def current_id(self) -> str:
        """Incus tells a guest its own name over a socket inside it."""
        import http.client

        from coterie.cpi.drivers.incus.client import SocketConnection

        path = next((one for one in GUEST_SOCKETS if Path(one).exists()), GUEST_SOCKETS[0])
        connection = SocketConnection(path, _TIMEOUT_S)
        try:
            connection.request("GET", "/1.0/meta-data")
            text = connection.getresponse().read().decode()
        except (OSError, http.client.HTTPException) as error:
            raise not_inside(path, error) from error
        finally:
            connection.close()
        words = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
        if "local-hostname" not in words:
            raise CpiError(
                "the server does not tell the name of this instance",
                why=text[:200],
                remedy="set security.guestapi, or security.devlxd on LXD",
            )
        return words["local-hostname"].strip()

    def _change_state(self, cid: str, action: str, wanted: str) -> None:
        body = {"action": action, "force": action == "stop", "timeout": -1}
        try:
            self.client.run(f"{action} {cid}", "PUT", f"/instances/{cid}/state", body)
        except Refusal as error:
            row = self.await_idle(cid)
            if row is None or row["status"] != wanted:
                raise error


def disks_of(row: Row) -> list[str]:
    """The persistent disks that an instance has."""
    found = [one for one in row["devices"].values() if one.get("type") == "disk" and one.get("path") != "/"]
    return [f"{one['pool']}:{one['source']}" for one in found if one.get("pool")]


def _is_name(cid: str) -> bool:
    return bool(cid) and all(one.isalnum() or one == "-" for one in cid)
