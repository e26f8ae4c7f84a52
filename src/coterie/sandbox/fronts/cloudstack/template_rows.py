"""Templates in the vendor's words, one row per zone. An account sees its own, and public ones of other accounts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from coterie.sandbox import records
from coterie.sandbox.fronts.cloudstack import places, shelf
from coterie.sandbox.fronts.cloudstack.entities import inner_id, outer_id
from coterie.sandbox.fronts.cloudstack.listing import Row, tag_rows, time_words
from coterie.sandbox.images import SHAPE, Image
from coterie.sandbox.twist import Tx


def template_rows(tx: Tx, image: Image) -> Iterator[Row]:
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
            "isextractable": doc.get("extractable", False),
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


def public_rows(tx: Tx) -> Iterator[Row]:
    """Public templates of other accounts, without the status of their download."""
    for thing in list(shelf.every(tx.db, "template")):
        if thing.doc.get("public") and thing.account != tx.account:
            image = records.fetch(replace(tx, account=thing.account), SHAPE, inner_id("template", thing.id))
            yield from ({**row, "status": None} for row in template_rows(tx, image))


def usable_in(tx: Tx, wanted: str, zone: str, admin: bool) -> bool:
    """Whether this account may deploy from it there now."""
    found = shelf.get(tx.db, "template", wanted)
    if found is None or not (admin or found.account == tx.account or found.doc.get("public")):
        return False
    here = found.doc["zones"].get(zone)
    return bool(here and here["ready"])


def _os_words(wanted: str | None) -> Row:
    name = next((one for one in places.OS_TYPES if places.id_of("ostype", one) == wanted), places.OS_TYPES[0])
    return {"ostypeid": places.id_of("ostype", name), "ostypename": name}
