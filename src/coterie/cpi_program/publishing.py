"""Sends images to the publishing server of the core process, for drivers whose cloud downloads them.

It speaks HTTP even inside the core: a call is done the same way wherever it runs.
"""

from __future__ import annotations

import base64
import http.client
import json
import secrets
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from coterie.cpi.contract import CpiError
from coterie.cpi_program.sections import Publish

_PATIENCE_S = 600.0
# Clouds judge an image by the end of its URL, so the end must say what the bytes are.
_MAGIC = {b"QFI\xfb": "qcow2", b"vhdxfile": "vhdx", b"conectix": "vhd", b"cxsparse": "vhd"}
_TAR = (257, b"ustar")


class Publisher:
    """`usual`: the format of an image whose bytes do not tell."""

    def __init__(self, server: Publish, usual: str) -> None:
        self._server = server
        self._usual = usual.lower()

    def publish(self, path: str) -> str:
        """The URL under which the cloud can fetch the file."""
        file = Path(path)
        name = f"{secrets.token_hex(16)}.{_format(file) or self._usual}"
        try:
            with file.open("rb") as body:
                return str(self._ask("PUT", name, body, file.stat().st_size)["url"])
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise CpiError(
                f"the image could not be published at {self._server.listen}",
                why=str(error) or type(error).__name__,
                remedy="start `coterie-cpi serve`, which runs the publishing server, or set `publish: upload`",
            ) from None

    def retire(self, url: str) -> None:
        """The cloud has it, or never will. What cannot be removed now is swept when its link has expired."""
        with suppress(OSError, http.client.HTTPException, ValueError):
            self._ask("DELETE", url.rpartition("/")[2], None, 0)

    def _ask(self, verb: str, name: str, body: BinaryIO | None, size: int) -> dict[str, object]:
        host, _, port = self._server.listen.rpartition(":")
        link = http.client.HTTPConnection(_reachable(host), int(port), timeout=_PATIENCE_S)
        pair = base64.b64encode(f"{self._server.user}:{self._server.password}".encode()).decode()
        try:
            link.request(verb, f"/images/{name}", body, {"Authorization": f"Basic {pair}", "Content-Length": str(size)})
            answer = link.getresponse()
            told = answer.read()
            if answer.status >= 300:
                raise ValueError(f"it answered {answer.status}: {told[:200].decode(errors='replace')}")
            return dict(json.loads(told)) if told else {}
        finally:
            link.close()


def _reachable(host: str) -> str:
    """Who listens everywhere listens on the loopback too."""
    return {"0.0.0.0": "127.0.0.1", "[::]": "::1", "::": "::1"}.get(host, host.strip("[]"))  # noqa: S104  # not bound


def _format(file: Path) -> str | None:
    with file.open("rb") as opened:
        head = opened.read(512)
    if head[_TAR[0] :].startswith(_TAR[1]):
        return "ova"
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)
