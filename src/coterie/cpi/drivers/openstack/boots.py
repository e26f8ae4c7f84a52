"""From a request to a server that runs. Boots into one group are handed to the scheduler one after the other where its
policy asks for it: Nova's scheduler counts members by their hosts, so one whose host is not chosen yet is invisible to
the next, and six at once into a soft group land anywhere. Only the choice of a host is waited for, never the boot."""

from __future__ import annotations

import time
from contextlib import suppress

from coterie.cpi.contract import CpiError, InvalidCall, Json, Mark, NoPlacement
from coterie.cpi.drivers.openstack.cloud import Overdue
from coterie.cpi.drivers.openstack.envelope import sealed, unsealed
from coterie.cpi.drivers.openstack.group_rows import group_missing
from coterie.cpi.drivers.openstack.joining import Joining, Place
from coterie.cpi.drivers.openstack.kinds import host_of, is_gone
from coterie.cpi.drivers.openstack.marking import group_tag
from coterie.cpi.drivers.openstack.refusals import BAD, BROKEN, CONFLICT, Refusal, collided
from coterie.cpi.drivers.openstack.removal import Removal

_STRICT = "anti-affinity"
_CHOICE_S = 15.0  # a scheduler that takes longer holds up one boot, not the whole group
_BOOT_S = 120.0  # the same for a whole boot
_TOLD_S = 1.0  # within which a compute host has told all schedulers that a server runs


class Boots(Removal, Joining):
    def booted(self, request: Json, place: Place | None, mark: Mark, *, mine: bool) -> str:
        """The id of a running server under this mark. `mine`: nobody else can be booting it."""
        wanted = (None if mine else self._others(mark)) or self._started(request, place, mark)
        try:
            self.running(wanted, mark)
            return wanted
        except NoPlacement as error:
            if place is None or place.policy != _STRICT or not collided(error.why):
                raise self._explained(error, place) from error
        # it lost its host to others that booted at once; alone, the scheduler sees them
        self.remove_server(wanted, mark)
        wanted = self._paced(request, place, mark)
        try:
            self.running(wanted, mark)
            return wanted
        except NoPlacement as error:
            raise self._explained(error, place) from error

    def effect(self, domain: str, change: Json) -> Json:
        """As the only one that boots into this group, once all that were booted before have a host."""
        if change["kind"] != "vm":
            return super().effect(domain, change)
        with suppress(Refusal, CpiError):  # to wait is only polite
            self._await_others(domain, str(change["group"]))
        request, mark = unsealed(self.settings, change["sealed"]), Mark.of_wire(change["mark"])
        known = self.living("vm", mark)
        if known:
            return {"id": known["id"], "made": False}
        self.runtime.coordinator.hold(domain)
        return {"id": self._boot(request, mark), "made": True}

    def _await_others(self, domain: str, cid: str) -> None:
        if self.settings.soft_spread == "host":
            self.awaited("hosts for a group", lambda: self._all_placed(cid), _CHOICE_S)
            return

        def look() -> bool | None:
            self.runtime.coordinator.hold(domain)  # a boot may take longer than a turn
            return self._all_decided(cid)

        self.awaited("the boots of a group", look, _BOOT_S)
        time.sleep(_TOLD_S)

    def _all_placed(self, cid: str) -> bool | None:
        rows = self.rows("vm", tags=group_tag(cid), status="BUILD")
        return True if all(host_of(row) for row in rows) else None

    def _all_decided(self, cid: str) -> bool | None:
        """By Nova's own list of members, which a server is in before its tags can be seen."""
        known = {str(row["id"]): row for row in self.rows("vm", tags=group_tag(cid))}
        for member in (self.group_row(cid) or {}).get("members") or ():
            row = known.get(str(member)) or self.row("vm", str(member))
            if row and row["status"] == "BUILD":
                return None
        return True

    def _others(self, mark: Mark) -> str | None:
        """Whoever made the ports is booting, or has; or failed, or died: then nothing comes within the settle time."""

        def look() -> str | None:
            for server in self.marked("vm", mark):
                wanted = str(server["id"])
                if server["status"] != "ERROR" and not is_gone(server):
                    return wanted
                self.remove_server(wanted, mark)
                return ""
            return None

        with suppress(Overdue):
            return self.awaited("a boot by somebody else", look, self.settings.settle_s) or None
        return None

    def _started(self, request: Json, place: Place | None, mark: Mark) -> str:
        try:
            if place and place.group and place.policy != _STRICT:
                return self._paced(request, place, mark)
            return self._posted(request, mark)
        except (Refusal, InvalidCall) as error:
            bad = isinstance(error, InvalidCall) or error.status == BAD
            if bad and place and place.group and self.group_row(place.cid) is None:
                raise group_missing(place.cid) from error
            raise

    def _paced(self, request: Json, place: Place, mark: Mark) -> str:
        change = {"kind": "vm", "mark": mark.wire(), "group": place.cid, "sealed": sealed(self.settings, request)}
        return str(self.submit("boot", place.cid, change)["id"])

    def _posted(self, request: Json, mark: Mark) -> str:
        """Under one mark there is one server: one that somebody booted already is it."""
        known = self.living("vm", mark)
        return str(known["id"]) if known else self._boot(request, mark)

    def _boot(self, request: Json, mark: Mark) -> str:
        try:
            return str(self.api.send("POST", "create a server", "compute", "/servers", request)["server"]["id"])
        except Refusal as error:
            found = self.living("vm", mark) if error.status in (BROKEN, CONFLICT) and not error.quota else None
            if found is None:
                raise
            return str(found["id"])

    def _explained(self, error: NoPlacement, place: Place | None) -> CpiError:
        """Nova says that no host fits, not which and why: the group's members are what we can add."""
        if place is None or place.group is None:
            return error
        hosts = sorted({host for row in self.rows("vm", tags=group_tag(place.cid)) if (host := host_of(row))})
        told = f"server group {place.cid} ({place.policy}) has members on {len(hosts)} hosts: {', '.join(hosts[:20])}"
        return NoPlacement(error.what, why=f"{error.why} {told}", remedy=error.remedy)
