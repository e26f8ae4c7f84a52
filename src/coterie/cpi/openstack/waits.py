"""Waiting for servers: until one runs, until one is gone, until the scheduler has chosen a host."""

from __future__ import annotations

from coterie.cpi.contract import NoPlacement, VMCreationFailed
from coterie.cpi.openstack.api import Row
from coterie.cpi.openstack.cloud import OpenstackCloud
from coterie.cpi.openstack.kinds import host_of
from coterie.cpi.openstack.refusals import no_host

_DEFERRED = "SOFT_DELETED"
_DONE = ("ACTIVE", "SHUTOFF", "PAUSED", "SUSPENDED")


class Waits(OpenstackCloud):
    def running(self, wanted: str) -> Row:
        """The server once it runs; one that failed is an error that says why."""

        def look() -> Row | None:
            server = self.row("vm", wanted)
            if server is None:
                raise VMCreationFailed(
                    f"server {wanted} is gone",
                    why="somebody deleted it while it was built",
                    remedy="repeat",
                    retryable=True,
                )
            if server["status"] == "ERROR":
                raise failed(server)
            return server if server["status"] in _DONE else None

        return self.awaited(f"the boot of server {wanted}", look)

    def placed(self, wanted: str, limit_s: float) -> None:
        """Returns when the scheduler has decided, for a host or against all."""

        def look() -> bool | None:
            server = self.row("vm", wanted)
            return True if server is None or host_of(server) or server["status"] == "ERROR" else None

        self.awaited(f"a host for server {wanted}", look, limit_s)

    def gone(self, wanted: str) -> None:
        def look() -> bool | None:
            server = self.row("vm", wanted)
            if server is not None and server["status"] == _DEFERRED:
                self.act_on_server(wanted, {"forceDelete": None}, "delete for good")
            return True if server is None else None

        self.awaited(f"the deletion of server {wanted}", look)

    def act_on_server(self, wanted: str, action: Row, what: str) -> Row:
        return self.api.send("POST", f"{what} server {wanted}", "compute", f"/servers/{wanted}/action", action)


def fault_of(server: Row) -> str:
    return str((server.get("fault") or {}).get("message") or "Nova gives no reason")


def failed(server: Row) -> VMCreationFailed:
    text = fault_of(server)
    if no_host(text):
        return NoPlacement(
            "no host can take the VM", why=text, remedy="ask for less, add hosts, free some, or use a soft policy"
        )
    return VMCreationFailed(
        "Nova could not build the VM",
        why=text,
        remedy="repeat; if it happens again, look at Nova's log",
        retryable=True,
    )
