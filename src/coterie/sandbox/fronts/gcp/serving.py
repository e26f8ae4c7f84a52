"""The front as `coterie sandbox serve` opens it: with settings written as text, and a service account whose key the
state file keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from coterie.errors import UsageError
from coterie.sandbox.accounts import open_account
from coterie.sandbox.datacenter import Datacenter
from coterie.sandbox.fronts.gcp.call import REGION, Settings
from coterie.sandbox.fronts.gcp.front import Front
from coterie.sandbox.fronts.gcp.server import Identity, Server
from coterie.sandbox.hosts import all_hosts

_READERS = {"float": float, "int": int, "bool": lambda text: {"true": True, "false": False}[text], "str": str}
KNOWN: Mapping[str, Any] = {one.name: _READERS[str(one.type)] for one in fields(Settings)}
_PROJECT = "sandbox"
_EMAIL = f"coterie@{_PROJECT}.iam.gserviceaccount.com"
_KEY = "gcp_key"


def read_settings(given: Mapping[str, str]) -> Settings:
    values = {}
    for name, text in given.items():
        try:
            values[name] = KNOWN[name](text)
        except (ValueError, KeyError):
            raise UsageError(f"--set {name}={text} cannot be read", remedy="give a number, true or false") from None
    return Settings(**values)


def open_server(datacenter: Datacenter, port: int, settings: Settings) -> Server:
    key = serialization.load_pem_private_key(_read_key(datacenter).encode(), None)
    return Server(Front(open_account(datacenter, "gcp"), _PROJECT, settings), Identity(_EMAIL, key), port)


def properties_of(server: Server) -> dict[str, Any]:
    """A cloud's properties for clients of this server."""
    datacenter = server.front.account.datacenter
    zones = sorted({host.zone for host in all_hosts(datacenter.store)})
    key = {"type": "service_account", "client_email": _EMAIL, "private_key": _read_key(datacenter)}
    racks = {host.rack for host in all_hosts(datacenter.store) if host.zone == zones[0]}
    return {
        "project": _PROJECT,
        "region": REGION,
        "json_key": {**key, "private_key_id": "sandbox", "token_uri": f"{server.origin}/token"},
        "endpoint": server.origin,
        "default_zone": zones[0],
        "default_subnetwork": "default",
        "stemcell_bucket": server.front.settings.bucket,
        "availability_domains": min(len(racks), 8),
        "poll_s": 0.1,
    }


def _read_key(datacenter: Datacenter) -> str:
    """Made at the first start."""
    with datacenter.store.writing() as db:
        row = db.execute("SELECT value FROM meta WHERE key = ?", (_KEY,)).fetchone()
        if row is None:
            made = rsa.generate_private_key(65537, 2048)
            pem = made.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            row = (pem.decode(),)
            db.execute("INSERT INTO meta VALUES (?,?)", (_KEY, row[0]))
    return str(row[0])
