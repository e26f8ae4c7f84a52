"""The caller of the current request: name, role, teams."""

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
    """`teams` None: not limited. `how`: socket, token or oidc. `detail`: which token, or which issuer's subject.
    `expires_at`: when an issuer's token ends, in seconds since 1970; the ledger knows the end of an API token."""

    name: str
    role: str
    how: str
    teams: frozenset[str] | None = None
    detail: str = ""
    expires_at: float | None = None

    def may(self, role: str) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)

    @property
    def identity(self) -> str:
        """What no other caller has: names of tokens are chosen freely, and two teams may choose the same one."""
        return f"{self.name}#{self.detail}" if self.how == "token" and self.detail else self.name

    @property
    def visibility(self) -> Visibility | None:
        return None if self.teams is None or self.role == "admin" else Visibility(self.teams, self.identity)


_CALLER: ContextVar[Caller | None] = ContextVar("caller", default=None)


@contextmanager
def act_as(caller: Caller) -> Iterator[None]:
    before = _CALLER.set(caller)
    try:
        with limit_to(caller.visibility):
            yield
    finally:
        _CALLER.reset(before)


def current() -> Caller:
    """The caller of this request; outside a request, the Director itself."""
    return _CALLER.get() or Caller("director", "admin", "socket")


def socket_owner() -> Caller:
    """The caller on the unix socket: its owner, as the file's permissions let in no other user."""
    try:
        name = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        name = str(os.geteuid())
    return Caller(f"local:{name}", "admin", "socket")


def require(role: str, what: str) -> None:
    caller = current()
    if not caller.may(role):
        raise Forbidden(
            f"{caller.name} may not {what}",
            why=f"that takes the role {role}, and this is {caller.role}",
            remedy=f"ask an admin, or for a token: coterie tokens create NAME --role {role}",
        )
