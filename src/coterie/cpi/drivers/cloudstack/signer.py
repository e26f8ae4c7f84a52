"""Signs requests as CloudStack wants it (signature version 3). Pure: time and secret come from the caller."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import quote, urlencode


def signed(parameters: Mapping[str, str], api_key: str, secret: str, good_until: float) -> str:
    """The body of a POST with these parameters, good until that time."""
    expires = datetime.fromtimestamp(good_until, UTC).strftime("%Y-%m-%dT%H:%M:%S+0000")
    full = {**parameters, "apikey": api_key, "response": "json", "signatureversion": "3", "expires": expires}
    return urlencode({**full, "signature": signature(full, secret)})


def signature(parameters: Mapping[str, str], secret: str) -> str:
    text = "&".join(f"{name}={_encoded(value)}" for name, value in sorted(parameters.items())).lower()
    return base64.b64encode(hmac.new(secret.encode(), text.encode(), hashlib.sha1).digest()).decode()


def _encoded(value: str) -> str:
    """As Java's URLEncoder, but a space is %20: only letters, digits and * - . _ stay as they are."""
    return quote(value, safe="*").replace("~", "%7E")
