"""Lends a local image file to a cloud that fetches images from URLs: published at a publishing server, and retired when
the cloud has it. Also files as streamed bodies of requests, so that memory does not grow with them."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

from coterie.cpi.contract import CheckItem, CpiError
from coterie.cpi.kit.http import Answer, AnswerLost, Body, Http, HttpOptions, NotTaken

_CHUNK = 2**18
_BOUNDARY = "coterie-3f1d7a0c5b2e4968"


class Publisher:
    """`url` None: there is no publishing server, and every use is refused."""

    def __init__(self, url: str | None, user: str | None, password: str | None, options: HttpOptions) -> None:
        self._url = url
        self._login = base64.b64encode(f"{user or ''}:{password or ''}".encode()).decode()
        self._http = Http(options)

    def publish(self, path: Path, name: str) -> str:
        """The URL from which the cloud fetches the file, until `retire`."""
        digest = hashlib.sha256()

        def body() -> Iterator[bytes]:
            for piece in file_pieces(path):
                digest.update(piece)
                yield piece

        answer = self._request("PUT", name, body(), {"content-length": str(path.stat().st_size)})
        if answer.status != HTTPStatus.CREATED:
            raise _failed(f"it answered HTTP {answer.status}")
        try:
            published = json.loads(answer.body)
            url, arrived = str(published["url"]), published["sha256"]
        except (ValueError, KeyError, TypeError):
            raise _failed("its answer is not that of a publishing server") from None
        if arrived != digest.hexdigest():
            raise _failed("the image arrived with another checksum")
        return url

    def retire(self, name: str | None) -> None:
        """End a publication. A failure does no harm, since it ends by itself."""
        if name:
            with suppress(CpiError):
                self._request("DELETE", name)

    def check(self, what: str, cloud: str) -> CheckItem:
        """Whether the server answers here, at an address that machines of the cloud can use; whether they reach it is
        known only there."""
        self._request("OPTIONS", "")
        name = str(urlsplit(str(self._url)).hostname)
        try:
            address = ipaddress.ip_address(socket.gethostbyname(name))
        except OSError as error:
            return CheckItem(what, False, f"{name} has no address: {error}", "set publish_server.url to a known name")
        if address.is_loopback or address.is_link_local:
            remedy = f"set publish_server.url to an address that {cloud}'s storage VMs can reach"
            return CheckItem(what, False, f"{cloud} fetches nothing from {address}", remedy)
        return CheckItem(what, True, f"published at {name}, which answers here; storage VMs must reach it too")

    def _request(self, method: str, name: str, body: Body = None, headers: Mapping[str, str] | None = None) -> Answer:
        if not self._url:
            raise CpiError(
                "properties.publish_mode is server, and there is no publish_url",
                remedy="configure a publishing server, or set properties.publish_mode: upload",
            )
        url = f"{self._url.rstrip('/')}/images/{name}"
        try:
            return self._http.request(method, url, {"authorization": f"Basic {self._login}", **(headers or {})}, body)
        except (NotTaken, AnswerLost) as error:
            raise _failed(str(error)) from error
        finally:
            self._http.close()


def post_file(http: Http, url: str, path: Path, headers: Mapping[str, str]) -> Answer:
    """A file as the only part of a form, as browsers upload it."""
    head = (
        f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{path.name}"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
    ).encode()
    tail = f"\r\n--{_BOUNDARY}--\r\n".encode()

    def body() -> Iterator[bytes]:
        yield head
        yield from file_pieces(path)
        yield tail

    length = len(head) + path.stat().st_size + len(tail)
    form = {"content-type": f"multipart/form-data; boundary={_BOUNDARY}", "content-length": str(length)}
    return http.request("POST", url, {**form, **headers}, body())


def file_pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as source:
        while piece := source.read(_CHUNK):
            yield piece


def _failed(why: str) -> CpiError:
    return CpiError(
        "the publishing server did not take the image",
        why=why,
        remedy="check properties.publish_url, publish_user and publish_password, and that the server runs",
        retryable=True,
    )
