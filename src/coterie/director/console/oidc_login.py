"""Authorization code with PKCE at the issuer. What the issuer's answer is checked against is in a cookie of the browser
that was sent there; the identity token that comes is checked as any other of the issuer."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import ssl
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from coterie.cpi.wire.shapes import Mismatch
from coterie.cpi.wire.strict import loads
from coterie.director.access.jwks import require_safe
from coterie.errors import CoterieError, Forbidden, Unreachable
from coterie.settings import Settings

_COOKIE = "coterie_oidc"
_PATH = "/login/oidc"
_SECONDS = 600
_TIMEOUT_S = 10.0
_LARGEST = 1 << 20
_KEEP_S = 600.0
_REST_S = 10.0  # after the issuer did not answer, however many want to log in


@dataclass
class OidcLogin:
    issuer: str
    client: str
    secret: str | None
    scopes: str
    opener: urllib.request.OpenerDirector
    behind_proxy: bool = False  # which adds TLS: the browser sees https
    _found: dict[str, Any] | None = None
    _at: float = 0.0
    _rests_until: float = 0.0

    @staticmethod
    def of(settings: Settings) -> OidcLogin | None:
        """None where no client is configured."""
        if settings["oidc_issuer"] is None or settings["oidc_client_id"] is None:
            return None
        require_safe(settings["oidc_issuer"])
        ca = settings["oidc_ca"]
        tls = urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=str(ca) if ca else None))
        opener = urllib.request.build_opener(_NoRedirect, tls)
        return OidcLogin(
            settings["oidc_issuer"].rstrip("/"),
            settings["oidc_client_id"],
            settings["oidc_client_secret"],
            settings["oidc_scopes"],
            opener,
            behind_proxy=settings["plain_http"],
        )

    def redirect(self, request: Request, target: str) -> Response:
        """To the issuer's page."""
        state, verifier, nonce = (secrets.token_urlsafe(32) for _ in range(3))
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": self.client,
            "redirect_uri": self._callback(request),
            "scope": self.scopes,
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        where = self._endpoint("authorization_endpoint")
        answer = RedirectResponse(f"{where}{'&' if '?' in where else '?'}{urlencode(query)}", 303)
        kept = base64.urlsafe_b64encode(json.dumps([state, verifier, nonce, target]).encode()).decode()
        # Lax: it has to come along when the issuer sends the browser back.
        answer.set_cookie(_COOKIE, kept, _SECONDS, path=_PATH, secure=True, httponly=True, samesite="lax")
        return answer

    def redeem(self, request: Request) -> tuple[str, str]:
        """The identity token for the code that the issuer sent along, and the page that was wanted."""
        state, verifier, nonce, target = _read_cookie(request.cookies.get(_COOKIE, ""))
        query = request.query_params
        if not hmac.compare_digest(query.get("state", "").encode(), state.encode()):
            raise Forbidden("this answer of the issuer is not for your browser", remedy="log in again")
        if "code" not in query:
            reason = query.get("error_description") or query.get("error") or "it sent no code"
            raise Forbidden("the issuer did not log you in", why=reason[:200], remedy="log in again, or with a token")
        fields = {
            "grant_type": "authorization_code",
            "code": query["code"],
            "redirect_uri": self._callback(request),
            "client_id": self.client,
            "code_verifier": verifier,
        }
        if self.secret is not None:
            fields["client_secret"] = self.secret
        answer = self._call(self._endpoint("token_endpoint"), urlencode(fields).encode())
        token = answer.get("id_token")
        if not isinstance(token, str) or not _has_nonce(token, nonce):
            raise Forbidden("the issuer's answer has no identity token for this log-in", remedy="log in again")
        return token, target

    @staticmethod
    def forget(answer: Response) -> None:
        answer.delete_cookie(_COOKIE, path=_PATH, secure=True, httponly=True, samesite="lax")

    def _callback(self, request: Request) -> str:
        scheme = "https" if self.behind_proxy else request.url.scheme
        return f"{scheme}://{urlsplit(str(request.base_url)).netloc}{_PATH}/callback"

    def _endpoint(self, name: str) -> str:
        if self._found is None or time.monotonic() - self._at > _KEEP_S:
            self._found, self._at = self._call(f"{self.issuer}/.well-known/openid-configuration"), time.monotonic()
        found = str(self._found.get(name, ""))
        require_safe(found)
        return found

    def _call(self, url: str, form: bytes | None = None) -> dict[str, Any]:
        require_safe(url)
        if time.monotonic() < self._rests_until:
            raise _silent(self.issuer, None)
        request = urllib.request.Request(url, form)  # noqa: S310 - see require_safe
        try:
            with self.opener.open(request, timeout=_TIMEOUT_S) as answer:
                found = loads(answer.read(_LARGEST))
        except urllib.error.HTTPError as error:
            raise Forbidden(
                "the issuer refused the log-in", why=f"status {error.code}", remedy="log in again"
            ) from error
        except (OSError, ValueError, Mismatch) as error:
            self._rests_until = time.monotonic() + _REST_S
            raise _silent(self.issuer, error) from error
        if not isinstance(found, dict):
            raise _silent(self.issuer, None)
        return found


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _read_cookie(text: str) -> list[str]:
    try:
        found = json.loads(base64.urlsafe_b64decode(text))
        if len(found) == 4 and all(isinstance(one, str) for one in found):
            return list(found)
    except (ValueError, TypeError):
        pass
    raise Forbidden("this log-in was not begun here, or took too long", remedy="log in again")


def _has_nonce(token: str, nonce: str) -> bool:
    """Whether the token was made for this log-in; its signature is checked afterwards."""
    try:
        body = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        return hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode())
    except (ValueError, IndexError, AttributeError):
        return False


def _silent(issuer: str, error: Exception | None) -> CoterieError:
    return Unreachable(
        f"the issuer {issuer} does not answer as it should",
        why=type(error).__name__ if error else "",
        remedy="try again in a moment, or log in with a token",
    )
