"""The caller of the present request, and the questions that wishes ask about it."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from coterie.errors import Forbidden
from coterie.ledger.visibility import Visibility, limit_to

ROLES = ("viewer", "operator", "admin")  # each may do what those before it may


@dataclass(frozen=True, slots=True)
class Caller:
    """`teams` None: not limited. `how`: socket, token or oidc. `detail`: which token, or which issuer's subject."""

    name: str
    role: str
    how: str
    teams: frozenset[str] | None = None
    detail: str = ""

    def may(self, role: str) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)

    @property
    def visibility(self) -> Visibility | None:
        return None if self.teams is None or self.role == "admin" else Visibility(self.teams, self.name)


_CALLER: ContextVar[Caller | None] = ContextVar("caller", default=None)


@contextmanager
def acting(caller: Caller) -> Iterator[None]:
    before = _CALLER.set(caller)
    try:
        with limit_to(caller.visibility):
            yield
    finally:
        _CALLER.reset(before)


def present() -> Caller:
    """Who asks; work that no request asked for is the Director's own."""
    return _CALLER.get() or Caller("director", "admin", "socket")


def of_socket() -> Caller:
    """Whoever reaches the unix socket is its owner: the file's permissions have decided that."""
    try:
        name = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        name = str(os.geteuid())
    return Caller(f"local:{name}", "admin", "socket")


def require(role: str, what: str) -> None:
    caller = present()
    if not caller.may(role):
        raise Forbidden(
            f"{caller.name} may not {what}",
            why=f"that takes the role {role}, and this is {caller.role}",
            remedy=f"ask an admin, or for a token: coterie tokens create NAME --role {role}",
        )
