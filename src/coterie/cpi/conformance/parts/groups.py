"""Server groups: there before their first VM, one per mark, the same CID for ever, gone when they are empty."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial

from coterie.cpi.conformance.expect import expect_error, together
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.conformance.proof import proves
from coterie.cpi.contract import POLICIES, NotSupported, OutcomeUnknown


def resources(lab: Lab, cid: str, kind: str) -> list[str]:
    return [one.cid for one in lab.cpi.inspect_server_group(cid).resources if one.kind == kind]


@proves("create_server_group", "inspect_server_group", "delete_server_group")
def test_a_group_exists_before_its_first_vm(lab: Lab) -> None:
    lab.needs("create_server_group")
    before, mark = lab.inventory(), lab.mark()
    cid = lab.group(mark=mark)
    assert cid == mark.group_cid
    assert re.fullmatch(r"[a-z0-9-]{1,64}", cid)
    view = lab.cpi.inspect_server_group(cid)
    assert view.state in ("live", "reserved")
    assert view.policy == lab.policy
    assert view.members == ()
    assert all(one.created_by_us for one in view.resources)
    lab.cpi.delete_server_group(cid)
    assert lab.inventory() == before


@proves("create_server_group")
def test_the_same_mark_finds_the_first_group(lab: Lab) -> None:
    lab.needs("create_server_group")
    mark = lab.mark()
    first = lab.group(mark=mark)
    before = lab.inventory()
    assert lab.group(mark=mark) == first
    assert lab.inventory() == before


@proves("create_server_group")
def test_the_same_mark_at_the_same_time_makes_one_group(lab: Lab) -> None:
    lab.needs("create_server_group")
    mark, before = lab.mark(), lab.inventory()
    calls = [partial(lab.bed.open().create_server_group, lab.metadata(), mark=mark) for _ in range(lab.bed.parallel)]
    assert set(together(calls)) == {mark.group_cid}
    lab.undo(lab.cpi.delete_server_group, mark.group_cid)
    made = [kind for kind, _ in lab.inventory() - before]
    live = lab.cpi.inspect_server_group(mark.group_cid).state == "live"
    assert made.count("server_group") == (1 if live else 0)


@proves("create_server_group")
def test_a_group_whose_answer_was_lost_is_completed_by_a_repeat(lab: Lab) -> None:
    lab.needs("create_server_group")
    mark = lab.mark()
    lab.faults.lose_answer("create_server_group")
    expect_error(OutcomeUnknown, lambda: lab.cpi.create_server_group(lab.metadata(), mark=mark))
    before = lab.inventory()
    assert lab.group(mark=mark) == mark.group_cid
    assert lab.inventory() == before


@proves("create_server_group")
def test_every_declared_policy_can_be_had_and_no_other(lab: Lab) -> None:
    lab.needs("create_server_group")
    for policy in sorted(lab.capabilities.policies):
        assert lab.cpi.inspect_server_group(lab.group(policy)).policy == policy
    for policy in sorted(set(POLICIES) - lab.capabilities.policies):
        expect_error(NotSupported, partial(lab.cpi.create_server_group, lab.metadata(policy), mark=lab.mark()))


@proves("delete_server_group")
def test_a_group_that_is_gone_can_be_deleted_again(lab: Lab) -> None:
    lab.needs("delete_server_group")
    cid = lab.group()
    lab.cpi.delete_server_group(cid)
    lab.cpi.delete_server_group(cid)
    lab.cpi.delete_server_group(lab.mark().group_cid)


@proves("update_server_group")
def test_azs_can_be_changed_and_the_cid_stays(lab: Lab) -> None:
    lab.needs("update_server_group")
    cid = lab.group(azs=lab.bed.azs[:1])
    lab.cpi.update_server_group(cid, lab.metadata(azs=lab.bed.azs))
    view = lab.cpi.inspect_server_group(cid)
    assert view.state in ("live", "reserved")
    lab.vm(lab.bed.azs[-1], group=cid)
    assert len(lab.cpi.inspect_server_group(cid).members) == 1


@proves("update_server_group")
def test_another_policy_is_taken_over_or_refused_and_nothing_between(lab: Lab) -> None:
    lab.needs("update_server_group")
    others = sorted(lab.capabilities.policies - {lab.policy})
    cid = lab.group()
    for policy in others:
        before = lab.cpi.inspect_server_group(cid)
        try:
            lab.cpi.update_server_group(cid, replace(lab.metadata(), policy=policy))
        except NotSupported:
            assert lab.cpi.inspect_server_group(cid) == before
        else:
            assert lab.cpi.inspect_server_group(cid).policy == policy
