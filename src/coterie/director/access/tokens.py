"""API tokens: `cot_ID_SECRET`. The secret is shown once, when it is created; only its hash is stored."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass

from coterie.director.access.caller import Caller
from coterie.ids import base32
from coterie.ledger.rows import tokens
from coterie.ledger.rows.tokens import TokenRow
from coterie.ledger.store import Ledger, Tx

DAY_S = 86400.0
DAYS = 90
LONGEST_DAYS = 3650
_PREFIX = "cot"
_NO_TOKEN = TokenRow("", "", "0" * 64, "viewer", [])  # compared with when there is no such token


@dataclass(frozen=True, slots=True)
class NewToken:
    id: str
    text: str

    def __repr__(self) -> str:
        return f"NewToken({self.id})"


def create(tx: Tx, name: str, role: str, teams: Sequence[str] | None, by: str, days: int = DAYS) -> NewToken:
    new_id, secret = base32(secrets.randbits(60), 12), secrets.token_urlsafe(32)
    listed = None if teams is None else sorted(set(teams))
    tokens.add(tx, TokenRow(new_id, name, _hash(secret), role, listed), by, days * DAY_S)
    return NewToken(new_id, f"{_PREFIX}_{new_id}_{secret}")


def is_token(text: str) -> bool:
    return text.startswith(f"{_PREFIX}_")


def token_id(text: str) -> str | None:
    """The id in an API token, valid or not; None: it is no API token."""
    found = [*text.split("_", 2), "", ""][1] if is_token(text) else ""
    return found if found.isascii() and found.isalnum() and len(found) <= 64 else None


def caller_of(ledger: Ledger, text: str) -> Caller | None:
    """The caller that a token stands for; None if it is wrong, expired or revoked."""
    offered, secret = token_id(text), [*text.split("_", 2), "", ""][2]
    if offered is None:
        return None
    with ledger.read() as tx:
        row = tokens.valid(tx, offered) or _NO_TOKEN
    if not hmac.compare_digest(row.hash, _hash(secret)) or row is _NO_TOKEN:
        return None
    return Caller(row.name, row.role, "token", None if row.teams is None else frozenset(row.teams), row.id)


def is_still_valid(tx: Tx, caller: Caller) -> bool:
    """Whether the credential of a caller that was authenticated before has neither expired nor been revoked."""
    if caller.expires_at is not None and time.time() >= caller.expires_at:
        return False
    return caller.how != "token" or not caller.detail or tokens.valid(tx, caller.detail) is not None


def _hash(secret: str) -> str:
    # The secret has 256 random bits: there is nothing to guess that a slow hash would protect.
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
