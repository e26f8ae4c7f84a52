"""Finds out who comes in: the socket's owner, the Director's own token, an API token, or an issuer's JSON web token."""

from __future__ import annotations

import hashlib
import hmac

from coterie.director.access import tokens
from coterie.director.access.caller import Caller
from coterie.director.context import Office
from coterie.errors import Unauthenticated


def caller_of(office: Office, credential: str) -> Caller:
    """`credential`: what came after `Bearer`. May read the ledger and, for new keys, ask the issuer."""
    found = _caller(office, credential)
    if found is None:
        raise unauthenticated()
    return found


def bearer(header: str) -> str:
    kind, _, offered = header.partition(" ")
    return offered.strip() if kind.lower() == "bearer" else ""


def unauthenticated() -> Unauthenticated:
    return Unauthenticated(
        "this Director wants a bearer token, and the one that was offered is missing, wrong, expired or revoked",
        remedy="set COTERIE_TOKEN, or COTERIE_TOKEN_FILE to a file with it; an admin makes one: coterie tokens create",
    )


def _caller(office: Office, credential: str) -> Caller | None:
    if office.token is not None and _same(credential, office.token):
        return Caller("director-token", "admin", "token")
    if tokens.is_token(credential):
        return tokens.caller_of(office.ledger, credential)
    if office.oidc is not None and credential.count(".") == 2:
        return office.oidc.caller_of(credential)
    return None


def _same(offered: str, expected: str) -> bool:
    """Constant time, whatever the lengths are."""
    digests = [hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest() for text in (offered, expected)]
    return hmac.compare_digest(*digests)
