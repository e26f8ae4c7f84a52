"""Templates as files again: a URL at which the image can be fetched for a while, with as many bytes as it had."""

from __future__ import annotations

from coterie.sandbox.datacenter import Datacenter
from coterie.sandbox.fronts.cloudstack import places, shelf
from coterie.sandbox.fronts.cloudstack.call import Call
from coterie.sandbox.fronts.cloudstack.command_table import job
from coterie.sandbox.fronts.cloudstack.listing import Row
from coterie.sandbox.fronts.cloudstack.refusals import PERMISSION, ApiError, refuse
from coterie.sandbox.fronts.cloudstack.template_rows import usable_in
from coterie.sandbox.fronts.cloudstack.template_urls import EXTRACTS, FORMATS

_DOWNLOAD = "HTTP_DOWNLOAD"


@job("extractTemplate")
def extract(call: Call, wanted: str) -> Row:
    found = shelf.get(call.tx.db, "template", wanted)
    if found is None or call.params["mode"] != _DOWNLOAD:
        raise refuse(f"Unable to extract template {wanted}: it is not there, or the mode is not {_DOWNLOAD}")
    if not call.caller.admin and not found.doc.get("extractable"):
        raise ApiError(PERMISSION, f"Template {wanted} is not allowed to be extracted")
    first = next(iter(found.doc["zones"]))
    zone = places.find_zone(call.tx, call.params["zoneid"]) if "zoneid" in call.params else first
    if not usable_in(call.tx, wanted, zone, call.caller.admin):
        raise refuse(f"Template {wanted} is not ready in zone {zone}")
    name = f"{call.tx.ids.uuid()}.{FORMATS[found.doc['format']][0]}"
    shelf.put(call.tx, "extract", name, {"size": found.doc.get("size") or 0})
    return {
        "id": wanted,
        "name": found.name,
        "extractMode": _DOWNLOAD,
        "state": "DOWNLOAD_URL_CREATED",
        "url": f"{call.origin}{EXTRACTS}{name}",
        **places.zone_words(zone),
    }


def find_extracted_size(datacenter: Datacenter, name: str) -> int | None:
    """How many bytes the file of this name has; None: there is none."""
    with datacenter.store.reading() as db:
        found = next(shelf.every(db, "extract", name=name), None)
    return int(found.doc["size"]) if found else None
