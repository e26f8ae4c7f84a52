"""Verifies the signature of a request: signature versions 2 and 3, and the expiry time."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime
from urllib.parse import quote

from coterie.sandbox.fronts.cloudstack.refusals import UNAUTHORIZED, ApiError


def verify(parameters: Mapping[str, str], secret: str, now: float) -> None:
    """Refuse what is not signed with `secret`, or was good until before `now`."""
    _require_time(parameters, now)
    wanted = base64.b64encode(hmac.new(secret.encode(), text_of(parameters).encode(), hashlib.sha1).digest())
    if not hmac.compare_digest(wanted, _given_signature(parameters).encode()):
        raise ApiError(UNAUTHORIZED, "unable to verify user credentials and/or request signature")


def text_of(parameters: Mapping[str, str]) -> str:
    """The text that is signed: sorted by name, values encoded as Java does it, all in lower case."""
    pairs = [f"{name}={_encode(value)}" for name, value in sorted(parameters.items()) if name.lower() != "signature"]
    return "&".join(pairs).lower()


def _encode(value: str) -> str:
    return quote(value, safe="*").replace("~", "%7E")


def _given_signature(parameters: Mapping[str, str]) -> str:
    return next((value for name, value in parameters.items() if name.lower() == "signature"), "")


def _require_time(parameters: Mapping[str, str], now: float) -> None:
    found = {name.lower(): value for name, value in parameters.items()}
    if found.get("signatureversion") != "3":
        return
    try:
        until = datetime.strptime(found["expires"], "%Y-%m-%dT%H:%M:%S%z").timestamp()
    except (KeyError, ValueError):
        text = "signature version 3 needs a parameter expires, like 2026-11-15T22:00:00+0000"
        raise ApiError(UNAUTHORIZED, text) from None
    if until < now:
        raise ApiError(UNAUTHORIZED, "the signature has expired")
