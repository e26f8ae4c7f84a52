"""Uploads a local image to the cloud's storage VM: one multipart POST, streamed, so that memory does not grow."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

from coterie.cpi.contract import CpiError
from coterie.cpi.drivers.cloudstack.api import Row
from coterie.cpi.drivers.cloudstack.connections import connection_to
from coterie.cpi.drivers.cloudstack.properties import Settings

_CHUNK = 2**18
_BOUNDARY = "coterie-3f1d7a0c5b2e4968"


def upload(path: Path, permit: Row, settings: Settings) -> None:
    """`permit`: what getUploadParamsForTemplate answered."""
    where = urlsplit(str(permit["postURL"]))
    head = (
        f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{path.name}"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
    ).encode()
    tail = f"\r\n--{_BOUNDARY}--\r\n".encode()
    headers = {
        "content-type": f"multipart/form-data; boundary={_BOUNDARY}",
        "content-length": str(len(head) + path.stat().st_size + len(tail)),
        "x-signature": str(permit["signature"]),
        "x-metadata": str(permit["metadata"]),
        "x-expires": str(permit["expires"]),
    }
    target = f"{where.path}?{where.query}" if where.query else where.path
    with closing(connection_to(where, settings)) as connection:
        try:
            connection.request("POST", target, _body(head, path, tail), headers)
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException) as error:
            raise _failed(str(where.hostname), str(error) or type(error).__name__) from error
    if status >= http.client.BAD_REQUEST:
        raise _failed(str(where.hostname), f"it answered HTTP {status}")


def _body(head: bytes, path: Path, tail: bytes) -> Iterator[bytes]:
    yield head
    with path.open("rb") as source:
        while chunk := source.read(_CHUNK):
            yield chunk
    yield tail


def _failed(host: str, why: str) -> CpiError:
    return CpiError(
        f"the image could not be uploaded to the storage VM {host}",
        why=why,
        remedy="check that this machine can reach it and trusts its certificate, or set properties.publish: server",
        retryable=True,
    )
