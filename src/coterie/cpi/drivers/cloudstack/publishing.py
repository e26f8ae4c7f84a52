"""Lends a local image to the cloud through a publishing server: one streamed PUT, a link for the storage VMs, and its
end when they have it. Neither the whole image nor the password stays anywhere."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from coterie.cpi.contract import CpiError
from coterie.cpi.drivers.cloudstack.connections import connection_to
from coterie.cpi.drivers.cloudstack.properties import Settings

_CHUNK = 2**18


@dataclass(slots=True)
class _Stream:
    """A file in pieces; what was read is known by its digest."""

    path: Path
    digest: Any = field(default_factory=hashlib.sha256)

    def pieces(self) -> Iterator[bytes]:
        with self.path.open("rb") as source:
            while piece := source.read(_CHUNK):
                self.digest.update(piece)
                yield piece


def publish(settings: Settings, path: Path, name: str) -> str:
    """The URL under which storage VMs fetch the file."""
    stream = _Stream(path)
    headers = {"content-length": str(path.stat().st_size)}
    status, body = _asked(settings, "PUT", name, stream.pieces(), headers)
    if status != http.client.CREATED:
        raise _failed(f"it answered HTTP {status}")
    try:
        told = json.loads(body)
        url, arrived = str(told["url"]), told["sha256"]
    except (ValueError, KeyError, TypeError):
        raise _failed("its answer is not that of a publishing server") from None
    if arrived != stream.digest.hexdigest():
        raise _failed("the image arrived with another checksum")
    return url


def retire(settings: Settings, name: str) -> None:
    """Nobody needs the file any more; gone already is fine."""
    status, _ = _asked(settings, "DELETE", name)
    if status not in (http.client.OK, http.client.NO_CONTENT, http.client.NOT_FOUND):
        raise _failed(f"it answered HTTP {status} to the removal of {name}")


def reach(settings: Settings) -> None:
    """Raise if the server cannot be reached from here; what it answers does not matter."""
    _asked(settings, "OPTIONS", "")


def _asked(
    settings: Settings,
    verb: str,
    name: str,
    body: Iterator[bytes] | None = None,
    headers: dict[str, str] | None = None,
) -> tuple[int, bytes]:
    if not settings.publish_url:
        raise CpiError(
            "properties.publish_mode is server, and there is no publish_url",
            remedy="configure a publishing server, or set properties.publish_mode: upload",
        )
    where = urlsplit(settings.publish_url)
    pair = base64.b64encode(f"{settings.publish_user or ''}:{settings.publish_password or ''}".encode()).decode()
    direct = replace(settings, proxy=None)  # it is on our side of the proxy
    with closing(connection_to(where, direct)) as connection:
        try:
            target = f"{where.path.rstrip('/')}/images/{name}"
            connection.request(verb, target, body, {"authorization": f"Basic {pair}", **(headers or {})})
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise _failed(str(error) or type(error).__name__) from error


def _failed(why: str) -> CpiError:
    return CpiError(
        "the publishing server did not take the image",
        why=why,
        remedy="check properties.publish_url, publish_user and publish_password, and that the server runs",
        retryable=True,
    )
