"""Uploads of templates: a signed permission, then one POST of the file to where the storage VM would listen."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Protocol

from coterie.sandbox.datacenter import Datacenter
from coterie.sandbox.fronts.cloudstack import downloads, places, shelf
from coterie.sandbox.fronts.cloudstack.call import Call
from coterie.sandbox.fronts.cloudstack.command_table import answers
from coterie.sandbox.fronts.cloudstack.commands.templates import add
from coterie.sandbox.fronts.cloudstack.entities import outer_id
from coterie.sandbox.fronts.cloudstack.listing import Row, time_words
from coterie.sandbox.fronts.cloudstack.refusals import UNAUTHORIZED, ApiError, refuse
from coterie.sandbox.twist import Tx

WAITING = "Upload not yet started"
_GOOD_FOR_S = 3600
_CHUNK = 2**16
_LONGEST_HEAD = 2**14


class Body(Protocol):
    def read(self, size: int, /) -> bytes: ...


@answers("getUploadParamsForTemplate", writes=True)
def permit(call: Call) -> Row:
    zone = places.find_zone(call.tx, call.params["zoneid"])
    secret = call.tx.ids.uuid()
    made = add(call, [zone], {"upload": secret, "upload_until": call.tx.now + _GOOD_FOR_S}, WAITING)
    url = f"{call.origin}/upload/{outer_id(made.id)}"
    metadata = base64.b64encode(json.dumps({"id": outer_id(made.id), "name": made.name}).encode()).decode()
    expires = str(time_words(call.tx.now + _GOOD_FOR_S))
    return {
        "id": outer_id(made.id),
        "postURL": url,
        "metadata": metadata,
        "expires": expires,
        "signature": _sign(secret, metadata, url, expires),
    }


def take_upload(
    datacenter: Datacenter, origin: str, wanted: str, headers: Mapping[str, str], body: Body, length: int
) -> None:
    """The POST itself: refused unless it bears what was signed, and is not too late."""
    with datacenter.store.reading() as db:
        doc = shelf.doc_of(db, wanted)
    _check(doc, f"{origin}/upload/{wanted}", headers, datacenter.clock())
    size = _receive(body, length, str(headers.get("content-type", "")))
    with datacenter.store.writing() as db:
        tx = Tx(db, "", datacenter.clock(), datacenter.ids)
        for zone in doc["zones"]:
            downloads.settle(tx, wanted, zone, downloads.DONE, settled=True, size=size)
        shelf.note(tx, wanted, upload=None)


def _check(doc: Mapping[str, object], url: str, headers: Mapping[str, str], now: float) -> None:
    given = [headers.get(name) or "" for name in ("x-signature", "x-metadata", "x-expires")]
    if not doc.get("upload"):
        raise refuse("nothing is expected here: unknown template, or uploaded already")
    if not hmac.compare_digest(given[0], _sign(str(doc["upload"]), given[1], url, given[2])):
        raise ApiError(UNAUTHORIZED, "signature validation failed")
    if datetime.strptime(given[2], "%Y-%m-%dT%H:%M:%S%z").astimezone(UTC).timestamp() < now:
        raise ApiError(UNAUTHORIZED, "the upload permission has expired")


def _receive(body: Body, length: int, content_type: str) -> int:
    """The size of the one file in a multipart form."""
    _, _, boundary = content_type.partition("boundary=")
    if not content_type.startswith("multipart/form-data") or not boundary:
        raise refuse("the upload must be multipart/form-data")
    head = b""
    while b"\r\n\r\n" not in head and len(head) < min(length, _LONGEST_HEAD):
        head += body.read(min(_CHUNK, length - len(head)))
    left, tail = length - len(head), head[-_LONGEST_HEAD:]
    while left:
        chunk = body.read(min(_CHUNK, left))
        if not chunk:
            raise refuse("the upload was cut off")
        left -= len(chunk)
        tail = (tail + chunk)[-_LONGEST_HEAD:]
    end = b"\r\n--" + boundary.strip('"').encode() + b"--"
    if end not in tail or b"\r\n\r\n" not in head:
        raise refuse("the form is not well-formed")
    return length - (head.index(b"\r\n\r\n") + 4) - (len(tail) - tail.rindex(end))


def _sign(secret: str, metadata: str, url: str, expires: str) -> str:
    text = f"{metadata}{url}{expires}"
    return base64.b64encode(hmac.new(secret.encode(), text.encode(), hashlib.sha1).digest()).decode()
