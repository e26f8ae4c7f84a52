"""The refusals of the simulated cloud. Only a driver sees them, and translates them."""

from __future__ import annotations

from typing import Any

from coterie.errors import CoterieError


class SandboxError(CoterieError):
    """The root of all refusals of the datacenter."""

    code = "sandbox"


class NoSuch(SandboxError):
    """No object of this kind has this id in this account."""

    code, status, exit_code = "no_such", 404, 5

    def __init__(self, kind: str, wanted: str, *, remedy: str = "list what exists and use one of those ids") -> None:
        super().__init__(f"{kind} {wanted!r} is not in the datacenter", remedy=remedy)
        self.kind = kind


class BadRequest(SandboxError):
    code, status, exit_code = "bad_request", 400, 2


class OverQuota(SandboxError):
    code, status = "over_quota", 409


class NoHost(SandboxError):
    """No host fits; `why` counts the hosts of each zone by the reason that ruled them out."""

    code, status = "no_host", 409


class AddressTaken(SandboxError):
    code, status = "address_taken", 409


class InUse(SandboxError):
    code, status = "in_use", 409


class RevisionDiffers(SandboxError):
    """The object changed since the caller read it; nothing was done."""

    code, status = "revision_differs", 412


class Failed(SandboxError):
    """An internal error of the cloud: nothing was done, and a repeat may succeed."""

    code, retryable = "failed", True


class Denied(SandboxError):
    code, status = "denied", 403


class Unauthenticated(SandboxError):
    code, status = "unauthenticated", 401


class Throttled(SandboxError):
    code, status, retryable = "throttled", 429, True


class Unavailable(SandboxError):
    """The call was not taken: certainly nothing was done."""

    code, status, retryable = "unavailable", 503, True


class AnswerLost(SandboxError):
    """The answer never arrived. `changing`: whether the call could have changed anything."""

    code, status, retryable = "answer_lost", 504, True

    def __init__(self, what: str, *, changing: bool, **more: Any) -> None:
        super().__init__(what, **more)
        self.changing = changing


class StateUnreadable(SandboxError):
    """The state file is damaged, of a newer release, or no sandbox at all."""

    code = "state_unreadable"


# what an injected fault of mode `error` may look like
INJECTABLE: dict[str, type[SandboxError]] = {
    kind.code: kind
    for kind in (Failed, Unavailable, OverQuota, NoHost, Denied, Unauthenticated, BadRequest, AddressTaken)
}
