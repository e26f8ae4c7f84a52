"""What a driver says of itself: it must be true, and what it refuses must have been declared."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import get_args

from coterie.cpi.conformance.expect import expect_error
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.conformance.proof import proves
from coterie.cpi.conformance.samples import sample_call
from coterie.cpi.contract import (
    KINDS,
    POLICIES,
    Capabilities,
    CpiError,
    InvalidCall,
    Json,
    Marking,
    Needs,
    NotSupported,
    Place,
)
from coterie.cpi.wire import METHODS

GROUPS = ("create_server_group", "update_server_group", "delete_server_group", "inspect_server_group")


@proves("info")
def test_info_names_a_version_that_directors_take_and_its_formats(lab: Lab) -> None:
    info = lab.cpi.info()
    assert info["api_version"] in (2, 3)
    assert info["stemcell_formats"]
    assert all(isinstance(one, str) and one for one in info["stemcell_formats"])


@proves("ping")
def test_ping_answers(lab: Lab) -> None:
    assert lab.cpi.ping()


@proves("capabilities")
def test_capabilities_use_the_words_of_the_contract_and_travel(lab: Lab) -> None:
    declared = lab.cpi.capabilities()
    assert declared.driver
    assert declared.policies <= set(POLICIES)
    assert set(declared.kinds) <= set(KINDS)
    assert set(declared.kinds.values()) <= set(get_args(Marking))
    assert declared.filtered <= set(KINDS)
    assert declared.client_tokens <= set(declared.kinds)
    assert {*declared.group_limits, *declared.domains} <= declared.policies
    assert set(declared.unsupported) <= set(METHODS)
    assert Capabilities.of_wire(declared.wire()) == declared
    assert Capabilities.of_published(declared.publish()) == declared


@proves("capabilities")
def test_every_refusal_has_a_reason_and_a_citation(lab: Lab) -> None:
    for method, reason in lab.capabilities.unsupported.items():
        assert reason.why.strip(), method
        assert reason.citation.strip(), method


@proves("capabilities")
def test_flags_and_refusals_agree(lab: Lab) -> None:
    declared = lab.capabilities
    assert declared.resize_disk == ("resize_disk" not in declared.unsupported), "the flag and the method disagree"
    for method, kind in (("snapshot_disk", "snapshot"), ("create_network", "network")):
        assert (kind in declared.kinds) == (method not in declared.unsupported), f"kind {kind} and {method} disagree"
    for method in GROUPS:
        assert bool(declared.policies) == (method not in declared.unsupported), f"policies and {method} disagree"
    marked = {kind for kind, marking in declared.kinds.items() if marking != "none"}
    assert bool(marked) == declared.finds, "a kind can be marked, but not be found by its mark"


@proves("capabilities")
def test_what_is_declared_unsupported_refuses(lab: Lab) -> None:
    for method in lab.capabilities.unsupported:
        expect_error(NotSupported, partial(sample_call, lab.cpi, method, lab.mark()))
        lab.refused.append(method)


@proves("create_vm")
def test_forms_take_what_the_cloud_takes_and_tell_what_it_refuses(lab: Lab) -> None:
    """A mistake is told with its line before anything is done; what has no form, the call itself refuses."""
    forms, bed = lab.cpi.forms, lab.bed
    assert set(forms) <= set(get_args(Place))
    (network,) = bed.networks(lab.az, bed.address(lab.az)).values()
    right: dict[Place, Json] = {
        "vm": bed.vm_properties(lab.az),
        "disk": bed.disk_properties(lab.az),
        "network": network.get("cloud_properties") or {},
    }
    for place, given in right.items():
        if place in forms:
            assert forms[place].mistakes(given) == []
            (mistake,) = forms[place].mistakes({**given, "nonesuch": 1})
            assert mistake.key == "nonesuch" and mistake.remedy
    if "vm" in forms:
        expect_error(InvalidCall, lambda: lab.vm(cloud_properties={**right["vm"], "nonesuch": 1}))


@proves("configure_networks")
def test_configure_networks_is_refused_everywhere(lab: Lab) -> None:
    expect_error(NotSupported, lambda: lab.cpi.configure_networks(lab.vm(), {}))


@proves("current_vm_id")
def test_current_vm_id_names_a_vm(lab: Lab) -> None:
    """Outside of its cloud a typed refusal is as good."""
    lab.needs("current_vm_id")
    vm = lab.vm()
    with suppress(CpiError):
        assert lab.cpi.current_vm_id()
    with lab.bed.inside(vm) as inside:
        if inside:
            assert lab.cpi.current_vm_id() == vm


@proves("check")
def test_check_of_a_healthy_cloud_finds_no_fault_and_changes_nothing(lab: Lab) -> None:
    before = lab.inventory()
    items = lab.cpi.check()
    assert items
    assert [item for item in items if not item.ok] == []
    assert lab.inventory() == before


@proves("check")
def test_check_refuses_a_need_that_cannot_be_met_with_the_remedy(lab: Lab) -> None:
    impossible = sorted(set(POLICIES) - lab.capabilities.policies) or ["no-such-policy"]
    bad = [item for item in lab.cpi.check(Needs(kinds=("vm",), policies=tuple(impossible))) if not item.ok]
    assert bad
    assert all(item.what and item.detail and item.remedy for item in bad)


@proves("check")
def test_check_grants_needs_that_can_be_met(lab: Lab) -> None:
    needs = Needs(kinds=("vm", "disk"), policies=tuple(sorted(lab.capabilities.policies)), azs=lab.bed.azs)
    assert [item for item in lab.cpi.check(needs) if not item.ok] == []
