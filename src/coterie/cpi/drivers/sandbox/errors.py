"""The datacenter's refusals as errors of the contract."""

from __future__ import annotations

from coterie.cpi import contract
from coterie.cpi.contract import CpiError
from coterie.sandbox import errors as cloud
from coterie.sandbox.errors import SandboxError

_CLASSES: dict[type[SandboxError], type[CpiError]] = {
    cloud.BadRequest: contract.InvalidCall,
    cloud.OverQuota: contract.QuotaExceeded,
    cloud.NoHost: contract.NoPlacement,
    cloud.AddressTaken: contract.VMCreationFailed,
    cloud.InUse: CpiError,
    cloud.RevisionDiffers: contract.Changed,
    cloud.Failed: CpiError,
    cloud.Denied: contract.PrivilegeMissing,
    cloud.Unauthenticated: contract.AuthenticationFailed,
    cloud.Throttled: contract.Throttled,
    cloud.Unavailable: contract.Unavailable,
    cloud.StateUnreadable: CpiError,
}
GROUP_REMEDY = "deploy again so that the group is made anew, or take the VM out of the group"
_MISSING: dict[str, type[CpiError]] = {
    "vm": contract.VMNotFound,
    "disk": contract.DiskNotFound,
    "snapshot": contract.DiskNotFound,
    "image": contract.StemcellNotFound,
    "network": contract.NetworkNotFound,
    "server_group": contract.GroupMissing,
}


def translate(error: SandboxError) -> CpiError:
    """The same refusal in the contract's words."""
    kind = _class_of(error)
    remedy = GROUP_REMEDY if kind is contract.GroupMissing else error.remedy
    return kind(error.what, why=error.why, remedy=remedy, retryable=error.retryable, details=error.details)


def _class_of(error: SandboxError) -> type[CpiError]:
    if isinstance(error, cloud.NoSuch):
        return _MISSING.get(error.kind, CpiError)
    if isinstance(error, cloud.AnswerLost):
        # a question whose answer was lost has changed nothing, so it is merely unanswered
        return contract.OutcomeUnknown if error.changing else contract.Unavailable
    return _CLASSES.get(type(error), CpiError)
