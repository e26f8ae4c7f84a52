"""What all parts of the driver share: settings, the API, looks by mark, and waiting. Nothing is asked before the first
call."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from coterie.cpi.contract import Cpi, Kind, Mark, OutcomeUnknown, Runtime
from coterie.cpi.drivers.openstack.api import Api, Page, Row
from coterie.cpi.drivers.openstack.kinds import LISTINGS
from coterie.cpi.drivers.openstack.properties import read_settings

T = TypeVar("T")
_UUID = re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_SLOWEST_POLL_S = 3.0
_SHORT_PAGE = 50


class Overdue(OutcomeUnknown):
    """What was waited for did not happen in time; unlike a lost answer it leaves no doubt about what was made."""


class OpenstackCloud(Cpi):
    def __init__(self, cloud: str, properties: Mapping[str, Any], runtime: Runtime) -> None:
        super().__init__(cloud, properties, runtime)
        self.settings = read_settings(properties)
        self.api = Api(self.settings)

    def row(self, kind: Kind, wanted: str) -> Row | None:
        """The one object with this id; what is no uuid never was one of the cloud's."""
        if not is_uuid(wanted):
            return None
        listing = LISTINGS[kind]
        path = listing.path.removesuffix("/detail")
        answer = self.api.look(f"look at {kind} {wanted}", listing.service, f"{path}/{wanted}")
        found: Row | None = (answer or {}).get(listing.one, answer)
        return found

    def marked(self, kind: Kind, mark: Mark) -> list[Row]:
        """All objects with this mark, the oldest first; more than one only if somebody lost a race."""
        listing = LISTINGS[kind]
        rows = [row for row in self.rows(kind, **listing.by_mark(mark)) if listing.mark(row, mark.director) == mark]
        return sorted(rows, key=lambda row: (str(row.get("created_at") or row.get("created")), str(row["id"])))

    def rows(self, kind: Kind, **params: Any) -> Iterator[Row]:
        marker: str | None = None
        while True:
            rows, marker = self.page(kind, marker, **params)
            yield from rows
            if marker is None:
                return

    def page(self, kind: Kind, marker: str | None, **params: Any) -> Page:
        """One page, and the marker of the next. Server groups are counted instead, and keypairs wrapped."""
        listing = LISTINGS[kind]
        what, where = f"list objects of kind {kind}", (listing.service, listing.path, listing.key)
        if kind != "server_group":
            rows, following = self.api.page(what, *where, marker, **params)
            return [{"id": one.get("name"), **one} for row in rows for one in [row.get(listing.one, row)]], following
        offset, limit = int(marker or 0), self.settings.page_size
        rows = self.api.get(what, *where[:2], limit=limit, offset=offset)[listing.key]
        # Nova cuts pages to a limit of its own without a word, so only a short page is the last
        return rows, str(offset + len(rows)) if len(rows) >= min(limit, _SHORT_PAGE) else None

    def awaited(self, what: str, look: Callable[[], T | None], limit_s: float | None = None, first_s: float = 0.0) -> T:
        """What a look finds in the end; the first is after `first_s`, and looks become rarer with time."""
        limit = self.settings.state_timeout if limit_s is None else limit_s
        deadline, rest = time.monotonic() + limit, self.settings.poll_s
        time.sleep(min(first_s, limit))
        while True:
            found = look()
            if found is not None:
                return found
            if time.monotonic() >= deadline:
                raise Overdue(
                    f"{what} did not happen within {limit:.0f} s",
                    remedy="look at it in the cloud; raise properties.state_timeout if it only needs longer",
                )
            time.sleep(min(rest, max(deadline - time.monotonic(), 0.0)))
            rest = min(rest * 1.3, _SLOWEST_POLL_S)


def is_uuid(text: str) -> bool:
    return _UUID.match(text) is not None
