"""Expiring links: each gives access to one image until it expires. Pure; the key is the server's secret."""

from __future__ import annotations

import hashlib
import hmac

_LENGTH = 40


def sign(key: bytes, name: str, expires: int) -> str:
    """The path of the link. The name comes last, because clouds judge a download by the end of its path."""
    return f"/i/{expires}/{_signature(key, name, expires)}/{name}"


def verify(key: bytes, expires: str, signature: str, name: str, now: float) -> bool | None:
    """True: valid. None: valid once, and expired. False: forged."""
    if not expires.isascii() or not expires.isdigit() or len(expires) > 12:
        return False
    if not hmac.compare_digest(signature.encode(), _signature(key, name, int(expires)).encode()):
        return False
    return True if now < int(expires) else None


def _signature(key: bytes, name: str, expires: int) -> str:
    return hmac.new(key, f"{expires}\n{name}".encode(), hashlib.sha256).hexdigest()[:_LENGTH]
