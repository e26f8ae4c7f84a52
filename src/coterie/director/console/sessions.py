"""Sessions of the console: a secret in a cookie stands for a caller that logged in, until it or its credential ends.

`listener`: the id of the loopback listener that the browser came to, "" for any other. Browsers go on sending the
cookie to the port of a Director that has ended, and another user's process may listen there.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from dataclasses import asdict
from typing import Any

from coterie.director.access import tokens
from coterie.director.access.caller import Caller
from coterie.director.context import AppContext
from coterie.ledger.rows import sessions
from coterie.ledger.rows.identity import Identity
from coterie.ledger.store import Ledger, Tx

_LINK_S = 120.0


def cookie_name(director: Identity) -> str:
    """Browsers send a cookie to every port of a machine: two Directors there must not share one."""
    return f"coterie_{director.uuid[:8]}"


def begin(
    context: AppContext, caller: Caller, hours: float, listener: str = "", instead_of: str = ""
) -> tuple[str, int]:
    """The secret of a new session, and its seconds: no more than the caller's credential has left. The session that the
    secret `instead_of` stands for ends."""
    seconds = hours * 3600.0
    if caller.expires_at is not None:
        seconds = max(1.0, min(seconds, caller.expires_at - time.time()))
    return _add(context, sessions.SESSION, caller, listener, seconds, instead_of), int(seconds)


def caller_of(context: AppContext, secret: str, listener: str = "") -> Caller | None:
    """None if the session has ended, is of another listener, or the token that it was begun with is no longer valid."""
    with context.ledger.read() as tx:
        return _valid_caller(context, tx, sessions.caller_of(tx, _hash(secret)), secret, listener)


def end(ledger: Ledger, secret: str) -> None:
    with ledger.write() as tx:
        sessions.end(tx, _hash(secret))


def make_link_code(context: AppContext, caller: Caller, listener: str = "") -> str:
    """A code that logs this caller in once, within two minutes."""
    return _add(context, sessions.LINK, caller, listener, _LINK_S)


def link_caller(context: AppContext, code: str, listener: str = "") -> Caller | None:
    """Whom the code would log in."""
    with context.ledger.read() as tx:
        return _valid_caller(context, tx, sessions.link_caller(tx, _hash(code)), code, listener)


def take_link_code(context: AppContext, code: str, listener: str = "") -> Caller | None:
    """Writes only for a code that is right: wrong ones come without a log-in."""
    if link_caller(context, code, listener) is None:
        return None
    with context.ledger.write() as tx:
        return _valid_caller(context, tx, sessions.take_link(tx, _hash(code)), code, listener)


def csrf_token(secret: str) -> str:
    """What every form of this session repeats; other sites cannot read it."""
    return hashlib.sha256(f"csrf {secret}".encode()).hexdigest()


def _add(context: AppContext, kind: str, caller: Caller, listener: str, seconds: float, instead_of: str = "") -> str:
    secret = secrets.token_urlsafe(32)
    facts = {**asdict(caller), "teams": None if caller.teams is None else sorted(caller.teams)}
    facts |= {"listener": listener, "proof": _proof(context, caller, secret)}
    with context.ledger.write() as tx:
        if instead_of:
            sessions.end(tx, _hash(instead_of))
        sessions.add(tx, _hash(secret), kind, facts, seconds)
    return secret


def _valid_caller(
    context: AppContext, tx: Tx, found: dict[str, Any] | None, secret: str, listener: str
) -> Caller | None:
    if found is None:
        return None
    facts = {"listener": "", "proof": "", **found}  # an earlier release wrote neither
    begun_at, proof = facts.pop("listener"), facts.pop("proof")
    caller = Caller(**{**facts, "teams": None if facts["teams"] is None else frozenset(facts["teams"])})
    if begun_at != listener or not hmac.compare_digest(proof, _proof(context, caller, secret)):
        return None
    return caller if tokens.is_still_valid(tx, caller) else None


def _proof(context: AppContext, caller: Caller, secret: str) -> str:
    """For the Director's own token, which the ledger does not know: that it is still the one of the log-in. Made with
    the secret, so that readers of the ledger cannot test guesses of the token."""
    if caller.how != "token" or caller.detail:
        return ""
    return hmac.new((context.token or "").encode(), secret.encode("utf-8", "surrogateescape"), "sha256").hexdigest()


def _hash(secret: str) -> str:
    # 256 random bits: there is nothing to guess that a slow hash would protect.
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
