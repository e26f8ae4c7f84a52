"""Operators' groups: a name that is taken is refused; adopted, a group is joined and left, never changed or deleted."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from coterie.cpi.conformance.expect import expect_error
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.conformance.proof import proves
from coterie.cpi.contract import CheckItem, CpiError, NameTaken, Needs, is_adopted


def operators_group(lab: Lab) -> str:
    cid = lab.operator.create_group("operators-own", lab.policy, lab.az)
    lab.undo(lab.operator.delete, "server_group", cid)
    return cid


@proves("create_server_group")
def test_a_name_that_an_operator_uses_is_refused(lab: Lab) -> None:
    lab.needs("create_server_group")
    taken = operators_group(lab)
    metadata = lab.metadata(options={"name": "operators-own"})
    expect_error(NameTaken, lambda: lab.cpi.create_server_group(metadata, mark=lab.mark()))
    assert lab.operator.exists("server_group", taken)


@proves("create_server_group", "inspect_server_group", "delete_server_group")
def test_an_adopted_group_is_joined_and_left_and_stays(lab: Lab) -> None:
    lab.needs("create_server_group")
    taken = operators_group(lab)
    cid = lab.group(options={"name": "operators-own", "adopt": True})
    assert is_adopted(cid)
    before = lab.cpi.inspect_server_group(cid)
    assert before.state == "live"
    assert [one.created_by_us for one in before.resources if one.kind == "server_group"] == [False]
    vm = lab.vm(group=cid)
    assert vm in [one.vm_cid for one in lab.cpi.inspect_server_group(cid).members]
    lab.cpi.delete_vm(vm)
    assert lab.cpi.inspect_server_group(cid).members == before.members
    lab.cpi.delete_server_group(cid)
    assert lab.operator.exists("server_group", taken)


@proves("create_server_group")
def test_adopting_what_is_not_there_is_refused(lab: Lab) -> None:
    lab.needs("create_server_group")
    metadata = lab.metadata(options={"name": "nobody-has-this", "adopt": True})
    expect_error(CpiError, lambda: lab.cpi.create_server_group(metadata, mark=lab.mark()))


@proves("check")
def test_what_a_group_cannot_be_named_or_adopt_is_told_beforehand(lab: Lab) -> None:
    """As create_server_group would: who plans must learn it before anything is made."""
    lab.needs("create_server_group")
    own, theirs = {"name": "operators-own"}, {"name": "operators-own", "adopt": True}
    assert problems_of(lab, own) == []
    assert problems_of(lab, theirs) != []
    operators_group(lab)
    assert problems_of(lab, own) != []
    assert problems_of(lab, theirs) == []
    others = sorted(lab.capabilities.policies - {lab.policy})
    assert all(problems_of(lab, theirs, policy) for policy in others)
    cid = lab.group(options=theirs)
    assert problems_of(lab, theirs, cid=cid) == []


def problems_of(
    lab: Lab, options: Mapping[str, object], policy: str | None = None, cid: str | None = None
) -> list[CheckItem]:
    """What check has against a server group."""
    group = {"name": options["name"], "policy": policy or lab.policy, "azs": [lab.az], "options": options, "cid": cid}
    found = [item for item in lab.cpi.check(Needs(groups=(group,))) if not item.ok]
    assert all(item.what == "server group operators-own" and item.detail and item.remedy for item in found)
    return found


@proves("update_server_group")
def test_an_adopted_group_is_not_changed(lab: Lab) -> None:
    lab.needs("update_server_group")
    operators_group(lab)
    cid = lab.group(options={"name": "operators-own", "adopt": True})
    before = lab.cpi.inspect_server_group(cid)
    other = next(iter(sorted(lab.capabilities.policies - {lab.policy})), lab.policy)
    metadata = lab.metadata(other, options={"name": "operators-own", "adopt": True})
    with suppress(CpiError):
        lab.cpi.update_server_group(cid, metadata)
    assert lab.cpi.inspect_server_group(cid).policy == before.policy
