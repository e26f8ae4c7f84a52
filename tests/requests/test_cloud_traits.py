"""Deployments to clouds that are not like the others: failure domains in place of hosts, tokens with creating calls."""

from __future__ import annotations

import time

import pytest

from coterie.errors import Refused
from coterie.requests.audit import placement_audit
from coterie.sandbox import calls, faults
from coterie.sandbox.datacenter import Datacenter, open_datacenter
from tests.requests.site import Site, group, manifest

STRICT = "placement: {policy: anti-affinity, server_group: data}"
SOFT = "placement: {policy: soft-anti-affinity, server_group: data}"


def datacenter(site: Site) -> Datacenter:
    return open_datacenter(site.folder / "sandbox.db")


def with_property(site: Site, text: str) -> None:
    site.config = site.config.replace("settle_s: 0.1", text)


def racks(site: Site) -> list[str | None]:
    """Of the nodes, by their names."""
    places = {
        vm.vm_cid: vm.domain for vm in site.cpi(properties={"domains": 2}).inspect_server_group(group_cid(site)).members
    }
    return [places[node.vm_cid or ""] for _, node in sorted(site.nodes().items())]


def count_shown(site: Site, kind: str) -> int:
    """As soon as the cloud's list shows any: it may lag behind."""
    give_up = time.monotonic() + 30
    while not (held := site.held(kind)) and time.monotonic() < give_up:
        time.sleep(0.1)
    return len(held)


def group_cid(site: Site) -> str:
    (found,) = site.held("server_group")
    return found.cid


# -- failure domains --


def test_members_are_put_into_different_domains_and_the_audit_says_what_that_proves(local: Site) -> None:
    with_property(local, "settle_s: 0.1, domains: 2")
    local.deploy(manifest(group("a", 3, STRICT), group("b", 1, STRICT, azs="z2")))
    assert racks(local) == ["z1-r1", "z2-r1", "z1-r2", "z2-r2"]
    (audited,) = placement_audit(local.ledger, "dep")["groups"]
    assert audited["holds"] is True
    assert audited["promise"] == "no two nodes on one host, shown by different racks"
    assert audited["why"] == "4 nodes in 4 racks; different racks are on different hosts"
    assert audited["hosts"] == {} and audited["domains"]["z1-r2"] == ["a/2"]
    local.deploy(manifest(group("a", 3, STRICT), group("b", 1, STRICT, azs="z2")), recreate=True)
    assert racks(local) == ["z1-r1", "z2-r1", "z1-r2", "z2-r2"]


def test_a_strict_group_with_too_many_members_is_refused_although_no_host_is_shown(local: Site) -> None:
    with_property(local, "settle_s: 0.1, domains: 2")
    with pytest.raises(Refused, match="3 nodes would be in z1, but cloud lab takes 2 members of one anti-affinity"):
        local.plan(manifest(group("a", 3, STRICT, azs="z1")))
    assert local.held("server_group") == []


def test_a_soft_group_fills_the_domains_evenly_and_equal_domains_prove_nothing(local: Site) -> None:
    with_property(local, "settle_s: 0.1, domains: 2")
    local.deploy(manifest(group("a", 4, SOFT, azs="z1")))
    assert racks(local) == ["z1-r1", "z1-r2", "z1-r1", "z1-r2"]
    (audited,) = placement_audit(local.ledger, "dep")["groups"]
    assert (audited["holds"], audited["why"]) == (True, "4 nodes in 2 racks, at most 2 in one")
    assert "nodes in one rack may share a host" in audited["promise"]


# -- client tokens --


@pytest.mark.parametrize("lost", ["timeout-before-commit", "timeout-after-commit"])
def test_a_lost_answer_is_settled_by_the_token_however_late_objects_turn_up(local: Site, lost: str) -> None:
    """No node would come up within the test's patience if the settle time were waited out."""
    with_property(local, "settle_s: 100000, client_tokens: true")
    site, methods = datacenter(local).store, ("create_vm", "create_disk", "create_image", "create_server_group")
    for method in methods:
        faults.add(site, method, lost, times=1)
        if lost == "timeout-after-commit":
            faults.add(site, method, "late-visibility", times=1, ms=600)
    calls.switch_log(site, True)
    local.deploy(manifest(group("a", 1, STRICT + ", persistent_disk: 256")))
    assert [count_shown(local, kind) for kind in ("vm", "disk", "image", "server_group")] == [1, 1, 1, 1]
    counted = calls.counts(site)
    assert [counted[method].calls for method in methods] == [2, 2, 2, 2]
