"""Waiting for servers: until one runs, until one is gone. A whole server costs Nova questions to Neutron, so ours are
waited for in short lists, by their tags; all that boot at the same time in one list."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from coterie.cpi.contract import Mark, NoPlacement, Runtime, VMCreationFailed
from coterie.cpi.drivers.openstack.api import Row
from coterie.cpi.drivers.openstack.cloud import OpenstackCloud, is_uuid
from coterie.cpi.drivers.openstack.kinds import LISTINGS
from coterie.cpi.drivers.openstack.marking import director_tag
from coterie.cpi.drivers.openstack.refusals import CONFLICT, MISSING, Refusal, no_host

_DEFERRED = "SOFT_DELETED"
_BUILDING, _FAILED = ("BUILD", "REBOOT", "HARD_REBOOT"), "ERROR"


class Waits(OpenstackCloud):
    def __init__(self, cloud: str, properties: Mapping[str, Any], runtime: Runtime) -> None:
        super().__init__(cloud, properties, runtime)
        self._asking = threading.Lock()
        self._building: dict[str, tuple[float, frozenset[str]]] = {}  # by Director: when it was asked, and who builds

    def running(self, wanted: str, mark: Mark | None) -> None:
        """Returns when the server runs; one that failed, or went, is an error that says why."""
        began = time.monotonic()

        def look() -> bool | None:
            if mark and wanted in self._all_building(mark.director, began):
                return None
            return True if mark and self._listed(wanted, mark, status="ACTIVE") else self._decided(wanted)

        self.awaited(f"the boot of server {wanted}", look, first_s=self.settings.poll_s)

    def gone(self, wanted: str, mark: Mark | None) -> None:
        def look() -> bool | None:
            if mark and self._listed(wanted, mark):
                return None
            server = self.row("vm", wanted)
            if server is not None and server["status"] == _DEFERRED:
                self._delete_for_good(wanted)
            return True if server is None else None

        self.awaited(f"the deletion of server {wanted}", look, first_s=self.settings.poll_s)

    def server_tags(self, wanted: str) -> list[str] | None:
        """None where there is no such server. Of one that has no host yet only the whole server tells."""
        if not is_uuid(wanted):
            return None
        answer = self.api.look(f"look at server {wanted}", "compute", f"/servers/{wanted}/tags")
        found = answer or self.row("vm", wanted)
        return None if found is None else list(found.get("tags") or ())

    def act_on_server(self, wanted: str, action: Row, what: str) -> Row:
        return self.api.send("POST", f"{what} server {wanted}", "compute", f"/servers/{wanted}/action", action)

    def _delete_for_good(self, wanted: str) -> None:
        try:
            self.act_on_server(wanted, {"forceDelete": None}, "delete for good")
        except Refusal as error:
            if error.status not in (MISSING, CONFLICT):  # gone, or told before
                raise

    def _all_building(self, director: str, since: float) -> frozenset[str]:
        """The servers of a Director that are being built; asked once for all who wait, and not before `since`."""
        with self._asking:
            asked, found = self._building.get(director, (0.0, frozenset()))
            if asked < max(since, time.monotonic() - self.settings.poll_s):
                asked = time.monotonic()
                found = frozenset(self._listed_building(director))
                self._building[director] = asked, found
            return found

    def _listed_building(self, director: str) -> list[str]:
        what, where = "look for servers that are built", ("compute", "/servers", "servers")
        found: list[str] = []
        marker: str | None = None
        while True:
            rows, marker = self.api.page(what, *where, marker, tags=director_tag(director), status="BUILD")
            found += [str(row["id"]) for row in rows]
            if marker is None:
                return found

    def _listed(self, wanted: str, mark: Mark, **more: Any) -> bool:
        params = {**LISTINGS["vm"].by_mark(mark), **more}
        rows = self.api.get("look for servers", "compute", "/servers", **params)["servers"]
        return any(row["id"] == wanted for row in rows)

    def _decided(self, wanted: str) -> bool | None:
        server = self.row("vm", wanted)
        if server is None:
            raise VMCreationFailed(
                f"server {wanted} is gone",
                why="somebody deleted it while it was built",
                remedy="repeat",
                retryable=True,
            )
        if server["status"] == _FAILED:
            raise failed(server)
        return None if server["status"] in _BUILDING else True


def failed(server: Row) -> VMCreationFailed:
    text = str((server.get("fault") or {}).get("message") or "Nova gives no reason")
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
