"""OpenStack's refusals as errors of the contract, by status and type. Words are read only where Nova has nothing else:
quotas, and why the scheduler said no."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from coterie.cpi import contract
from coterie.cpi.contract import CpiError
from coterie.cpi.kit.calls import contract_errors

BAD, DENIED, MISSING, CONFLICT, TOO_LARGE, THROTTLED = 400, 403, 404, 409, 413, 429
BROKEN, BAD_GATEWAY, UNAVAILABLE, GATEWAY_TIMEOUT = 500, 502, 503, 504
_CLASSES: dict[int, type[CpiError]] = {
    BAD: contract.InvalidCall,
    401: contract.AuthenticationFailed,
    DENIED: contract.PrivilegeMissing,
    THROTTLED: contract.Throttled,
    UNAVAILABLE: contract.Unavailable,
}
_REMEDIES = {
    BAD: "correct the value that the cloud names",
    401: "check the credentials in the cloud's properties, and that they have not expired",
    DENIED: "use a user with the right role, or have an administrator grant it",
    MISSING: "list what exists, and use one of those",
    CONFLICT: "repeat; if it stays so, look at what is in the way",
    THROTTLED: "wait, then repeat",
    UNAVAILABLE: "wait, then repeat",
}
_TEXT_LIMIT = 500
_NO_HOST = ("no valid host", "exceeded max")


class Refusal(Exception):
    """What the cloud answered; inside the driver only, and always translated before it leaves."""

    def __init__(self, what: str, status: int, kind: str, text: str, retry_after: float | None = None) -> None:
        super().__init__(f"{what}: {status} {text}")
        self.what, self.status, self.kind, self.text, self.retry_after = what, status, kind, text, retry_after

    @property
    def quota(self) -> bool:
        return self.kind == "OverQuota" or (
            self.status in (DENIED, TOO_LARGE, CONFLICT) and "quota" in f"{self.kind} {self.text}".lower()
        )


def refusal(what: str, status: int, raw: bytes, retry_after: str | None) -> Refusal:
    kind, text = _inside(raw)
    wait = float(retry_after) if retry_after and retry_after.isdecimal() else None
    return Refusal(what, status, kind, text or f"HTTP {status}", wait)


def translate(error: Refusal) -> CpiError:
    what = f"OpenStack refused to {error.what} ({error.status})"
    if error.quota:
        remedy = "delete some, or have an administrator raise the quota"
        return contract.QuotaExceeded(what, why=error.text, remedy=remedy)
    found = _CLASSES.get(error.status, CpiError)
    if error.status == TOO_LARGE:
        found = contract.Throttled if error.retry_after else contract.InvalidCall
    return found(
        what,
        why=error.text,
        remedy=_REMEDIES.get(error.status, "repeat; if it happens again, look at the service's log"),
        retryable=True if error.status in (CONFLICT, *range(BROKEN, 600)) else None,
        details={"retry_after": error.retry_after} if error.retry_after else None,
    )


def no_host(text: str) -> bool:
    """Whether a server's fault says that the scheduler, and nothing else, failed."""
    return any(words in text.lower() for words in _NO_HOST)


def collided(text: str) -> bool:
    """Whether it failed on a host that others took meanwhile: then another try may do better."""
    return _NO_HOST[1] in text.lower()


def _inside(raw: bytes) -> tuple[str, str]:
    """(type, message) of an answer, in each service's own way."""
    try:
        document = json.loads(raw)
    except ValueError:
        return "", raw[:_TEXT_LIMIT].decode("utf-8", "replace") if not raw.lstrip().startswith(b"<") else ""
    if not isinstance(document, Mapping):
        return "", ""
    name, inside = next(iter(document.items()), ("", ""))
    if not isinstance(inside, Mapping):
        return "", str(document.get("message") or inside)[:_TEXT_LIMIT]
    return str(inside.get("type") or name), _message(inside)[:_TEXT_LIMIT]


def _message(inside: Mapping[str, Any]) -> str:
    return str(inside.get("message") or inside.get("detail") or "")


cloud_call = contract_errors(Refusal, translate)
