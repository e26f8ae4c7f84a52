"""Tokens of Google: a service account's key signs them here, without a request; the metadata server or a workload
identity federation gives them. google-auth is imported for the first one only; a valid one is kept for all drivers of
the process."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import UTC
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote

from coterie.cpi.contract import AuthenticationFailed, CpiError, Unavailable
from coterie.cpi.drivers.gcp.properties import UNIVERSE, Settings
from coterie.cpi.kit.http import AnswerLost, Http, NotTaken
from coterie.cpi.kit.local_credentials import INSTANCE, require_source

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_RENEW_S = 300.0
_REMEDY = "check json_key or credentials_source, the network and the clock of this machine"
_FRESH = 8  # tries for a token that is not the refused one
_known: dict[tuple[object, ...], tuple[str, float]] = {}  # token, and from when on another is asked for
_asking: dict[tuple[object, ...], threading.Lock] = {}


class Login:
    def __init__(self, settings: Settings, http: Http, credential_sources: Sequence[str] = ()) -> None:
        self._settings = settings
        self._credential_sources = credential_sources
        self._http = http
        key = settings.json_key or {}
        who = (key.get("client_email"), key.get("private_key_id"), key.get("private_key"))
        self._key = (*who, settings.credentials_source, settings.credentials_file, settings.endpoint)

    def token(self, refused: str | None = None) -> str:
        """A valid token, and never the one that was refused."""
        self._require_source()
        with _asking.setdefault(self._key, threading.Lock()):
            token, renewed_at = _known.get(self._key, ("", 0.0))
            if token == refused or renewed_at < time.time():
                token, renewed_at = self._ask_other(refused)
                _known[self._key] = token, renewed_at
            return token

    def _ask_other(self, refused: str | None) -> tuple[str, float]:
        """With the time to ask again: short-lived ones are used for half of their life."""
        for _ in range(_FRESH):
            token, ends = self._ask()
            if token != refused:
                return token, ends - min(_RENEW_S, (ends - time.time()) / 2)
            time.sleep(0.25)  # two that are signed within a second are the same
        raise AuthenticationFailed("Google refuses its token, and gives no other", remedy=_REMEDY)

    def _require_source(self) -> None:
        settings = self._settings
        if not settings.credentials_source:
            return
        leading = {one: getattr(settings, one) for one in ("endpoint", "ca_cert", "proxy_url")}
        leading["universe_domain"] = settings.universe_domain if settings.universe_domain != UNIVERSE else None
        name = "credentials_file" if settings.credentials_file else "credentials_source"
        require_source(self._credential_sources, name, settings.credentials_file or INSTANCE, leading)

    def _ask(self) -> tuple[str, float]:
        if self._settings.credentials_source == "metadata":
            return self._ask_metadata()
        try:
            exceptions = import_module("google.auth.exceptions")
        except ImportError as error:
            remedy = "install it: pip install 'coterie[gcp]'"
            raise CpiError("google-auth is not installed", why=str(error), remedy=remedy) from None
        transport = _Transport(self._http, exceptions.TransportError)
        try:
            found = self._credentials()
            found.refresh(transport)
        except exceptions.TransportError as error:
            raise Unavailable("no token can be had", why=_words(error), remedy=_REMEDY) from None
        except exceptions.RefreshError as error:
            kind = Unavailable if getattr(error, "retryable", False) else AuthenticationFailed
            raise kind("Google gives no token", why=_words(error), remedy=_REMEDY) from None
        except (exceptions.GoogleAuthError, KeyError, ValueError, OSError) as error:
            raise AuthenticationFailed("Google gives no token", why=_words(error), remedy=_REMEDY) from None
        ends = found.expiry.replace(tzinfo=UTC).timestamp() if found.expiry else time.time() + 2 * _RENEW_S
        return str(found.token), ends

    def _ask_metadata(self) -> tuple[str, float]:
        """google-auth would import another HTTP library for this one request."""
        url = f"{metadata_url()}/service-accounts/default/token?scopes={quote(SCOPE, safe='')}"
        try:
            answer = self._http.request("GET", url, {"Metadata-Flavor": "Google"})
            found = json.loads(answer.body)
            if answer.status != 200 or answer.headers.get("metadata-flavor") != "Google":
                raise ValueError(f"HTTP {answer.status} from {url}")
            return str(found["access_token"]), time.time() + float(found["expires_in"])
        except (NotTaken, AnswerLost) as error:
            raise Unavailable("no token can be had", why=str(error), remedy="run it on a machine of Google's") from None
        except (ValueError, KeyError) as error:
            raise AuthenticationFailed("the machine has no account", why=str(error), remedy=_REMEDY) from None

    def _credentials(self) -> Any:
        settings = self._settings
        if settings.json_key:
            account = import_module("google.oauth2.service_account").Credentials
            found = account.from_service_account_info(dict(settings.json_key), scopes=[SCOPE])
            return found.with_always_use_jwt_access(True)
        info = json.loads(Path(str(settings.credentials_file)).read_text())
        if info.get("type") != "external_account":
            raise ValueError("credentials_file is no configuration of a workload identity federation")
        source = info["credential_source"]
        module = "aws" if "environment_id" in source else "pluggable" if "executable" in source else "identity_pool"
        return import_module(f"google.auth.{module}").Credentials.from_info(info, scopes=[SCOPE])


def metadata_url() -> str:
    """`GCE_METADATA_HOST` is Google's own word for another address."""
    return f"http://{os.environ.get('GCE_METADATA_HOST', 'metadata.google.internal')}/computeMetadata/v1/instance"


class _Transport:
    """What google-auth sends its requests with."""

    def __init__(self, http: Http, error: type[Exception]) -> None:
        self._http = http
        self._error = error

    def __call__(
        self, url: str, method: str = "GET", body: Any = None, headers: Mapping[str, str] | None = None, **_: Any
    ) -> Any:
        raw = body.encode() if isinstance(body, str) else body
        try:
            answer = self._http.request(method, url, headers, raw)
        except (NotTaken, AnswerLost) as error:
            raise self._error(str(error)) from error
        return _Response(answer.status, answer.headers, answer.body)


class _Response:
    def __init__(self, status: int, headers: Mapping[str, str], data: bytes) -> None:
        self.status, self.headers, self.data = status, headers, data


def _words(error: Exception) -> str:
    return str(error.args[0] if error.args else error).partition("\n")[0][:300] or type(error).__name__
