"""Typed errors of the whole program. Each says what failed, why, and what to do about it.

Nothing here knows HTTP or a terminal; `status` and `exit_code` are only the numbers they will use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class CoterieError(Exception):
    """The root: something failed for a reason that we can name."""

    code = "failed"
    status = 500
    exit_code = 1
    retryable = False

    def __init__(
        self,
        what: str,
        *,
        why: str = "",
        remedy: str = "",
        retryable: bool | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.remedy = remedy
        self.details = dict(details or {})
        if retryable is not None:
            self.retryable = retryable

    def __str__(self) -> str:
        return f"{self.what}: {self.why}" if self.why else self.what

    def facts(self) -> dict[str, Any]:
        """The JSON form that events, tasks and the API carry."""
        found: dict[str, Any] = {
            "code": self.code,
            "what": self.what,
            "why": self.why,
            "remedy": self.remedy,
            "retryable": self.retryable,
        }
        if self.details:
            found["details"] = self.details
        return found


class UsageError(CoterieError):
    """The caller's words make no sense here."""

    code, status, exit_code = "usage", 400, 2


class InvalidDocument(CoterieError):
    """A manifest or cloud config with mistakes; `details["mistakes"]` lists all of them."""

    code, status, exit_code = "invalid_document", 422, 2


class Refused(CoterieError):
    """The request is well-formed, but a policy, the user's permissions or a capability forbids it."""

    code, status, exit_code = "refused", 409, 4


class KeyMissing(Refused):
    """This process cannot open what is sealed; a copied key file or another conductor can mend that at any time."""

    retryable = True


class NotFound(CoterieError):
    code, status, exit_code = "not_found", 404, 5


class Unauthenticated(CoterieError):
    """The caller is not known."""

    code, status, exit_code = "unauthenticated", 401, 8


class Forbidden(CoterieError):
    """The caller is known, and lacks the permission."""

    code, status, exit_code = "forbidden", 403, 4


class TooManyAttempts(CoterieError):
    """Too many failed log-ins from one address."""

    code, status, exit_code, retryable = "too_many_attempts", 429, 8, True


class Conflict(CoterieError):
    """Another request changed it, or is changing it now."""

    code, status, exit_code = "conflict", 409, 6


class StalePlan(Conflict):
    """The plan was made from a state that is no more."""

    code, status = "stale_plan", 412


class Unreachable(CoterieError):
    code, status, exit_code, retryable = "unreachable", 503, 7, True


class LeaseLost(CoterieError):
    """Another process owns this work now; whatever we still hold of it must be dropped."""

    code = "lease_lost"


class DeadlineExceeded(CoterieError):
    code = "deadline_exceeded"


class LedgerUnusable(CoterieError):
    """The database cannot be opened, or what is in it cannot be read."""

    code = "ledger_unusable"


class LedgerTooNew(CoterieError):
    """The database was written by a newer release."""

    code, status = "ledger_too_new", 500
