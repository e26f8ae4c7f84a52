"""Making a thing once, though many try under one mark. Cinder, Nova's server groups and Neutron's security groups take
any number of one name, so whoever makes one asks the runtime for the only writer of that mark."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from coterie.cpi.contract import CpiError, Json, Kind, Mark, OutcomeUnknown, revive
from coterie.cpi.drivers.openstack.api import Row
from coterie.cpi.drivers.openstack.cloud import OpenstackCloud
from coterie.cpi.drivers.openstack.kinds import LISTINGS, is_gone
from coterie.cpi.drivers.openstack.refusals import BROKEN, Refusal, translate

T = TypeVar("T")
_DOMAINS = 32
_BATCH_S = 3.0


class Once(OpenstackCloud):
    def once(self, kind: Kind, mark: Mark, body: Json) -> tuple[str, bool]:
        """The id of the thing under this mark, and whether this very call made it. `body` must hold no secret: it
        waits in the ledger."""
        outcome = self.submit(kind, mark.intent, {"kind": kind, "mark": mark.wire(), "body": body})
        return str(outcome["id"]), bool(outcome["made"])

    def submit(self, purpose: str, key: str, change: Json) -> Json:
        """Through the one writer for this key. Keys share a few domains, since the runtime keeps every domain."""
        domain = f"openstack:{self.cloud}/{purpose}/{zlib.crc32(key.encode()) % _DOMAINS}"
        outcome: Json = {"later": True}
        while outcome.get("later"):
            until = time.time() + self.settings.settle_s / 2
            outcome = self.runtime.coordinator.submit(self, domain, {**change, "until": until})
        if not outcome.get("ok"):
            raise revive(outcome.get("error") or {})
        return outcome

    def apply(self, domain: str, changes: Sequence[Json]) -> list[Json]:
        """Nobody is told before all are done, and the writer's lease is short: so some have to come again. So has what
        is old: whoever submitted it may be dead, and given up for good."""
        enough = time.monotonic() + _BATCH_S
        return [
            self.applied(domain, change)
            if time.monotonic() < enough and time.time() < change["until"]
            else {"ok": False, "later": True}
            for change in changes
        ]

    def applied(self, domain: str, change: Json) -> Json:
        """One change, and what came of it."""
        try:
            return {"ok": True, **self.effect(domain, change)}
        except Refusal as error:
            return {"ok": False, "error": translate(error).facts()}
        except CpiError as error:
            return {"ok": False, "error": error.facts()}

    def effect(self, domain: str, change: Json) -> Json:
        """The looks may have outlasted the turn: it is asked for again right before something is made."""
        kind, mark = change["kind"], Mark.of_wire(change["mark"])
        found = self.living(kind, mark)
        if found:
            return {"id": found["id"], "made": False}
        self.runtime.coordinator.hold(domain)
        made = str(self.made(kind, mark, change["body"])["id"])
        return self.elected(kind, made, [row for row in self.marked(kind, mark) if not is_gone(row)])

    def elected(self, kind: Kind, made: str, rows: Sequence[Row]) -> Json:
        """A writer that was paused past its lease, or another ledger's, may have made one too: the oldest counts, and
        whoever made a younger one removes it."""
        first = str(rows[0]["id"]) if rows else made
        if first != made:
            listing = LISTINGS[kind]
            path = listing.path.removesuffix("/detail")
            with suppress(Refusal):
                self.api.send("DELETE", f"remove a second {kind}", listing.service, f"{path}/{made}")
        return {"id": first, "made": first == made}

    def finished(self, wait: Callable[[], T], remove: Callable[[], None]) -> T:
        """What was made, once it is ready. One that cannot be made ready is removed; where that cannot be done either,
        or time was too short, it stays in doubt, never `nothing was done`."""
        try:
            return wait()
        except OutcomeUnknown:
            raise
        except (Refusal, CpiError) as error:
            try:
                remove()
            except (Refusal, CpiError) as trouble:
                raise OutcomeUnknown(
                    "what was made is not ready and could not be removed",
                    why=f"{error}; then {trouble}",
                    remedy="look for it by its mark",
                ) from error
            raise

    def living(self, kind: Kind, mark: Mark) -> Row | None:
        return next((row for row in self.marked(kind, mark) if not is_gone(row)), None)

    def made(self, kind: Kind, mark: Mark, body: Json) -> Row:
        """A service that broke while it worked may have made it all the same; it has ended, so one look tells."""
        listing = LISTINGS[kind]
        path = listing.path.removesuffix("/detail")
        try:
            answer = self.api.send("POST", f"create a {kind}", listing.service, path, {listing.one: body})
        except Refusal as error:
            found = self.living(kind, mark) if error.status == BROKEN else None
            if found is None:
                raise
            return found
        made: Row = answer.get(listing.one, answer)
        return made
