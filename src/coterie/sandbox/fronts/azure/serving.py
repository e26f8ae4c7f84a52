"""The front as `coterie sandbox serve` opens it: with settings written as text, ids and a secret that the state file
keeps, and a certificate beside it."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from coterie.errors import UsageError
from coterie.sandbox.accounts import open_account
from coterie.sandbox.datacenter import Datacenter
from coterie.sandbox.fronts.azure.call import LOCATION, Settings
from coterie.sandbox.fronts.azure.certificate import write_certificate
from coterie.sandbox.fronts.azure.front import Front
from coterie.sandbox.fronts.azure.server import Identity, Server

_READERS = {"float": float, "int": int, "bool": lambda text: {"true": True, "false": False}[text], "str": str}
KNOWN: Mapping[str, Any] = {one.name: _READERS[str(one.type)] for one in fields(Settings)}
_GROUP = "machines"
_KEPT: Mapping[str, Callable[[], object]] = {
    "tenant": uuid.uuid4,
    "client": uuid.uuid4,
    "subscription": uuid.uuid4,
    "secret": secrets.token_urlsafe,
}


def read_settings(given: Mapping[str, str]) -> Settings:
    values = {}
    for name, text in given.items():
        try:
            values[name] = KNOWN[name](text)
        except (ValueError, KeyError):
            raise UsageError(f"--set {name}={text} cannot be read", remedy="give a number, true or false") from None
    return Settings(**values)


def open_server(datacenter: Datacenter, port: int, settings: Settings) -> Server:
    kept = _read_kept(datacenter)
    front = Front(open_account(datacenter, "azure"), kept["subscription"], _GROUP, settings)
    identity = Identity(kept["tenant"], kept["client"], kept["secret"])
    certificate = write_certificate(datacenter.store.path.with_suffix(".azure.pem"))
    return Server(front, identity, port, certificate)


def properties_of(server: Server) -> dict[str, Any]:
    """A cloud's properties for clients of this server. The key opens nothing: no guest runs here."""
    return {
        "tenant_id": server.identity.tenant,
        "client_id": server.identity.client_id,
        "client_secret": server.identity.client_secret,
        "subscription_id": server.front.subscription,
        "resource_group": _GROUP,
        "location": LOCATION,
        "authority": server.origin,
        "endpoint": server.origin,
        "ca_cert": str(server.front.account.datacenter.store.path.with_suffix(".azure.pem")),
        "default_subnet": "default/default",
        "ssh_public_key": "ssh-ed25519 AAAA sandbox",
        "poll_s": 0.1,
    }


def _read_kept(datacenter: Datacenter) -> dict[str, str]:
    with datacenter.store.writing() as db:
        for name, make in _KEPT.items():
            db.execute("INSERT OR IGNORE INTO meta VALUES (?,?)", (f"azure_{name}", str(make())))
        rows = db.execute("SELECT key, value FROM meta WHERE key LIKE 'azure_%'").fetchall()
    return {str(key).removeprefix("azure_"): str(value) for key, value in rows}
