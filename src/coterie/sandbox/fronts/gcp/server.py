"""HTTP around the front: Compute Engine, uploads to Cloud Storage, rights by Cloud Resource Manager, token endpoints,
and the metadata server of a VM. Listens on loopback only."""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from coterie.sandbox.fronts.gcp.call import moment
from coterie.sandbox.fronts.gcp.front import Front
from coterie.sandbox.fronts.gcp.refusals import ApiError, invalid, not_found
from coterie.sandbox.fronts.http_server import FrontHandler, FrontServer, Reply

_UPLOAD, _OBJECTS = "/upload/storage/v1/b/", "/storage/v1/b/"
_METADATA = "/computeMetadata/v1/"
_LIFETIME_S = 3600
_PIECE = 256 * 1024


@dataclass
class Identity:
    """One service account: its key, the tokens that it was given, and those that were ended. `permissions`: what it
    may do; None: everything."""

    email: str
    key: Any  # an RSA private key
    tokens: dict[str, float] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    seen: set[str] = field(default_factory=set)
    permissions: set[str] | None = None
    has_resource_manager: bool = True

    def issue(self) -> dict[str, Any]:
        token = secrets.token_urlsafe(24)
        self.tokens[token] = time.time() + _LIFETIME_S
        return {"token_type": "Bearer", "expires_in": _LIFETIME_S, "access_token": token}

    def expire(self) -> None:
        """All tokens at once, also signed ones that were used."""
        self.ended |= self.tokens.keys() | self.seen

    def require(self, header: str) -> None:
        token = header.removeprefix("Bearer ")
        good = self.tokens.get(token, 0.0) > time.time() or self._is_signed(token)
        if not header.startswith("Bearer ") or not good or token in self.ended:
            raise ApiError(401, "authError", "Request had invalid authentication credentials.")
        self.seen.add(token)

    def accepts(self, assertion: str) -> bool:
        return self._is_signed(assertion)

    def _is_signed(self, token: str) -> bool:
        """A JWT of this account, still valid."""
        from joserfc import jwt
        from joserfc.errors import JoseError
        from joserfc.jwk import RSAKey

        try:
            claims = jwt.decode(token, RSAKey.import_key(self.key.public_key()), algorithms=["RS256"]).claims
        except (JoseError, ValueError):
            return False
        known = claims.get("iss") == self.email and (claims.get("scope") or claims.get("aud"))
        return bool(known) and float(claims["iat"]) - 60 < time.time() < float(claims["exp"])


