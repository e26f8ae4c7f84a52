"""Creating a VM: the arguments, read once; the order of the work; and the undo of what a failed creation began.

A driver writes one class with the steps of `VmCreation`, one object per call, and runs `create_vm(creation)`:

    find_existing   a VM under this mark that an earlier call began or finished
    resolve         look up all that the arguments name, and refuse all that can be refused; creates nothing
    prepare         create what the VM needs before it boots: key pair, ports, addresses
    boot            create the VM itself and wait until the cloud has placed it
    finish          what comes after the boot: tags, public addresses. Repeatable, since it also completes a VM that an
                    interrupted call left

`prepare`, `boot` and `finish` add to the `Undo` how to take back what they create. After a failure all of it is taken
back, newest first. A step that leaves something in doubt calls `undo.clear()` before it raises: then everything stays.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from coterie.cpi.contract import (
    CpiError,
    Form,
    InvalidCall,
    Json,
    Mark,
    Networks,
    NotSupported,
    OutcomeUnknown,
    VMCreationFailed,
)
from coterie.slotted import dataclass

Spec = TypeVar("Spec")  # a driver's reading of the VM's cloud_properties
Resolved = TypeVar("Resolved")
Vm = TypeVar("Vm")
N = TypeVar("N")  # what a cloud knows a network by
_TYPES = ("manual", "dynamic", "vip")


@dataclass(frozen=True, slots=True)
class NetworkRequest:
    """One entry of the networks argument. `ip` None: the cloud chooses. `properties`: its cloud_properties, read."""

    label: str
    type: str
    ip: str | None
    properties: Mapping[str, Any]
    nic_group: str | None = None


@dataclass(frozen=True, slots=True)
class CreateVmArgs(Generic[Spec]):
    """The arguments of create_vm, read. `requests`: the networks, that with the default gateway first."""

    agent_id: str
    stemcell_cid: str
    spec: Spec
    networks: Networks
    requests: Sequence[NetworkRequest]
    disk_cids: Sequence[str]
    env: Json
    mark: Mark

    @property
    def nics(self) -> list[NetworkRequest]:
        return [one for one in self.requests if one.type != "vip"]

    @property
    def vips(self) -> list[NetworkRequest]:
        return [one for one in self.requests if one.type == "vip"]


@dataclass(frozen=True, slots=True)
class CreateVmCall:
    """The arguments of create_vm, as they came."""

    agent_id: str
    stemcell_cid: str
    cloud_properties: Json
    networks: Networks
    disk_cids: Sequence[str]
    env: Json
    mark: Mark

    def read(self, read_spec: Callable[[Json], Spec], network: Form) -> CreateVmArgs[Spec]:
        """`network`: the form of a network's cloud_properties."""
        return CreateVmArgs(
            self.agent_id,
            self.stemcell_cid,
            read_spec(self.cloud_properties),
            self.networks,
            read_networks(self.networks, network),
            self.disk_cids,
            self.env,
            self.mark,
        )


class VmCreation(Protocol[Resolved, Vm]):
    """The steps of one create_vm, in their order. They raise `CpiError`s only; a driver's refusal is one too."""

    def find_existing(self) -> Vm | None: ...

    def resolve(self) -> Resolved: ...

    def prepare(self, resolved: Resolved, undo: Undo) -> None: ...

    def boot(self, resolved: Resolved, undo: Undo) -> Vm: ...

    def finish(self, vm: Vm, undo: Undo) -> Vm: ...


def create_vm(creation: VmCreation[Resolved, Vm]) -> Vm:
    """The VM of the creation's mark, whole; or an error, after which nothing is left unless the outcome is unknown."""
    undo = Undo()
    vm = creation.find_existing()
    try:
        if vm is None:
            resolved = creation.resolve()
            creation.prepare(resolved, undo)
            vm = creation.boot(resolved, undo)
        return creation.finish(vm, undo)
    except CpiError as error:
        if vm is not None and undo.is_empty:
            raise _still_there(error) from error.__cause__  # an outage of the ledger stays to be seen
        raise undo.run(error) from error.__cause__


class Undo:
    """How to take back what a creation began."""

    def __init__(self) -> None:
        self._steps: list[Callable[[], object]] = []

    @property
    def is_empty(self) -> bool:
        return not self._steps

    def add(self, step: Callable[[], object]) -> None:
        self._steps.append(step)

    def clear(self) -> None:
        """Everything stays, whatever happens next."""
        self._steps.clear()

    def run(self, error: CpiError) -> CpiError:
        """Take everything back, newest first; the error to raise: an unknown outcome is a definite failure then."""
        if not self._steps:
            return error
        try:
            while self._steps:
                self._steps.pop()()
        except CpiError as trouble:
            return OutcomeUnknown(
                "a VM failed and could not be removed",
                why=f"{error}; then {trouble}",
                remedy="look for it by its mark and delete it",
            )
        if isinstance(error, OutcomeUnknown):
            return VMCreationFailed(error.what, why=error.why, remedy=error.remedy, retryable=True)
        return error


