"""Server groups that are placement groups, too, on a real LXD: its own build has none yet, so they are the stand-in's
before it. What names them, what is in them and what forbids to delete is the real LXD's."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from peers.incus_bed import IS_LXD, PLACEMENT_GROUPS, IncusBed
from tests.peers.incus.cluster import MEMBERS
from tests.peers.lxd.placement_groups import KEPT_AS

from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import GroupInUse, NoPlacement, NotSupported, SecurityGroup

pytestmark = pytest.mark.skipif(not IS_LXD, reason="Incus has no placement groups")
STRICT = {"policy": "spread", "rigor": "strict"}
SIZE = {"cpu": 1, "memory": 64}


def test_the_real_server_is_lxd_and_says_so(bed: IncusBed, lab: Lab) -> None:
    assert bed.operator.call("GET", "/1.0")["environment"]["server"] == "lxd"
    (rights,) = [item for item in lab.cpi.check() if item.what == "rights"]
    assert rights.ok and rights.detail.startswith("LXD ")


def test_vms_are_in_the_placement_group_by_the_profile_that_they_are_created_with(bed: IncusBed, lab: Lab) -> None:
    group = lab.group("anti-affinity", azs=())
    vm = lab.vm(group=group)
    assert bed.operator.call("GET", f"/1.0/profiles/{group}")["config"][KEPT_AS] == group
    row = bed.operator.call("GET", f"/1.0/instances/{vm}")
    assert (row["profiles"], row["expanded_config"][KEPT_AS]) == ([group], group)
    assert lab.cpi.inspect_server_group(group).state == "live"
    with pytest.raises(GroupInUse):
        lab.cpi.delete_server_group(group)
    assert PLACEMENT_GROUPS.names(bed.project) == [group]


def test_what_others_change_while_vms_run_is_mended_and_the_vms_run_on(bed: IncusBed, lab: Lab) -> None:
    group = lab.group("affinity")
    vm = lab.vm(group=group)
    PLACEMENT_GROUPS.remove(bed.project, group)
    row = bed.operator.call("GET", f"/1.0/profiles/{group}")
    del row["config"][KEPT_AS]
    bed.operator.call("PUT", f"/1.0/profiles/{group}", row)
    view = lab.cpi.inspect_server_group(group)
    assert (view.state, view.notes) == ("drifted", (f"placement group {group} is missing",))
    lab.cpi.update_server_group(group, lab.metadata("affinity"))
    assert lab.cpi.inspect_server_group(group).state == "live"
    row = bed.operator.call("GET", f"/1.0/instances/{vm}")
    assert (row["status"], row["expanded_config"][KEPT_AS]) == ("Running", group)


def test_an_operators_placement_group_is_adopted_with_all_that_is_in_it(bed: IncusBed, lab: Lab) -> None:
    PLACEMENT_GROUPS.create(bed.project, {"name": "pg", "config": STRICT})
    lab.undo(PLACEMENT_GROUPS.remove, bed.project, "pg")
    bed.operator.call("POST", "/1.0/profiles", {"name": "db", "config": {KEPT_AS: "pg"}})
    lab.undo(bed.operator.delete, "server_group", "db")
    beside = bed.operator.create_on(MEMBERS[0], "by-hand", config={KEPT_AS: "pg"})
    lab.undo(bed.operator.delete, "vm", beside)
    group = lab.group("anti-affinity", azs=(), options={"name": "db", "adopt": True})
    wanted = [{**lab.vm_arguments(group=group), "cloud_properties": SIZE} for _ in range(6)]

    def create(arguments: dict[str, object]) -> str:
        try:
            return str(bed.open().create_vm(**arguments).cid)  # type: ignore[arg-type]
        except NoPlacement:
            return ""

    with ThreadPoolExecutor(6) as pool:
        made = [cid for cid in pool.map(create, wanted) if cid]
    for cid in made:
        lab.undo(lab.cpi.delete_vm, cid)
    assert Counter(bed.operator.locations(beside, *made)) == dict.fromkeys(MEMBERS, 1)
    assert "by-hand" in {one.vm_cid for one in lab.cpi.inspect_server_group(group).members}


def test_security_groups_are_refused_and_the_plan_says_so(bed: IncusBed, lab: Lab) -> None:
    before = bed.inventory()
    web = SecurityGroup("web", ({"protocol": "tcp", "ports": "80", "cidr": "0.0.0.0/0"},))
    with pytest.raises(NotSupported, match="has no ACLs of NICs on bridges"):
        lab.cpi.create_server_group(lab.metadata("affinity", security_groups=[web]), mark=lab.mark())
    assert bed.inventory() == before
