"""vCenter's faults as errors of the contract, by their types; its words are only passed on, never parsed."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Iterator
from typing import Any
from xml.parsers.expat import ExpatError

from coterie.cpi import contract
from coterie.cpi.contract import CpiError
from coterie.cpi.kit.calls import contract_errors
from coterie.errors import CoterieError

_NO_PLACE = (
    "NoCompatibleHost",
    "InsufficientResourcesFault",
    "InsufficientHostCapacityFault",
    "RuleViolation",
    "VmHostAffinityRuleViolation",
    "NotEnoughCpus",
    "NoActiveHostInCluster",
    "NumVirtualCpusExceedsLimit",
    "MemorySizeNotSupported",
)
_CLASSES: dict[str, type[CpiError]] = {
    "NoPermission": contract.PrivilegeMissing,
    "NotAuthenticated": contract.AuthenticationFailed,
    "InvalidLogin": contract.AuthenticationFailed,
    "NoDiskSpace": contract.NoDiskSpace,
    "InvalidArgument": contract.InvalidCall,
    "InvalidName": contract.InvalidCall,
    "NotSupported": contract.NotSupported,
    **dict.fromkeys(_NO_PLACE, contract.NoPlacement),
}
_REMEDIES = {
    "NoPermission": "grant it to the user of this cloud: `coterie clouds grant` makes and gives the role",
    "InvalidLogin": "check properties.user and properties.password",
    "NotAuthenticated": "check properties.user and properties.password",
    "NoDiskSpace": "free space on the datastore, or add one to properties.datastores",
    "InvalidArgument": "check what was asked for against the vCenter's inventory",
    "ConcurrentAccess": "repeat; another client changed the same object",
    "TaskInProgress": "repeat when the other task is done",
}
_PASSING = ("ConcurrentAccess", "TaskInProgress", "ResourceInUse", "HostCommunication", "Timedout")


class Refusal(CoterieError):
    """A fault of the vCenter, before it is put into the contract's words. `kind` is the fault's own name."""

    def __init__(self, fault: Any) -> None:
        super().__init__(_words(fault))
        self.fault = fault
        self.kinds = tuple(_names(type(fault)))
        self.kind = self.kinds[0]

    def is_a(self, *kinds: str) -> bool:
        return any(kind in self.kinds for kind in kinds)


def told(refusal: Refusal) -> CpiError:
    """The same refusal in the contract's words."""
    name = next((kind for kind in refusal.kinds if kind in _CLASSES), refusal.kind)
    remedy = next((_REMEDIES[kind] for kind in refusal.kinds if kind in _REMEDIES), "look at the vCenter's tasks")
    found = _CLASSES.get(name, CpiError)
    what, why = f"vCenter refused: {refusal.kind}", refusal.what
    if found is contract.PrivilegeMissing:
        privilege, where = getattr(refusal.fault, "privilegeId", None), getattr(refusal.fault, "object", None)
        what = f"the privilege {privilege or '(unnamed)'} is missing on {_entity(where)}"
    if found is contract.NoPlacement:
        what, why = "no host can take the VM", _hosts(refusal.fault) or refusal.what
        remedy = "ask for less, add hosts, or relax the placement policy"
    return found(what, why=why, remedy=remedy, retryable=refusal.is_a(*_PASSING), details={"fault": refusal.kind})


def failure(error: Exception, *, changes: bool) -> CoterieError:
    """What became of a call: refused, certainly not taken, or in doubt."""
    if type(error).__module__.startswith(("pyVmomi", "vim", "vmodl")) or hasattr(error, "faultCause"):
        return Refusal(error)
    if isinstance(error, http.client.HTTPException) and str(error).startswith("429"):
        return contract.Throttled("vCenter takes no more calls now", why="status 429", remedy="repeat later")
    if isinstance(error, http.client.HTTPException) and str(error).startswith(("502", "503")):
        return contract.Unavailable("vCenter does not take calls now", why=str(error), remedy="repeat later")
    if isinstance(error, ssl.SSLCertVerificationError):
        return contract.AuthenticationFailed(
            "the certificate of vCenter is not trusted",
            why=error.verify_message or str(error),
            remedy="give the authority that signed it as properties.ca_cert, and the name it was made for in "
            "properties.url",
            details={"check": "certificate"},
        )
    if isinstance(error, (ConnectionRefusedError, socket.gaierror)):
        return contract.Unavailable(
            "vCenter cannot be reached", why=str(error), remedy="check properties.url and the network"
        )
    why = str(error) or type(error).__name__
    if not changes and not isinstance(error, (OSError, http.client.HTTPException, ExpatError)):
        return CpiError("the answer of vCenter cannot be understood", why=why, remedy="report it, with the release")
    if not changes:
        return contract.Unavailable("the answer of vCenter was lost", why=why, remedy="repeat")
    return contract.OutcomeUnknown(
        "the answer of vCenter was lost", why=why, remedy="look for what it may have made before repeating it"
    )


def _words(fault: Any) -> str:
    return str(getattr(fault, "msg", None) or getattr(fault, "localizedMessage", None) or type(fault).__name__)


def _names(kind: type) -> Iterator[str]:
    """The fault's name and those of its parents: NoPermission, SecurityError, …"""
    for one in kind.__mro__:
        name = one.__name__.rpartition(".")[2]
        if name in ("MethodFault", "Exception"):
            return
        yield name


def _entity(where: Any) -> str:
    moid, kind = getattr(where, "_moId", None), type(where).__name__.rpartition(".")[2]
    return f"{kind} {moid}" if moid else "the object"


def _hosts(fault: Any) -> str:
    hosts, errors = getattr(fault, "host", None) or (), getattr(fault, "error", None) or ()
    if not isinstance(hosts, (list, tuple)) or len(hosts) != len(errors):
        return ""
    return "; ".join(f"{host._moId}: {_words(error)}" for host, error in zip(hosts, errors, strict=True))


cloud_call = contract_errors(Refusal, told)
