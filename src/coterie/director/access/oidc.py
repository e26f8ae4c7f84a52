"""Callers with a JSON web token of one trusted issuer: signature, issuer, audience and times are checked, and its
groups are mapped to a role and teams. Which algorithms count is configured, never read from the token."""

from __future__ import annotations

import base64
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from coterie.cpi.wire.shapes import Mismatch
from coterie.cpi.wire.strict import loads
from coterie.director.access.caller import ROLES, Caller
from coterie.errors import Forbidden

log = logging.getLogger(__name__)
_LEEWAY_S = 30
_LONGEST = 16 * 1024
_LATEST = 2**53


@dataclass(frozen=True, slots=True)
class RoleMapping:
    """The role and teams of the groups in a token's claim. `teams` None: no caller is limited to teams."""

    claim: str
    roles: Mapping[str, str]
    teams: Mapping[str, str] | None = None

    def role(self, groups: Iterable[str]) -> str | None:
        given = [self.roles[group] for group in groups if group in self.roles]
        return max(given, key=ROLES.index, default=None)

    def teams_of(self, groups: Iterable[str]) -> frozenset[str] | None:
        if self.teams is None:
            return None
        return frozenset(self.teams[group] for group in groups if group in self.teams)


class Oidc:
    """`keys(kid)`: the issuer's public keys, fetched anew if none has this id."""

    def __init__(
        self, issuer: str, audience: str, algorithms: Iterable[str], mapping: RoleMapping, keys: Callable[[str], KeySet]
    ) -> None:
        self._issuer = issuer
        self._audience = audience
        self._algorithms = list(algorithms)
        self._mapping = mapping
        self._keys = keys

    def caller_of(self, text: str, audience: str | None = None) -> Caller | None:
        """None if the token is not valid; Forbidden if it is, but its groups have no role here. `audience`: of an
        identity token that the console asked for; else the configured one."""
        claims = self._verify(text, audience or self._audience)
        if claims is None:
            return None
        groups = _groups(claims.get(self._mapping.claim))
        # The issuer guarantees the subject; other names may be chosen by the user.
        name = f"oidc:{claims['sub']}"[:255]
        role = self._mapping.role(groups)
        if role is None:
            raise Forbidden(
                f"{name} has no role here",
                why=f"none of the groups in claim {self._mapping.claim!r} is mapped to one",
                remedy="have an admin map a group of yours: setting oidc_roles of the Director",
            )
        expires_at = float(min(claims["exp"], _LATEST)) + _LEEWAY_S
        return Caller(name, role, "oidc", self._mapping.teams_of(groups), _readable(claims), expires_at)

    def _verify(self, text: str, audience: str) -> dict[str, Any] | None:
        if len(text) > _LONGEST:
            return None
        try:
            token = jwt.decode(text, self._keys(_key_id(text)), algorithms=self._algorithms)
            rules = jwt.JWTClaimsRegistry(
                leeway=_LEEWAY_S,
                iss={"essential": True, "value": self._issuer},
                aud={"essential": True, "value": audience},
                exp={"essential": True},
                sub={"essential": True},
            )
            rules.validate(token.claims)
            if not str(token.claims["sub"]).isprintable() or not math.isfinite(token.claims["exp"]):
                raise ValueError("sub or exp")
            return dict(token.claims)
        except (JoseError, ValueError, TypeError, KeyError, OverflowError, RecursionError, Mismatch) as error:
            log.info("refused a JSON web token: %s", type(error).__name__)
            return None


def _readable(claims: Mapping[str, Any]) -> str:
    given = str(claims.get("preferred_username") or claims.get("email") or "")[:255]
    return given if given.isprintable() else ""


def _key_id(text: str) -> str:
    """The key id in the token's header; only used to look for that key."""
    head = text.partition(".")[0]
    found = loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    kid = found.get("kid") if isinstance(found, dict) else None
    return kid if isinstance(kid, str) else ""


def _groups(claim: Any) -> list[str]:
    if isinstance(claim, str):
        return claim.split()
    return [one for one in claim if isinstance(one, str)] if isinstance(claim, list) else []
