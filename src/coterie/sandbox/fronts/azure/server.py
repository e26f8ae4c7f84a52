"""HTTP around the front: ARM under /subscriptions, the token endpoint of Microsoft Entra ID, uploads to disks by signed
URLs, and what the metadata service gives managed identities. Listens on loopback only."""

from __future__ import annotations

import secrets
import ssl
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from coterie.sandbox.fronts.azure.call import Request
from coterie.sandbox.fronts.azure.front import Front
from coterie.sandbox.fronts.azure.refusals import ApiError
from coterie.sandbox.fronts.http_server import FrontHandler, FrontServer, Reply

_UPLOAD = "/upload/"
_IDENTITY = "/metadata/identity/oauth2/token"
_INSTANCE = "/metadata/instance/compute"
_LIFETIME_S = 3599
_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


@dataclass
class Identity:
    """The one service principal that this front knows, and the tokens that it was given."""

    tenant: str
    client_id: str
    client_secret: str
    tokens: dict[str, float] = field(default_factory=dict)
    requests: int = 0

    def issue(self) -> dict[str, Any]:
        token = secrets.token_urlsafe(24)
        self.tokens[token] = time.time() + _LIFETIME_S
        self.requests += 1
        return {"token_type": "Bearer", "expires_in": _LIFETIME_S, "ext_expires_in": _LIFETIME_S, "access_token": token}

    def expire(self) -> None:
        """All tokens at once; what they were is not forgotten."""
        self.tokens = dict.fromkeys(self.tokens, 0.0)

    def require(self, header: str) -> None:
        ends = self.tokens.get(header.removeprefix("Bearer "))
        if ends is None:
            raise ApiError(401, "InvalidAuthenticationToken", "The access token is invalid.")
        if ends < time.time():
            raise ApiError(401, "ExpiredAuthenticationToken", "The access token expiry is in the past.")

    def accepts(self, form: dict[str, list[str]]) -> bool:
        """A secret, or an assertion: whose signature is right is not this front's business."""
        proven = form.get("client_secret") == [self.client_secret] or form.get("client_assertion_type") == [_ASSERTION]
        return form.get("client_id") == [self.client_id] and proven and bool(form.get("scope"))


class Server(FrontServer):
    """Serves until closed; `origin` is the URL for clients: endpoint and, with a certificate, authority."""

    def __init__(self, front: Front, identity: Identity, port: int = 0, certificate: Path | None = None) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.front = front
        self.identity = identity
        self.inside: str | None = None  # the VM that asks the metadata service
        self.origin = f"http{'s' if certificate else ''}://127.0.0.1:{self.server_address[1]}"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)


class _Handler(FrontHandler):
    server: Server

    def do_GET(self) -> None:
        raw = self.read_body()
        where = urlsplit(self.path)
        if where.path.startswith(_UPLOAD):
            self.send(self._upload(where.path.removeprefix(_UPLOAD), raw))
        elif where.path == _IDENTITY:
            self.send(self._managed_identity())
        elif where.path == _INSTANCE:
            self.send(self._instance())
        elif where.path.endswith("/oauth2/v2.0/token"):
            self.send(self._token(raw))
        elif where.path.endswith("/.well-known/openid-configuration"):
            self.send(Reply(200, self._discovery(where.path)))
        else:
            self.send(self._arm(raw))

    do_PUT = do_POST = do_PATCH = do_DELETE = do_HEAD = do_GET

    def _arm(self, raw: bytes) -> Reply:
        server, headers = self.server, {name.lower(): value for name, value in self.headers.items()}
        try:
            server.identity.require(headers.get("authorization", ""))
        except ApiError as error:
            return Reply(401, {"error": error.body()}, {"WWW-Authenticate": "Bearer"})
        return server.front.answer(Request(self.command, self.path, headers, raw), server.origin)

    def _token(self, raw: bytes) -> Reply:
        identity = self.server.identity
        tenant = urlsplit(self.path).path.strip("/").split("/")[0]
        if tenant.lower() != identity.tenant.lower() or not identity.accepts(parse_qs(raw.decode())):
            text = "AADSTS7000215: Invalid client secret provided."
            return Reply(401, {"error": "invalid_client", "error_description": text, "error_codes": [7000215]})
        return Reply(200, identity.issue())

    def _managed_identity(self) -> Reply:
        if self.headers.get("Metadata", "").lower() != "true":
            return Reply(
                400, {"error": "invalid_request", "error_description": "Required metadata header not specified"}
            )
        found = self.server.identity.issue()
        expires = str(int(time.time()) + _LIFETIME_S)
        return Reply(200, {**found, "expires_in": str(_LIFETIME_S), "expires_on": expires, "resource": "arm"})

    def _instance(self) -> Reply:
        if self.headers.get("Metadata", "").lower() != "true" or self.server.inside is None:
            return Reply(400, {"error": "Bad request. api-version or Metadata header is missing"})
        group = next(iter(self.server.front.groups.values()))
        return Reply(200, {"name": self.server.inside, "resourceGroupName": group})

    def _discovery(self, path: str) -> dict[str, Any]:
        tenant = f"{self.server.origin}/{path.strip('/').split('/')[0]}"
        return {
            "issuer": f"{tenant}/v2.0",
            "authorization_endpoint": f"{tenant}/oauth2/v2.0/authorize",
            "token_endpoint": f"{tenant}/oauth2/v2.0/token",
        }

    def _upload(self, sas: str, raw: bytes) -> Reply:
        if self.command != "PUT" or "comp=page" not in self.path or self.headers.get("x-ms-page-write") != "update":
            return Reply(400, {"error": {"code": "InvalidHeaderValue", "message": "only pages are written here"}})
        first, _, last = self.headers.get("x-ms-range", "").removeprefix("bytes=").partition("-")
        try:
            if int(last) - int(first) + 1 != len(raw):
                raise ApiError(400, "InvalidHeaderValue", "The range does not fit the body.")
            self.server.front.upload(sas, int(first), raw)
        except ApiError as error:
            return Reply(error.status, {"error": error.body()})
        return Reply(201)
