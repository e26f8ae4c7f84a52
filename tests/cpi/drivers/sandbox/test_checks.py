"""check: what is possible, what is left, and which remedy helps; nothing is changed by asking."""

from __future__ import annotations

from pathlib import Path

from coterie.cpi.contract import CheckItem, Needs
from coterie.sandbox.reshape import set_host

from .lab import Lab


def items(lab: Lab, needs: Needs | None = None) -> dict[str, CheckItem]:
    return {item.what: item for item in lab.cpi.check(needs)}


def test_facts_are_told(lab: Lab) -> None:
    lab.vm()
    found = items(lab)
    assert all(item.ok for item in found.values())
    hosts = found["hosts"].facts
    assert hosts is not None
    assert len(hosts["hosts"]) == 8
    (used,) = [host for host in hosts["hosts"] if host["free_cpu"] == 15]
    assert used == {"name": "z1-r1-h1", "az": "z1", "rack": "z1-r1", "free_cpu": 15, "free_ram_mb": 31_744}
    quotas = found["quotas"].facts
    assert quotas is not None
    assert quotas["quotas"]["instances"] == {"limit": None, "used": 1}


def test_hosts_that_are_down_are_no_hosts(lab: Lab) -> None:
    for number in (1, 2):
        for rack in (1, 2):
            set_host(lab.operator.datacenter, f"z2-r{rack}-h{number}", up=False)
    found = items(lab, Needs(azs=("z1", "z2")))
    assert found["azs"].ok
    assert not found["hosts"].ok
    assert "z2" in found["hosts"].detail
    assert found["hosts"].remedy
    assert items(lab, Needs(azs=("z1",)))["hosts"].ok


def test_needs_that_cannot_be_met_are_refused_with_a_remedy(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {"policies": ["anti-affinity"], "snapshots": False, "quotas": {"instances": 2, "volumes": 9}})
    needs = Needs(
        kinds=("vm", "snapshot"),
        policies=("anti-affinity", "affinity"),
        azs=("z1", "z9"),
        counts={"vm": 3, "volumes": 9, "anti-affinity:z1": 5, "anti-affinity:z2": 4},
    )
    found = items(lab, needs)
    bad = {what for what, item in found.items() if not item.ok}
    assert bad == {"azs", "policy affinity", "kind snapshot", "quotas", "hosts", "anti-affinity:z1"}
    assert all(found[what].remedy for what in bad)
    assert "instances: 3 more needed, 0 of 2 used" in found["quotas"].detail
    assert "volumes" not in found["quotas"].detail
    assert found["anti-affinity:z1"].detail == "5 members need 5 hosts in z1, 4 are up"


def test_a_cloud_that_refuses_us_is_told_as_credentials(lab: Lab) -> None:
    lab.fault("get_quotas", "error", code="unauthenticated")
    (only,) = lab.cpi.check()
    assert (only.what, only.ok) == ("credentials", False)
    assert only.detail


def test_a_layout_that_is_not_used_is_mentioned(lab: Lab) -> None:
    lab.more = {"layout": {"zones": [{"name": "elsewhere"}]}}
    lab.cpi = lab.open()
    assert "another layout" in items(lab)["layout"].detail
