"""What a Director on TCP starts with: the issuer that it trusts, and the first admin token of a new ledger."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from coterie.director.access.oidc import Oidc, RoleMapping
from coterie.director.access.tokens import create
from coterie.errors import UsageError
from coterie.ledger.rows import tokens
from coterie.ledger.store import Ledger
from coterie.settings import Settings

log = logging.getLogger(__name__)
_BOOTSTRAP = "bootstrap"


def read_issuer(settings: Settings) -> Oidc | None:
    from coterie.director.access.jwks import Jwks

    issuer: str | None = settings["oidc_issuer"]
    if issuer is None:
        return None
    mapping = RoleMapping(settings["oidc_claim"], settings["oidc_roles"], settings["oidc_teams"])
    keys = Jwks(issuer, settings["oidc_ca"])
    return Oidc(issuer, settings["oidc_audience"], settings["oidc_algorithms"], mapping, keys)


def ensure_first_token(ledger: Ledger, file: Path, *, has_other: bool) -> bool:
    """A new ledger has no admin who could create a token. `has_other`: another way to log in is configured.

    True if a token was written to the file.
    """
    with ledger.read() as tx:
        known = tokens.admin_exists(tx)
    if has_other or known:
        return False
    if file.exists():
        log.warning("no admin token is valid, also not the one in %s; make one: coterie tokens bootstrap", file)
        return False
    bootstrap(ledger, file)
    log.info("the first admin token of this new ledger is in %s", file)
    return True


def bootstrap(ledger: Ledger, file: Path) -> str:
    """Make an admin token and write it to `file`, which must be new; the id of the token."""
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise UsageError(
            f"cannot write the token to {file}",
            why=error.strerror or type(error).__name__,
            remedy="name another file, or remove that one",
        ) from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            with ledger.write() as tx:
                made = create(tx, _BOOTSTRAP, "admin", None, _BOOTSTRAP)
            out.write(made.text + "\n")
    except BaseException:
        file.unlink(missing_ok=True)
        raise
    return made.id
