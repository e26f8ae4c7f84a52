"""Tokens of Google: a service account's key signs them here, without a request; the metadata server or a workload
identity federation gives them. google-auth is imported for the first one only; a valid one is kept for all drivers of
the process."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from datetime import UTC
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

from coterie.cpi.contract import AuthenticationFailed, CpiError, Unavailable
from coterie.cpi.drivers.gcp.properties import UNIVERSE, Settings
from coterie.cpi.kit.http import AnswerLost, Http, NotTaken
from coterie.cpi.kit.local_credentials import INSTANCE, require_source
from coterie.cpi.kit.tokens import Tokens

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_LIFE_S = 600.0  # of a token that does not tell its end
_REMEDY = "check json_key or credentials_source, the network and the clock of this machine"
_tokens = Tokens()


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
        return _tokens.get(self._key, self._ask, refused)

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
        transport = partial(_send, self._http, exceptions.TransportError)
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
        ends = found.expiry.replace(tzinfo=UTC).timestamp() if found.expiry else time.time() + _LIFE_S
        return str(found.token), ends

    def _ask_metadata(self) -> tuple[str, float]:
        """google-auth would import another HTTP library for this one request."""
        what = f"service-accounts/default/token?scopes={quote(SCOPE, safe='')}"
        try:
            found = json.loads(ask_metadata(self._http, what))
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


def ask_metadata(http: Http, what: str) -> bytes:
    """Of the machine that this process runs on. `GCE_METADATA_HOST` is Google's own word for another address."""
    host = os.environ.get("GCE_METADATA_HOST", "metadata.google.internal")
    url = f"http://{host}/computeMetadata/v1/instance/{what}"
    answer = http.request("GET", url, {"Metadata-Flavor": "Google"})
    if answer.status != 200 or answer.headers.get("metadata-flavor") != "Google":
        raise ValueError(f"HTTP {answer.status} from {url}")
    return answer.body


def _send(
    http: Http,
    failure: type[Exception],
    url: str,
    method: str = "GET",
    body: Any = None,
    headers: Mapping[str, str] | None = None,
    **_: Any,
) -> SimpleNamespace:
    """With what google-auth sends its requests, as it calls it and reads the answer."""
    raw = body.encode() if isinstance(body, str) else body
    try:
        answer = http.request(method, url, headers, raw)
    except (NotTaken, AnswerLost) as error:
        raise failure(str(error)) from error
    return SimpleNamespace(status=answer.status, headers=answer.headers, data=answer.body)


def _words(error: Exception) -> str:
    return str(error.args[0] if error.args else error).partition("\n")[0][:300] or type(error).__name__
