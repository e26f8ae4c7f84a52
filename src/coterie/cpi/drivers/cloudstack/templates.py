"""Templates: found by name, id and zone, awaited until every zone has them, and whose download failed told at once."""

from __future__ import annotations

import time
from collections.abc import Sequence

from coterie.cpi.contract import CpiError, InvalidCall, OutcomeUnknown, StemcellNotFound
from coterie.cpi.drivers.cloudstack.api import Row
from coterie.cpi.drivers.cloudstack.cloud import is_uuid
from coterie.cpi.drivers.cloudstack.lookups import Lookups
from coterie.cpi.drivers.cloudstack.refusals import PARAMETER, Refusal

LIGHT = "light-"  # before the id of a template that is not ours
_FILTER, USABLE = "self", "executable"
_UNDERWAY = ("processing", "installing", "% downloaded", "upload", "not started", "in progress")


class Templates(Lookups):
    def ready_template(self, stemcell_cid: str, zone: Row) -> str:
        """The id to deploy with, if the template is ready in that zone."""
        wanted = stemcell_cid.removeprefix(LIGHT)
        which = USABLE if stemcell_cid.startswith(LIGHT) else _FILTER
        for row in self.template_rows(wanted, which):
            if row.get("zoneid") == zone["id"] and row.get("isready"):
                return wanted
        raise StemcellNotFound(
            f"stemcell {stemcell_cid[:80]} is not ready in zone {zone['name']}",
            remedy="upload it again, or have its template copied into the zone",
        )

    def template_rows(self, wanted: str, which: str = _FILTER) -> list[Row]:
        """One row per zone; none where the id is not a template's."""
        if not is_uuid(wanted):
            return []
        try:
            return list(self.api.every("listTemplates", templatefilter=which, id=wanted))
        except Refusal as error:
            if error.code == PARAMETER:
                return []
            raise

    def templates_named(self, name: str) -> list[Row]:
        """Of many rows of one template, the first."""
        rows = self.api.every("listTemplates", templatefilter=_FILTER, name=name)
        found: dict[str, Row] = {}
        for row in rows:
            if row["name"] == name:
                found.setdefault(str(row["id"]), row)
        return list(found.values())

    def meant_template(self, wanted: str) -> str:
        """The id of the one template that this id or name means, among those that the account may use."""
        rows = self.template_rows(wanted, USABLE) or [
            row for row in self.api.every("listTemplates", templatefilter=USABLE, name=wanted) if row["name"] == wanted
        ]
        ids = {str(row["id"]) for row in rows}
        if len(ids) != 1:
            raise InvalidCall(
                f"{len(ids)} templates are meant by {wanted!r}",
                remedy="name in cloud_properties.template one by its id",
            )
        return ids.pop()

    def extracted_template(self, wanted: str) -> str:
        """A URL of the cloud's own, at which it can fetch what this template holds."""
        found = self.meant_template(wanted)
        zone = next(row["zoneid"] for row in self.template_rows(found, USABLE) if row.get("isready"))
        answer = self.api.run("extractTemplate", id=found, mode="HTTP_DOWNLOAD", zoneid=zone)["template"]
        return str(answer["url"])

    def rows_by_zone(self, wanted: str) -> dict[str, Row]:
        """One row per zone that knows of it. What was just made may show up late; what does not is gone."""
        deadline = time.monotonic() + self.settings.settle_s
        while not (rows := self.template_rows(wanted)):
            if time.monotonic() >= deadline:
                raise CpiError(f"template {wanted} is gone", why="somebody deleted it", remedy="repeat", retryable=True)
            time.sleep(self.settings.poll_s)
        return {str(row.get("zoneid")): row for row in rows}

    def await_template(self, wanted: str, zones: Sequence[Row]) -> None:
        """Return when all these zones have it; a status that is an error ends the wait."""
        limit = self.settings.state_timeout
        deadline, rest = time.monotonic() + limit, self.settings.poll_s
        while True:
            rows = self.rows_by_zone(wanted)
            here = [rows.get(zone["id"], {}) for zone in zones]
            for row in here:
                _require_no_error(wanted, row)
            if all(row.get("isready") for row in here):
                return
            if time.monotonic() >= deadline:
                raise OutcomeUnknown(
                    f"template {wanted} was not ready within {limit:.0f} s",
                    why="; ".join(str(row.get("status")) for row in here),
                    remedy="look at the secondary storage VM, or raise properties.state_timeout",
                )
            time.sleep(min(rest, max(deadline - time.monotonic(), 0.0)))
            rest = min(rest * 1.5, 5.0)


def _require_no_error(wanted: str, row: Row) -> None:
    status = str(row.get("status") or "")
    if row.get("isready") or not status or status == "Download Complete":
        return
    if any(word in status.lower() for word in _UNDERWAY):
        return
    raise CpiError(
        f"CloudStack could not get template {wanted}",
        why=status,
        remedy="check that its storage VM can reach the URL, and that the file is of the format it is said to be",
    )