class Server(FrontServer):
    """Serves until closed; `origin` is the URL for clients. `inside`: the VM that asks the metadata server."""

    def __init__(self, front: Front, identity: Identity, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.front = front
        self.identity = identity
        self.inside: str | None = None
        self.uploads: dict[str, tuple[str, str, bytearray, dict[str, Any]]] = {}
        self.lose_upload = False  # the answer to the next piece
        self.origin = f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(FrontHandler):
    server: Server

    def do_GET(self) -> None:
        raw = self.read_body()
        path = urlsplit(self.path).path
        try:
            if path.startswith(_METADATA):
                self.send(self._metadata(path.removeprefix(_METADATA)))
                return
            if path in ("/token", "/v1/token"):
                self.send(self._token(raw))
                return
            self.server.identity.require(self.headers.get("Authorization", ""))
            if path.startswith(_UPLOAD):
                self.send(self._upload(path, raw))
            elif path.startswith(_OBJECTS):
                self.send(self._object(path))
            elif path.endswith(":testIamPermissions"):
                self.send(self._permissions(raw))
            else:
                self.send(self.server.front.answer(self.command, self.path, raw))
        except ApiError as error:
            self.send(Reply(error.status, error.body()))

    do_PUT = do_POST = do_PATCH = do_DELETE = do_GET

    def _token(self, raw: bytes) -> Reply:
        """A signed assertion of the account's key, or any subject token of a federation."""
        form = {name: values[0] for name, values in parse_qs(raw.decode()).items()}
        identity = self.server.identity
        if identity.accepts(form.get("assertion", "")):
            return Reply(200, identity.issue())
        if form.get("grant_type", "").endswith("token-exchange") and form.get("subject_token"):
            return Reply(
                200, {**identity.issue(), "issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}
            )
        return Reply(400, {"error": "invalid_grant", "error_description": "Invalid JWT Signature."})

    def _metadata(self, what: str) -> Reply:
        if self.headers.get("Metadata-Flavor") != "Google":
            return Reply(403, {"error": "Missing Metadata-Flavor:Google header."})
        headers, identity = {"Metadata-Flavor": "Google"}, self.server.identity
        if what.endswith("/token"):
            return Reply(200, identity.issue(), headers)
        if "/service-accounts/" in what:
            return Reply(200, {"email": identity.email, "scopes": ["cloud-platform"], "aliases": ["default"]}, headers)
        if what.startswith("instance/") and self.server.inside:
            zone, name = self.server.inside.split("/")
            text = {"instance/name": name, "instance/zone": f"projects/1/zones/{zone}"}.get(what, "")
            return Reply(200, text.encode(), headers)
        return Reply(200, b"ok", headers) if what == "" else Reply(404, b"", headers)

    def _permissions(self, raw: bytes) -> Reply:
        asked, identity = json.loads(raw)["permissions"], self.server.identity
        if not identity.has_resource_manager:
            text = "Cloud Resource Manager API has not been used in project before or it is disabled."
            raise ApiError(403, "accessNotConfigured", text)
        granted = [one for one in asked if identity.permissions is None or one in identity.permissions]
        return Reply(200, {"permissions": granted} if granted else {})

    # -- Cloud Storage --

    def _upload(self, path: str, raw: bytes) -> Reply:
        server, query = self.server, {k: v[0] for k, v in parse_qs(urlsplit(self.path).query).items()}
        if self.command == "POST":
            bucket = path.removeprefix(_UPLOAD).split("/")[0]
            if bucket != server.front.settings.bucket:
                raise not_found(f"bucket {bucket}")
            if query.get("uploadType") != "resumable" or not query.get("name"):
                raise invalid("only resumable uploads with a name are taken here")
            server.front.watch("objects.insert")
            key = secrets.token_hex(8)
            server.uploads[key] = bucket, query["name"], bytearray(), json.loads(raw or b"{}")
            return Reply(200, b"", {"Location": f"{server.origin}{path}?upload_id={key}"})
        key = query.get("upload_id", "")
        if key not in server.uploads:
            raise not_found("upload")
        bucket, name, data, meta = server.uploads[key]
        span, _, total = self.headers.get("Content-Range", "").removeprefix("bytes ").partition("/")
        if span != "*":
            first = int(span.split("-")[0])
            if first > len(data) or (total == "*" and len(raw) % _PIECE):
                raise ApiError(503, "backendError", "pieces follow each other and are multiples of 256 KiB")
            data[first:] = raw
        if total != "*" and len(data) >= int(total):
            server.front.compute.objects[bucket, name] = bytes(data), {**meta, "timeCreated": moment(time.time())}
            found = Reply(200, {"name": name, "bucket": bucket, "size": str(len(data))})
        else:
            found = Reply(308, b"", {"Range": f"bytes=0-{len(data) - 1}"} if data else {})
        found.lost, server.lose_upload = server.lose_upload, False
        return found

    def _object(self, path: str) -> Reply:
        objects = self.server.front.compute.objects
        bucket, _, rest = path.removeprefix(_OBJECTS).partition("/")
        name = unquote(rest.partition("/")[2])
        if bucket != self.server.front.settings.bucket:
            raise not_found(f"bucket {bucket}")
        verb = {"DELETE": "delete", "GET": "get" if name else "list"}[self.command]
        self.server.front.watch(f"objects.{verb}")
        if not name:
            prefix = parse_qs(urlsplit(self.path).query).get("prefix", [""])[0]
            keys = [key for key in sorted(objects) if key[0] == bucket and key[1].startswith(prefix)]
            return Reply(200, {"items": [{"name": key[1], **objects[key][1]} for key in keys]} if keys else {})
        if (bucket, name) not in objects:
            raise not_found(f"object {name}")
        if self.command == "DELETE":
            del objects[bucket, name]
            lost = self.server.front.lose("objects.delete")
            return Reply(204, b"", lost=lost)
        return Reply(200, {"name": name, **objects[bucket, name][1]})