def _still_there(error: CpiError) -> OutcomeUnknown:
    """For a VM that this call found and may not take back. Not retryable if the error is permanent."""
    if isinstance(error, OutcomeUnknown):
        return error
    return OutcomeUnknown(
        "the VM is there, but could not be finished",
        why=str(error),
        remedy=error.remedy or "look for it by its mark",
        retryable=error.retryable,
    )


def read_networks(networks: Networks, form: Form) -> list[NetworkRequest]:
    """In the order of the argument, but the network with the default gateway first. `form`: for the cloud_properties
    of a network."""
    requests = [_read_network(label, spec, form) for label, spec in networks.items()]
    routed = {label for label, spec in networks.items() if "gateway" in (spec.get("default") or ())}
    return sorted(requests, key=lambda request: request.label not in routed)


def chosen_mac(vm_name: str, number: int) -> str:
    """The MAC of a VM's NIC where the caller may choose it: locally administered, and the same in every repeat."""
    digest = hashlib.sha256(f"{vm_name}/{number}".encode()).digest()
    return ":".join(f"{byte:02x}" for byte in (0x0A, *digest[:5]))


def answer_networks(networks: Networks, given: Mapping[str, tuple[str | None, str | None]]) -> Json:
    """The networks argument as create_vm answers it; `given`: by label, the address and the MAC that the cloud gave."""
    answer: Json = {label: dict(spec) for label, spec in networks.items()}
    for label, (ip, mac) in given.items():
        answer[label] |= {"ip": ip, "mac": mac}
    return answer


def _read_network(label: str, spec: Mapping[str, Any], form: Form) -> NetworkRequest:
    type_ = str(spec.get("type", "manual"))
    if type_ not in _TYPES:
        raise _mistake(label, "type", f"is {type_!r}", f"use one of: {', '.join(_TYPES)}")
    ip = None if type_ == "dynamic" else _address(label, type_, spec.get("ip"))
    if ip:
        refuse_prefix(label, spec)
    return NetworkRequest(
        label=label,
        type=type_,
        ip=ip,
        properties=form.read(spec.get("cloud_properties") or {}, f"networks.{label}.cloud_properties"),
        nic_group=str(spec["nic_group"]) if spec.get("nic_group") else None,
    )


def group_by_nic(
    requests: Sequence[NetworkRequest], network_of: Callable[[NetworkRequest], N], noun: str
) -> list[tuple[N, list[NetworkRequest]]]:
    """The NICs of a VM, each with its network and the requests that share it by their `nic_group`. In the order of the
    requests, which begin with the default gateway's. `noun`: the cloud's word for a network."""
    found: dict[str, tuple[N, list[NetworkRequest]]] = {}
    for request in requests:
        network = network_of(request)
        first, sharing = found.setdefault(request.nic_group or f"\0{request.label}", (network, []))
        if first != network:
            raise InvalidCall(
                f"networks.{request.label}.nic_group is shared with another {noun}", remedy=f"use one {noun}"
            )
        sharing.append(request)
    if not found:
        raise InvalidCall("networks names no manual or dynamic network", remedy="give the VM at least one")
    return list(found.values())


def refuse_prefix(label: str, spec: Mapping[str, Any]) -> None:
    """BOSH Directors write the prefix of every address; a shorter one than that of a single address is a delegation.
    Ours leaves that of the subnet out."""
    whole = "128" if ":" in str(spec.get("ip")) else "32"
    if str(spec.get("prefix") or whole) != whole:
        raise NotSupported(
            f"networks.{label}.prefix is {spec['prefix']}",
            why="that delegates a range of addresses to the VM, and this driver gives a NIC single addresses only",
            remedy="leave `prefix` out of the subnet, and give the instance group one address per network",
        )


def _address(label: str, type_: str, ip: Any) -> str:
    if not ip:
        raise _mistake(label, "ip", "is missing", f"a {type_} network needs an address")
    try:
        return str(ipaddress.ip_address(str(ip)))
    except ValueError:
        raise _mistake(label, "ip", f"is {ip!r}", "write it like 10.1.0.7") from None


def _mistake(label: str, field: str, what: str, remedy: str) -> InvalidCall:
    return InvalidCall(f"networks.{label}.{field} {what}", remedy=remedy)
