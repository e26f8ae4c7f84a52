"""Templates: registered by URL, one row per zone, ready when they have been fetched. Uploads are next door."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from coterie.sandbox import images, records
from coterie.sandbox.api import work_of
from coterie.sandbox.fronts.cloudstack import downloads, places, shelf
from coterie.sandbox.fronts.cloudstack.call import Call
from coterie.sandbox.fronts.cloudstack.desk import answers, job
from coterie.sandbox.fronts.cloudstack.entities import inner_id, outer_id
from coterie.sandbox.fronts.cloudstack.listing import Row, gathered, records_of, sifted, tag_rows, time_words
from coterie.sandbox.fronts.cloudstack.refusals import PERMISSION, ApiError, refuse
from coterie.sandbox.images import SHAPE, Image
from coterie.sandbox.twist import Tx

FORMATS = {"QCOW2": ("qcow2",), "RAW": ("raw", "img"), "VHD": ("vhd",), "VHDX": ("vhdx",), "OVA": ("ova",)}
_PACKED = ("", ".gz", ".bz2", ".zip")
_FILTERS = ("featured", "self", "selfexecutable", "sharedexecutable", "executable", "community", "all")


@answers("registerTemplate", writes=True)
def register(call: Call) -> list[Row]:
    _check_url(call, str(call.params["url"]))
    zones = _zones(call)
    made = add(call, zones, {"url": call.params["url"]}, "Processing")
    call.after.append(partial(downloads.fetch, call.datacenter, outer_id(made.id)))
    return list(_rows(call.tx, made))


@answers("listTemplates")
def list_templates(call: Call) -> Iterator[Row]:
    wanted = str(call.params["templatefilter"]).lower()
    if wanted not in _FILTERS:
        raise refuse(f"Invalid template filter {wanted}")
    if wanted == "all" and not call.caller.admin:
        raise ApiError(PERMISSION, "Filter all can be specified by admin only")
    rows = gathered(call, lambda tx: (row for one in records_of(tx, SHAPE, call.get("name")) for row in _rows(tx, one)))
    if wanted.endswith("executable"):
        rows = (row for row in rows if row["isready"])
    if wanted in ("featured", "community"):
        rows = (row for row in rows if row["ispublic"])
    return sifted(call, rows, "id", "name", "zoneid", "isready", "hypervisor")


@job("deleteTemplate")
def delete(call: Call, wanted: str) -> None:
    zones = dict(shelf.doc_of(call.tx.db, wanted).get("zones") or {})
    if "zoneid" in call.params:
        zones.pop(places.zone_named(call.tx, call.params["zoneid"]), None)
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
        zones[places.zone_named(call.tx, str(target))] = {"status": downloads.DONE, "ready": True}
    shelf.note(call.tx, wanted, zones=zones)
    return next(_rows(call.tx, found))


def add(call: Call, zones: list[str], doc: dict[str, Any], status: str) -> Image:
    """A template that is not ready yet."""
    if str(call.params["format"]).upper() not in FORMATS:
        raise refuse(f"Invalid format {call.params['format']}")
    name = call.params["name"]
    made = work_of(images.create_image)(call.tx, name=name)
    words = {
        "format": str(call.params["format"]).upper(),
        "hypervisor": call.params["hypervisor"],
        "displaytext": call.get("displaytext") or name,
        "ostype": call.get("ostypeid"),
        "public": bool(call.get("ispublic")),
        "zones": {zone: {"status": status, "ready": False} for zone in zones},
        **doc,
    }
    shelf.put(call.tx, "template", name, words, outer_id(made.id))
    return made


def ready_in(tx: Tx, wanted: str, zone: str) -> bool:
    here = (shelf.doc_of(tx.db, wanted).get("zones") or {}).get(zone)
    return bool(here and here["ready"])


def _rows(tx: Tx, image: Image) -> Iterator[Row]:
    doc = shelf.doc_of(tx.db, outer_id(image.id))
    if not doc:
        return
    for zone, here in doc["zones"].items():
        yield {
            "id": outer_id(image.id),
            "name": image.name,
            "displaytext": doc["displaytext"],
            "format": doc["format"],
            "hypervisor": doc["hypervisor"],
            **_os_words(doc.get("ostype")),
            "ispublic": doc["public"],
            "isready": here["ready"],
            "status": here["status"],
            "size": doc.get("size"),
            "crossZones": False,
            "templatetype": "USER",
            "account": image.account,
            "domain": "ROOT",
            "created": time_words(image.created_at),
            "tags": tag_rows(image, "Template"),
            **places.zone_words(zone),
        }


def _os_words(wanted: str | None) -> Row:
    name = next((one for one in places.OS_TYPES if places.named_id("ostype", one) == wanted), places.OS_TYPES[0])
    return {"ostypeid": places.named_id("ostype", name), "ostypename": name}


def _zones(call: Call) -> list[str]:
    wanted = call.get("zoneids") or ([call.params["zoneid"]] if "zoneid" in call.params else ["-1"])
    if "-1" in wanted:
        return places.zones(call.tx)
    return [places.zone_named(call.tx, zone) for zone in wanted]


def _check_url(call: Call, url: str) -> None:
    where = urlsplit(url)
    if where.scheme not in ("http", "https", "ftp") or not where.hostname:
        raise refuse(f"Unsupported scheme for url: {url}")
    endings = [
        f".{ending}{packed}" for ending in FORMATS.get(str(call.params["format"]).upper(), ()) for packed in _PACKED
    ]
    if not where.path.lower().endswith(tuple(endings)):
        raise refuse(f"Please specify a valid {str(call.params['format']).lower()}: the url ends otherwise")
    try:
        address = ipaddress.ip_address(socket.gethostbyname(where.hostname))
    except OSError:
        raise refuse(f"Unable to resolve {where.hostname}") from None
    if address.is_link_local or (address.is_loopback and not call.flag("coterie.loopback.urls")):
        raise refuse("Illegal host specified in url")
