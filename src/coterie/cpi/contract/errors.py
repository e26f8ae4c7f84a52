"""The only errors a driver may raise. `wire_type` is the name a BOSH Director knows.

An error that leaves a driver in any other class is a conformance failure: the core never parses a vendor's words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from coterie.errors import CoterieError


class CpiError(CoterieError):
    """The cloud refused, and no narrower class fits."""

    code = "cloud_error"
    status = 502
    wire_type = "Bosh::Clouds::CloudError"


class VMCreationFailed(CpiError):
    """No VM came of it. `retryable` may be true only after the half-made VM is proven gone."""

    code, wire_type = "vm_creation_failed", "Bosh::Clouds::VMCreationFailed"


class NoPlacement(VMCreationFailed):
    """The scheduler found no host that fits the size and the group's policy; `why` says which hosts and why not."""

    code = "no_placement"


class VMNotFound(CpiError):
    code, status, wire_type = "vm_not_found", 404, "Bosh::Clouds::VMNotFound"


class DiskNotFound(CpiError):
    code, status, wire_type = "disk_not_found", 404, "Bosh::Clouds::DiskNotFound"


class DiskNotAttached(CpiError):
    code, wire_type = "disk_not_attached", "Bosh::Clouds::DiskNotAttached"


class NoDiskSpace(CpiError):
    code, wire_type = "no_disk_space", "Bosh::Clouds::NoDiskSpace"


class StemcellNotFound(CpiError):
    """No Director knows this name, so on the wire it is a plain refusal."""

    code, status = "stemcell_not_found", 404


class NetworkNotFound(CpiError):
    code, status, wire_type = "network_not_found", 404, "Bosh::Clouds::NetworkNotFound"


class NotSupported(CpiError):
    """This cloud cannot do it; the capabilities say so beforehand."""

    code, status, wire_type = "not_supported", 501, "Bosh::Clouds::NotSupported"


class NotImplementedHere(CpiError):
    """The method is unknown to this CPI (a foreign program may say so; our drivers never do)."""

    code, status, wire_type = "not_implemented", 501, "Bosh::Clouds::NotImplemented"


class InvalidCall(CpiError):
    """Wrong arity, wrong types, or a property that the driver does not know."""

    code, status, wire_type = "invalid_call", 400, "Bosh::Clouds::CpiError"


class GroupInUse(CpiError):
    """The group still has members; nothing was changed."""

    code, status = "group_in_use", 409


class GroupMissing(CpiError):
    """A server group that should be there was deleted behind our back."""

    code, status = "group_missing", 409


class NameTaken(CpiError):
    """An operator's object has this name; using it needs `adopt: true`."""

    code, status = "name_taken", 409


class Changed(CpiError):
    """The object is not the one that was expected; nothing was done."""

    code, status = "changed", 409


class QuotaExceeded(CpiError):
    code, status = "quota_exceeded", 409


class PrivilegeMissing(CpiError):
    code, status = "privilege_missing", 403


class AuthenticationFailed(CpiError):
    code, status = "authentication_failed", 401


class Throttled(CpiError):
    """Too many calls; nothing was done. `details["retry_after"]` holds seconds where the cloud said so."""

    code, status, retryable = "throttled", 429, True


class Unavailable(CpiError):
    """The cloud did not take the call (connection refused, 503): certainly nothing was done."""

    code, status, retryable = "unavailable", 503, True


class OutcomeUnknown(CpiError):
    """The call timed out or its answer was lost: the cloud may or may not have done it, now or later.

    Retryable, unless it is known that something is there and that a repeat would fail again until its cause is
    removed."""

    code, status, retryable = "outcome_unknown", 504, True


def revive(facts: Mapping[str, Any]) -> CpiError:
    """The error behind the JSON facts of an outcome; a code that we do not know becomes a plain refusal."""
    return _BY_CODE.get(str(facts.get("code")), CpiError)(
        str(facts.get("what", "the change failed")),
        why=str(facts.get("why", "")),
        remedy=str(facts.get("remedy", "")) or "repeat",
        retryable=bool(facts.get("retryable")),
        details=facts.get("details"),
    )


def _all(root: type[CpiError]) -> Iterator[type[CpiError]]:
    yield root
    for kind in root.__subclasses__():
        yield from _all(kind)


_BY_CODE = {kind.code: kind for kind in _all(CpiError)}
