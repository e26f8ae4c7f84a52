"""Sessions of the console: a secret in a cookie stands for a caller that logged in, until it or its credential ends."""

from __future__ import annotations

import hashlib
import secrets
import time
from dataclasses import asdict
from typing import Any

from coterie.director.access import tokens
from coterie.director.access.caller import Caller
from coterie.ledger.rows import sessions
from coterie.ledger.rows.identity import Identity
from coterie.ledger.store import Ledger

_LINK_S = 120.0


def cookie_name(director: Identity) -> str:
    """Browsers send a cookie to every port of a machine: two Directors there must not share one."""
    return f"coterie_{director.uuid[:8]}"


def begin(ledger: Ledger, caller: Caller, hours: float) -> tuple[str, int]:
    """The secret of a new session, and its seconds: no more than the caller's credential has left."""
    seconds = hours * 3600.0
    if caller.expires_at is not None:
        seconds = max(1.0, min(seconds, caller.expires_at - time.time()))
    return _add(ledger, sessions.SESSION, caller, seconds), int(seconds)


def caller_of(ledger: Ledger, secret: str) -> Caller | None:
    """None if the session has ended, or the token that it was begun with is no longer valid."""
    with ledger.read() as tx:
        facts = sessions.caller_of(tx, _hash(secret))
        caller = None if facts is None else _caller(facts)
        return caller if caller is not None and tokens.is_still_valid(tx, caller) else None


def end(ledger: Ledger, secret: str) -> None:
    with ledger.write() as tx:
        sessions.end(tx, _hash(secret))


def make_link_code(ledger: Ledger, caller: Caller) -> str:
    """A code that logs this caller in once, within two minutes."""
    return _add(ledger, sessions.LINK, caller, _LINK_S)


def take_link_code(ledger: Ledger, code: str) -> Caller | None:
    with ledger.write() as tx:
        facts = sessions.take_link(tx, _hash(code))
        caller = None if facts is None else _caller(facts)
        return caller if caller is not None and tokens.is_still_valid(tx, caller) else None


def csrf_token(secret: str) -> str:
    """What every form of this session repeats; other sites cannot read it."""
    return hashlib.sha256(f"csrf {secret}".encode()).hexdigest()


def _add(ledger: Ledger, kind: str, caller: Caller, seconds: float) -> str:
    secret = secrets.token_urlsafe(32)
    facts = {**asdict(caller), "teams": None if caller.teams is None else sorted(caller.teams)}
    with ledger.write() as tx:
        sessions.add(tx, _hash(secret), kind, facts, seconds)
    return secret


def _caller(facts: dict[str, Any]) -> Caller:
    return Caller(**{**facts, "teams": None if facts["teams"] is None else frozenset(facts["teams"])})


def _hash(secret: str) -> str:
    # 256 random bits: there is nothing to guess that a slow hash would protect.
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
