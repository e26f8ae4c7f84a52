"""A front of one account, served over TLS as `coterie sandbox serve --api azure` does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from coterie.sandbox.accounts import open_account
from coterie.sandbox.datacenter import open_datacenter
from coterie.sandbox.fronts.azure.call import Request, Settings
from coterie.sandbox.fronts.azure.certificate import write_certificate
from coterie.sandbox.fronts.azure.front import Front
from coterie.sandbox.fronts.azure.server import Identity, Server
from coterie.sandbox.fronts.http_server import Reply

SUBSCRIPTION = "6f1c1d2e-0000-4000-8000-00000000c0de"
TENANT = "11111111-2222-3333-4444-555555555555"
GROUP = "machines"
VERSIONS = {"Microsoft.Network": "2024-05-01", "Microsoft.Compute": "2024-03-01"}


def open_front(folder: Path, **settings: Any) -> Front:
    datacenter = open_datacenter(folder / "sandbox.db")
    return Front(open_account(datacenter, "azure"), SUBSCRIPTION, GROUP, Settings(**settings))


def url_of(type_: str, name: str = "", **query: str) -> str:
    version = query.pop("version", None) or VERSIONS[type_.partition("/")[0]]
    path = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers/{type_}" + (f"/{name}" if name else "")
    return "&".join([f"{path}?api-version={version}", *(f"${key}={value}" for key, value in query.items())])


def ask(front: Front, method: str, url: str, body: Any = None, **headers: str) -> Reply:
    """Without the network in between."""
    import json

    raw = b"" if body is None else json.dumps(body).encode()
    return front.answer(
        Request(method, url, {key.replace("_", "-"): value for key, value in headers.items()}, raw), "https://x"
    )


class Azure:
    def __init__(self, folder: Path, **settings: Any) -> None:
        self.front = open_front(folder, **settings)
        self.identity = Identity(TENANT, "client", "secret")
        self.certificate = write_certificate(folder / "loopback.pem")
        self.server = Server(self.front, self.identity, certificate=self.certificate)
        self.server.start()

    def close(self) -> None:
        self.server.close()
