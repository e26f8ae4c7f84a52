"""Templates: registered by URL, copied between zones, deleted. Lists, uploads and extracts are next door."""

from __future__ import annotations

from functools import partial
from typing import Any

from coterie.sandbox import images, records
from coterie.sandbox.api import work_of
from coterie.sandbox.fronts.cloudstack import downloads, places, shelf
from coterie.sandbox.fronts.cloudstack.call import Call
from coterie.sandbox.fronts.cloudstack.command_table import answers, job
from coterie.sandbox.fronts.cloudstack.entities import inner_id, outer_id
from coterie.sandbox.fronts.cloudstack.listing import Row
from coterie.sandbox.fronts.cloudstack.refusals import refuse
from coterie.sandbox.fronts.cloudstack.template_rows import template_rows
from coterie.sandbox.fronts.cloudstack.template_urls import FORMATS, check_url
from coterie.sandbox.images import SHAPE, Image


@answers("registerTemplate", writes=True)
def register(call: Call) -> list[Row]:
    check_url(call, str(call.params["url"]))
    zones = _zones(call)
    made = add(call, zones, {"url": call.params["url"]}, "Processing")
    call.after += [partial(downloads.fetch, call.datacenter, outer_id(made.id), zone) for zone in zones]
    return list(template_rows(call.tx, made))


@answers("updateTemplatePermissions", writes=True)
def update_permissions(call: Call) -> None:
    """Which other accounts may use it: `op` is add, remove or reset."""
    wanted = str(call.params["id"])
    doc = shelf.doc_of(call.tx.db, wanted)
    if not doc:
        raise refuse(f"Unable to find template with id {wanted}")
    accounts, known = list(call.get("accounts") or ()), list(doc.get("accounts") or ())
    match call.get("op"):
        case "add":
            known = sorted({*known, *accounts})
        case "remove":
            known = [one for one in known if one not in accounts]
        case "reset":
            known = []
    shelf.note(call.tx, wanted, accounts=known, public=bool(call.get("ispublic", doc["public"])))


@answers("listTemplatePermissions")
def list_permissions(call: Call) -> Row:
    doc = shelf.doc_of(call.tx.db, str(call.params["id"]))
    if not doc:
        raise refuse(f"Unable to find template with id {call.params['id']}")
    return {"id": call.params["id"], "ispublic": doc["public"], "account": doc.get("accounts") or []}


@job("deleteTemplate")
def delete(call: Call, wanted: str) -> None:
    zones = dict(shelf.doc_of(call.tx.db, wanted).get("zones") or {})
    if "zoneid" in call.params:
        zones.pop(places.find_zone(call.tx, call.params["zoneid"]), None)
        shelf.note(call.tx, wanted, zones=zones)
        if zones:
            return
    work_of(images.delete_image)(call.tx, inner_id("template", wanted))
    shelf.bury(call.tx, wanted)


@job("copyTemplate")
def copy(call: Call, wanted: str) -> Row:
    """Into other zones, where it is ready at once: the image store copies it behind the scenes."""
    found = records.fetch(call.tx, SHAPE, inner_id("template", wanted))
    targets = call.get("destzoneids") or [call.get("destzoneid")]
    zones = dict(shelf.doc_of(call.tx.db, wanted)["zones"])
    if not any(one["ready"] for one in zones.values()):
        raise refuse(f"Template {wanted} is not ready to be copied")
    for target in targets:
        zones[places.find_zone(call.tx, str(target))] = {"status": downloads.DONE, "ready": True, "settled": True}
    shelf.note(call.tx, wanted, zones=zones)
    return next(template_rows(call.tx, found))


def add(call: Call, zones: list[str], doc: dict[str, Any], status: str) -> Image:
    """A template that is not ready yet."""
    if str(call.params["format"]).upper() not in FORMATS:
        raise refuse(f"Invalid format {call.params['format']}")
    hypervisor = places.HYPERVISOR_TYPES.get(str(call.params["hypervisor"]).lower())
    if hypervisor is None:
        supported = ", ".join(places.HYPERVISOR_TYPES.values())
        raise refuse(f"Hypervisor Type: {call.params['hypervisor']} is invalid. Supported types are {supported}")
    name = call.params["name"]
    made = work_of(images.create_image)(call.tx, name=name)
    words = {
        "format": str(call.params["format"]).upper(),
        "hypervisor": hypervisor,
        "displaytext": call.get("displaytext") or name,
        "ostype": call.get("ostypeid"),
        "public": bool(call.get("ispublic")),
        "extractable": bool(call.get("isextractable")),
        "zones": {zone: {"status": status, "ready": False} for zone in zones},
        **doc,
    }
    shelf.put(call.tx, "template", name, words, outer_id(made.id))
    return made


def _zones(call: Call) -> list[str]:
    wanted = call.get("zoneids") or ([call.params["zoneid"]] if "zoneid" in call.params else ["-1"])
    if "-1" in wanted:
        return places.zones(call.tx)
    return [places.find_zone(call.tx, zone) for zone in wanted]
