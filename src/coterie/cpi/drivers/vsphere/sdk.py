"""pyVmomi, imported on first use (`sdk.vim`, `sdk.vmodl`, `sdk.SoapStubAdapter`), and the vCenter's faults as errors of
the contract. Faults are told apart by their types; their messages are passed on, never parsed.

No other module of this driver imports pyVmomi, so a program that only needs the driver's capabilities does not load it.
"""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any
from xml.parsers.expat import ExpatError

from coterie.cpi import contract
from coterie.cpi.contract import CpiError
from coterie.errors import CoterieError

_NO_PLACEMENT = (
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
_ERRORS: dict[str, type[CpiError]] = {
    "NoPermission": contract.PrivilegeMissing,
    "NotAuthenticated": contract.AuthenticationFailed,
    "InvalidLogin": contract.AuthenticationFailed,
    "NoDiskSpace": contract.NoDiskSpace,
    "InvalidArgument": contract.InvalidCall,
    "InvalidName": contract.InvalidCall,
    "NotSupported": contract.NotSupported,
    **dict.fromkeys(_NO_PLACEMENT, contract.NoPlacement),
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
_RETRYABLE = ("ConcurrentAccess", "TaskInProgress", "ResourceInUse", "HostCommunication", "Timedout")


def __getattr__(name: str) -> Any:
    try:
        return getattr(import_module("pyVmomi"), name)
    except ImportError as error:
        raise CpiError(
            "pyVmomi is not installed", why=str(error), remedy="install coterie with its extra: coterie[vsphere]"
        ) from error


class Refusal(CoterieError):
    """A fault of the vCenter, not yet an error of the contract. `kind` is the fault's own name, `kinds` also has the
    names of its parents. `names`: of the objects that the fault names, by id."""

    def __init__(self, fault: Any) -> None:
        super().__init__(_message(fault))
        self.fault = fault
        self.names: dict[str, str] = {}
        self.kinds = tuple(_names(type(fault)))
        self.kind = self.kinds[0]

    @property
    def named(self) -> list[Any]:
        """The objects that the fault is about."""
        entity, hosts = getattr(self.fault, "object", None), getattr(self.fault, "host", None) or ()
        found = [entity, *(hosts if isinstance(hosts, (list, tuple)) else [hosts])]
        return [one for one in found if getattr(one, "_moId", None)]

    def is_a(self, *kinds: str) -> bool:
        return any(kind in self.kinds for kind in kinds)


@contextmanager
def tolerate(*kinds: str) -> Iterator[None]:
    """Pass over a refusal of these kinds; any other is raised."""
    try:
        yield
    except Refusal as refusal:
        if not refusal.is_a(*kinds):
            raise


def contract_error(refusal: Refusal) -> CpiError:
    """The error of the contract for a refusal."""
    name = next((kind for kind in refusal.kinds if kind in _ERRORS), refusal.kind)
    remedy = next((_REMEDIES[kind] for kind in refusal.kinds if kind in _REMEDIES), "look at the vCenter's tasks")
    error = _ERRORS.get(name, CpiError)
    what, why = f"vCenter refused: {refusal.kind}", refusal.what
    if error is contract.PrivilegeMissing:
        privilege, entity = getattr(refusal.fault, "privilegeId", None), getattr(refusal.fault, "object", None)
        what = f"the privilege {privilege or '(unnamed)'} is missing on {_entity_name(entity, refusal.names)}"
    if error is contract.NoPlacement:
        what, why = "no host can take the VM", _reasons_per_host(refusal) or refusal.what
        remedy = "ask for less, add hosts, or relax the placement policy"
    return error(what, why=why, remedy=remedy, retryable=refusal.is_a(*_RETRYABLE), details={"fault": refusal.kind})


def call_failure(error: Exception, *, changes: bool) -> CoterieError:
    """What became of a failed call: refused, certainly not taken, or in doubt. `changes`: it may change something."""
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
    if changes:
        return contract.OutcomeUnknown(
            "the answer of vCenter was lost", why=why, remedy="look for what it may have made before repeating it"
        )
    if isinstance(error, (OSError, http.client.HTTPException, ExpatError)):
        return contract.Unavailable("the answer of vCenter was lost", why=why, remedy="repeat")
    return CpiError("the answer of vCenter cannot be understood", why=why, remedy="report it, with the release")


def _message(fault: Any) -> str:
    return str(getattr(fault, "msg", None) or getattr(fault, "localizedMessage", None) or type(fault).__name__)


def _names(kind: type) -> Iterator[str]:
    """The fault's name and those of its parents: NoPermission, SecurityError, …"""
    for one in kind.__mro__:
        name = one.__name__.rpartition(".")[2]
        if name in ("MethodFault", "Exception"):
            return
        yield name


def _entity_name(entity: Any, names: Mapping[str, str]) -> str:
    moid, kind = getattr(entity, "_moId", None), type(entity).__name__.rpartition(".")[2]
    return f"{kind} {names.get(moid, moid)}" if moid else "the object"


def _reasons_per_host(refusal: Refusal) -> str:
    fault = refusal.fault
    hosts, errors = getattr(fault, "host", None) or (), getattr(fault, "error", None) or ()
    if not isinstance(hosts, (list, tuple)) or len(hosts) != len(errors):
        return ""
    named = [refusal.names.get(host._moId, host._moId) for host in hosts]
    return "; ".join(f"{name}: {_message(error)}" for name, error in zip(named, errors, strict=True))
