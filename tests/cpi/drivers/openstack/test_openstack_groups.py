"""Server groups on the real scheduler: one whatever runs in parallel, found again, bounded, strict and explained."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from peers.openstack_bed import OpenstackBed
from tests.cpi.drivers.openstack.killing import Killed, dying_after
from tests.cpi.drivers.openstack.place import Place, config, placed
from tests.requests.site import group, manifest

from coterie.cpi.conformance.expect import expect_error, together
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import GroupMissing, NoPlacement
from coterie.errors import CoterieError
from coterie.requests.audit import placement_audit

SOFT = "placement: {policy: soft-anti-affinity}"
STRICT = "placement: {policy: anti-affinity}"


@pytest.fixture
def place(bed: OpenstackBed, tmp_path: Path) -> Iterator[Place]:
    with placed(tmp_path, bed) as made:
        yield made


@pytest.mark.short
def test_twenty_at_once_make_one_group(bed: OpenstackBed, lab: Lab) -> None:
    mark = lab.mark()
    calls = [partial(bed.open().create_server_group, lab.metadata("anti-affinity"), mark=mark) for _ in range(20)]
    cids = set(together(calls))
    lab.undo(lab.cpi.delete_server_group, mark.group_cid)
    assert cids == {mark.group_cid}
    assert len(bed.operator.listed("server_group")) == 1


def test_a_group_is_found_again_after_a_crash(bed: OpenstackBed, lab: Lab) -> None:
    mark, cpi = lab.mark(), bed.open()
    for calls in range(1, 20):
        with pytest.MonkeyPatch.context() as patch:
            dying_after(cpi, calls, patch)
            with pytest.raises(Killed):
                cpi.create_server_group(lab.metadata("anti-affinity"), mark=mark)
        if bed.operator.listed("server_group"):
            break
    (left,) = bed.operator.listed("server_group")
    assert lab.group("anti-affinity", mark=mark) == mark.group_cid
    assert [one["id"] for one in bed.operator.listed("server_group")] == [left["id"]]


def test_a_boot_into_a_group_that_is_gone_names_the_remedy(bed: OpenstackBed, lab: Lab) -> None:
    cid = lab.group("anti-affinity")
    (theirs,) = bed.operator.listed("server_group")
    bed.operator.delete("server_group", theirs["id"])
    error = expect_error(GroupMissing, lambda: lab.vm(group=cid))
    assert error.remedy
    assert bed.operator.listed("port") == []


def test_a_strict_policy_that_cannot_be_met_is_explained(bed: OpenstackBed, lab: Lab) -> None:
    cid = lab.group("anti-affinity")
    for _ in range(3):
        lab.vm(group=cid)
    assert sorted(bed.operator.hosts().values()) == ["fake1", "fake2", "fake3"]
    error = expect_error(NoPlacement, lambda: lab.vm(group=cid))
    text = f"{error} {error.why} {error.remedy} {error.details}"
    assert "anti-affinity" in text
    assert "3" in text or "three" in text
    assert len(bed.operator.listed("vm")) == 3
    assert len(bed.operator.listed("port")) == 3


def test_strict_boots_in_parallel_fill_all_hosts_and_never_share(bed: OpenstackBed, lab: Lab) -> None:
    cid = lab.group("anti-affinity")
    calls = [partial(bed.open().create_vm, **lab.vm_arguments("z1", cid)) for _ in range(3)]
    for created in together(calls):
        lab.undo(lab.cpi.delete_vm, created.cid)
    assert sorted(bed.operator.hosts().values()) == ["fake1", "fake2", "fake3"]


def test_affinity_keeps_together(bed: OpenstackBed, lab: Lab) -> None:
    cid = lab.group("affinity")
    calls = [partial(bed.open().create_vm, **lab.vm_arguments("z1", cid)) for _ in range(3)]
    for created in together(calls):
        lab.undo(lab.cpi.delete_vm, created.cid)
    assert len(set(bed.operator.hosts().values())) == 1


def test_six_parallel_nodes_of_a_soft_group_are_really_spread(place: Place) -> None:
    place.deploy(manifest(group("a", 6, SOFT, azs="z1")))
    assert place.spread() == [2, 2, 2]


@pytest.mark.timeout(600)
def test_they_are_spread_by_several_schedulers_too(bed: OpenstackBed, place: Place) -> None:
    """Of what another process placed, a scheduler hears when the server runs."""
    bed.more["soft_spread"] = "active"
    place.config = config(bed)
    with bed.more_schedulers(2):
        place.deploy(manifest(group("a", 6, SOFT, azs="z1")))
        assert place.spread() == [2, 2, 2]


def test_an_audit_offers_the_recreate_that_mends_a_bad_spread(bed: OpenstackBed, place: Place) -> None:
    text = manifest(group("a", 4, SOFT, azs="z1"))
    with bed.operator.closed("fake2", "fake3"):
        place.deploy(text.replace("instances: 4", "instances: 3"))
    place.deploy(text)
    assert place.spread() == [3, 1]
    (found,) = placement_audit(place.ledger, "dep")["groups"]
    (moved,) = found["mend"]
    assert (found["holds"], moved in _by_host(place)["fake1"]) == (False, True)
    place.deploy(text, recreate=True, nodes=(moved,))
    assert place.spread() == [2, 1, 1]
    (found,) = placement_audit(place.ledger, "dep")["groups"]
    assert (found["holds"], found["mend"]) == (True, [])


def test_an_audit_says_which_nodes_share_a_host(place: Place) -> None:
    """An administrator sees hosts; a user sees an opaque id of each host, which is enough."""
    place.deploy(manifest(group("a", 4, SOFT, azs="z1")))
    (found,) = placement_audit(place.ledger, "dep")["groups"]
    assert "a/" in str(found), found
    shared = [names for names in _by_host(place).values() if len(names) > 1]
    assert len(shared) == 1
    assert all(name in str(found) for name in shared[0]), (found, shared)


def _by_host(place: Place) -> dict[str, list[str]]:
    hosts = place.bed.operator.hosts()
    found: dict[str, list[str]] = {}
    for name, vm in place.vms().items():
        found.setdefault(hosts[vm], []).append(name)
    return found


@pytest.mark.parametrize(
    ("quota", "word"),
    [({"server_groups": 1}, "server group"), ({"server_group_members": 2}, "member"), ({"instances": 3}, "instance")],
)
def test_quotas_are_refused_by_the_plan_and_nothing_is_made(
    bed: OpenstackBed, place: Place, quota: dict[str, int], word: str
) -> None:
    bed.tenant.quota(**quota)
    before = bed.inventory()
    with pytest.raises(CoterieError) as caught:
        place.plan(manifest(group("a", 3, STRICT, azs="z1"), group("b", 3, STRICT, azs="z1")))
    text = f"{caught.value} {caught.value.details}".replace("_", " ")
    assert word in text
    assert "quota" in text
    assert bed.inventory() == before
