"""The order of a create_vm, its undo, and how its networks are read."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from coterie.cpi.contract import (
    CpiError,
    Form,
    InvalidCall,
    NotSupported,
    OutcomeUnknown,
    Unavailable,
    VMCreationFailed,
)
from coterie.cpi.kit.create_vm import Undo, create_vm, read_networks
from coterie.cpi.kit.readers import text

FORM = Form({"name": text})


@dataclass
class Creation:
    """Writes down its steps; `fails` says which one ends how."""

    existing: str | None = None
    fails: dict[str, CpiError] = field(default_factory=dict)
    in_doubt: bool = False
    done: list[str] = field(default_factory=list)

    def find_existing(self) -> str | None:
        return self.existing

    def resolve(self) -> int:
        self._do("resolve")
        return 1

    def prepare(self, resolved: int, undo: Undo) -> None:
        self._do("prepare")
        undo.add(lambda: self._do("delete key"))

    def boot(self, resolved: int, undo: Undo) -> str:
        if self.in_doubt:
            undo.clear()
        self._do("boot")
        undo.add(lambda: self._do("delete vm"))
        return "vm"

    def finish(self, vm: str, undo: Undo) -> str:
        self._do("finish")
        return vm

    def _do(self, step: str) -> None:
        if step in self.fails:
            raise self.fails[step]
        self.done.append(step)


def test_the_steps_come_in_their_order() -> None:
    creation = Creation()
    assert create_vm(creation) == "vm"
    assert creation.done == ["resolve", "prepare", "boot", "finish"]


def test_what_exists_is_only_finished_and_never_undone() -> None:
    creation = Creation(existing="old", fails={"finish": CpiError("no")})
    with pytest.raises(OutcomeUnknown, match=r"the VM is there.*no") as caught:
        create_vm(creation)
    assert not caught.value.retryable
    creation.fails["finish"] = Unavailable("not now")
    with pytest.raises(OutcomeUnknown, match=r"the VM is there.*not now") as caught:
        create_vm(creation)
    assert caught.value.retryable
    creation.fails.clear()
    assert create_vm(creation) == "old"
    assert creation.done == ["finish"]


def test_after_a_failure_all_is_taken_back_newest_first() -> None:
    creation = Creation(fails={"finish": CpiError("no address")})
    with pytest.raises(CpiError, match="no address"):
        create_vm(creation)
    assert creation.done[-2:] == ["delete vm", "delete key"]


def test_what_was_in_doubt_is_certain_once_it_is_gone() -> None:
    with pytest.raises(VMCreationFailed, match="slow") as caught:
        create_vm(Creation(fails={"finish": OutcomeUnknown("slow")}))
    assert caught.value.retryable


def test_what_cannot_be_taken_back_is_in_doubt() -> None:
    fails = {"finish": CpiError("no address"), "delete vm": CpiError("locked")}
    with pytest.raises(OutcomeUnknown, match="no address; then locked"):
        create_vm(Creation(fails=fails))


def test_a_step_may_leave_everything_as_it_is() -> None:
    creation = Creation(fails={"boot": OutcomeUnknown("lost")}, in_doubt=True)
    with pytest.raises(OutcomeUnknown, match="lost"):
        create_vm(creation)
    assert "delete key" not in creation.done


def test_the_network_with_the_default_gateway_is_first() -> None:
    a = {"ip": "10.0.0.1", "cloud_properties": {"name": "x"}}
    b = {"type": "dynamic", "ip": "ignored", "default": ["dns", "gateway"], "nic_group": 1}
    first, second = read_networks({"a": a, "b": b}, FORM)
    assert (first.label, first.type, first.ip, first.nic_group) == ("b", "dynamic", None, "1")
    assert (second.label, second.type, second.ip, second.properties) == ("a", "manual", "10.0.0.1", {"name": "x"})


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"type": "odd"}, r"networks\.a\.type is 'odd'"),
        ({"type": "vip"}, r"networks\.a\.ip is missing"),
        ({"ip": "10.0.0"}, r"networks\.a\.ip is '10\.0\.0'"),
        ({"ip": "10.0.0.1", "cloud_properties": {"odd": 1}}, r"networks\.a\.cloud_properties\.odd"),
    ],
)
def test_a_mistake_is_named_by_its_field(spec: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidCall, match=said):
        read_networks({"a": spec}, FORM)


@pytest.mark.parametrize(("ip", "prefix"), [("10.0.0.5", "28"), ("10.0.0.5", "16"), ("fd00::5", "80")])
def test_a_range_of_addresses_for_one_vm_is_refused(ip: str, prefix: str) -> None:
    """Also that of the whole subnet."""
    spec = {"type": "manual", "ip": ip, "netmask": "255.255.0.0", "prefix": prefix}
    with pytest.raises(NotSupported, match=rf"networks\.n\.prefix is {prefix}") as caught:
        read_networks({"n": spec}, Form({}))
    assert caught.value.remedy


@pytest.mark.parametrize(("ip", "prefix"), [("10.0.0.5", "32"), ("fd00::5", "128"), ("10.0.0.5", None)])
def test_the_prefix_of_a_single_address_is_what_directors_send(ip: str, prefix: str | None) -> None:
    (request,) = read_networks({"n": {"type": "manual", "ip": ip, "prefix": prefix}}, Form({}))
    assert request.ip == ip
