"""The bearer token of a Director on TCP: told by the operator, or made at the first start and kept for its owner."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from coterie.errors import UsageError


def obtain(told: str | None, file: Path) -> str:
    """The token in force: the one that was told, else the one in `file`, which is made if it is not there."""
    if told:
        return told
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return read(file) or _refuse(file)
    with os.fdopen(handle, "w") as out:
        made = secrets.token_urlsafe(32)
        out.write(made + "\n")
    return made


def read(file: Path) -> str | None:
    try:
        return file.read_text("utf-8").strip() or None
    except OSError:
        return None


def same(offered: str, expected: str) -> bool:
    """Constant time, whatever the lengths are."""
    digests = [hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest() for text in (offered, expected)]
    return hmac.compare_digest(*digests)


def _refuse(file: Path) -> str:
    raise UsageError(f"the token file {file} is empty", remedy="delete it, and a new token is made at the next start")
