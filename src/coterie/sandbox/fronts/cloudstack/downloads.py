"""Fetching a template's URL as a storage VM does it: one GET, no redirects, a length that is known beforehand."""

from __future__ import annotations

import http.client
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from coterie.sandbox.datacenter import Datacenter
from coterie.sandbox.fronts.cloudstack import shelf
from coterie.sandbox.twist import Tx

DONE, INSTALLING = "Download Complete", "Installing Template"
_TIMEOUT_S = 30.0
_CHUNK = 2**16
_STEP = 25  # per cent


class _Failed(Exception):
    """What is shown as the template's status."""


def list_unfinished(datacenter: Datacenter) -> list[Callable[[], None]]:
    """Downloads that an earlier process left half-way."""
    with datacenter.store.reading() as db:
        things = [one for one in shelf.every(db, "template") if one.doc.get("url")]
    return [
        partial(fetch, datacenter, one.id, zone)
        for one in things
        for zone, here in one.doc["zones"].items()
        if not here.get("settled")
    ]


def fetch(datacenter: Datacenter, wanted: str, zone: str) -> None:
    """Get the image as this zone's storage VM, and write down how it went."""
    with datacenter.store.reading() as db:
        url = shelf.doc_of(db, wanted)["url"]

    def report(status: str, **more: Any) -> None:
        with datacenter.store.writing() as db:
            settle(Tx(db, "", datacenter.clock(), datacenter.ids), wanted, zone, status, **more)

    try:
        size = _got(url, report)
    except (_Failed, OSError, http.client.HTTPException, ValueError) as error:
        report(str(error) or type(error).__name__, settled=True)
        return
    report(INSTALLING)
    report(DONE, settled=True, size=size)


def settle(tx: Tx, wanted: str, zone: str, status: str, *, settled: bool = False, size: int | None = None) -> None:
    """Set the status in the template's row of this zone."""
    zones = dict(shelf.doc_of(tx.db, wanted).get("zones", {}))
    if zone not in zones:
        return  # it was deleted meanwhile
    zones[zone] = {"status": status, "ready": size is not None, "settled": settled}
    shelf.note(tx, wanted, zones=zones, **({} if size is None else {"size": size}))


def _got(url: str, report: Callable[..., None]) -> int:
    where = urlsplit(url)
    kind = http.client.HTTPSConnection if where.scheme == "https" else http.client.HTTPConnection
    with closing(kind(str(where.hostname), where.port, timeout=_TIMEOUT_S)) as connection:
        connection.request("GET", f"{where.path}?{where.query}" if where.query else where.path)
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            raise _Failed(f"HTTP Server returned {answer.status} (expected 200 OK)")
        length = answer.headers.get("content-length") or answer.headers.get("x-file-size")
        if not length:
            raise _Failed("Failed to find the length of the template: no Content-Length and no x-file-size")
        return _read(answer, int(length), report)


def _read(answer: http.client.HTTPResponse, length: int, report: Callable[..., None]) -> int:
    got, reported = 0, 0
    while chunk := answer.read(_CHUNK):
        got += len(chunk)
        if length and got * 100 // length >= reported + _STEP and got < length:
            reported = got * 100 // length
            report(f"{reported}% Downloaded")
    if got != length:
        raise _Failed(f"Connection closed after {got} of {length} bytes")
    return got
