"""Virtual machines on real members: what a guest sees, its disks, and the members that run none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from peers.incus_bed import CLUSTER, IncusMachineBed
from peers.incus_operator import VOLUMES
from tests.cpi.drivers.incus.guest import facts, get
from tests.cpi.drivers.incus.place import placed
from tests.requests.site import group, manifest

from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import NoPlacement

MACHINE = "virtual-machine"
HEALTH = "health: {kind: http, port: 80, path: /health}"


@pytest.fixture
def machine_bed(tmp_path: Path) -> Iterator[IncusMachineBed]:
    made = IncusMachineBed(tmp_path)
    yield made
    made.close()


@pytest.fixture
def machine_lab(machine_bed: IncusMachineBed) -> Iterator[Lab]:
    made = Lab(machine_bed)
    yield made
    made.close()


def test_a_guest_has_its_settings_and_keeps_its_data(machine_bed: IncusMachineBed, machine_lab: Lab) -> None:
    """Through a snapshot, a larger disk, and a new machine."""
    bed, lab = machine_bed, machine_lab
    ip = str(bed.address("z1"))
    arguments = lab.vm_arguments(networks=bed.networks("z1", ip))
    first = lab.cpi.create_vm(**arguments).cid
    lab.undo(lab.cpi.delete_vm, first)
    disk = lab.cpi.create_disk(64, {}, first, mark=lab.mark())
    lab.undo(lab.cpi.delete_disk, disk)
    hint = lab.cpi.attach_disk(first, disk)
    (home,) = bed.operator.locations(first)
    said = (CLUSTER.folder / home / "log" / first / "qemu.qmp.log").read_text()
    assert f'"serial":"{hint["id"]}"' in said, "what Incus gave QEMU"
    assert str(hint["path"]).endswith(f"HARDDISK_{hint['id']}")
    store = {"path": "/var/vcap/store", "mounted": True}
    found = facts(ip, is_machine=True, store={**store, "files": []})
    assert (found["hostname"], found["address"]) == (first, f"{ip}/16")
    assert (found["agent_id"], found["cpus"]) == (arguments["agent_id"], 1)
    assert 150 * 2**20 < int(found["memory_max"]) <= 256 * 2**20
    assert found["data"]["mounted"], "what its system leaves of the root disk"
    assert get(ip, "/health") == "ok\n"
    assert get(ip, "/cgi-bin/write?hello", 20) == "written\n"
    snapshot = lab.cpi.snapshot_disk(disk, {}, mark=lab.mark())
    lab.cpi.detach_disk(first, disk)
    facts(ip, is_machine=True, store={"path": "/var/vcap/store", "mounted": False, "files": []})
    lab.cpi.delete_snapshot(snapshot)
    lab.cpi.resize_disk(disk, 256)
    lab.cpi.attach_disk(first, disk)
    facts(ip, is_machine=True, store={**store, "files": ["hello"]})
    assert get(ip, "/cgi-bin/write?big=100", 60) == "written\n"
    lab.cpi.delete_vm(first)
    second = lab.vm(networks=bed.networks("z1", ip), disk_cids=[disk])
    lab.cpi.attach_disk(second, disk)
    facts(ip, is_machine=True, hostname=second, store={**store, "files": ["big", "hello"]})
    assert bed.operator.locations(second) == [home]


def test_a_deployment_of_them_is_healthy_by_http_and_leaves_nothing(
    machine_bed: IncusMachineBed, tmp_path: Path
) -> None:
    bed = machine_bed
    with placed(tmp_path, bed) as place:
        text = manifest(group("a", 1, f"persistent_disk: 64, {HEALTH}", azs="z1"))
        place.deploy(text.replace("watch_s: 5", "watch_s: 120"))
        node = place.nodes()["a/0"]
        (row,) = bed.operator.rows("/1.0/instances")
        assert (row["name"], row["type"], row["status"]) == (node.vm_cid, MACHINE, "Running")
        assert place.cpi().get_disks(str(node.vm_cid))


def test_a_member_that_runs_none_is_left_out(machine_bed: IncusMachineBed, machine_lab: Lab) -> None:
    bed, lab = machine_bed, machine_lab
    if "qemu" in bed.operator.call("GET", "/1.0?target=inc3")["environment"]["driver"]:
        pytest.skip("KVM works here, so all members run virtual machines")
    arguments = lab.vm_arguments()
    arguments["cloud_properties"] |= {"cluster_group": "z2"}
    before = bed.inventory()
    with pytest.raises(NoPlacement, match="inc3: it runs no virtual machines"):
        lab.cpi.create_vm(**arguments)
    with pytest.raises(NoPlacement, match="inc3: it runs no virtual machines"):
        lab.cpi.create_disk(64, {"cluster_group": "z2"}, mark=lab.mark())
    assert bed.inventory() == before
    items = {item.what: item for item in lab.cpi.check()}
    assert items["virtual machines"].detail == "run on inc1, inc2"


@pytest.mark.full
def test_data_comes_along_to_a_machine_on_another_member(machine_bed: IncusMachineBed, machine_lab: Lab) -> None:
    bed, lab = machine_bed, machine_lab
    group = lab.group("anti-affinity")
    here, there = str(bed.address("z1")), str(bed.address("z1"))
    first = lab.vm(group=group, networks=bed.networks("z1", here))
    second = lab.vm(group=group, networks=bed.networks("z1", there))
    homes = bed.operator.locations(first) + bed.operator.locations(second)
    assert sorted(homes) == ["inc1", "inc2"]
    disk = lab.cpi.create_disk(64, {}, first, mark=lab.mark())
    lab.undo(lab.cpi.delete_disk, disk)
    lab.cpi.attach_disk(first, disk)
    store = {"path": "/var/vcap/store", "mounted": True}
    facts(here, is_machine=True, store={**store, "files": []})
    assert get(here, "/cgi-bin/write?hello", 20) == "written\n"
    lab.cpi.detach_disk(first, disk)
    lab.cpi.attach_disk(second, disk)
    facts(there, is_machine=True, store={**store, "files": ["hello"]})
    assert [row["location"] for row in bed.operator.rows(VOLUMES)] == homes[1:]
    lab.cpi.detach_disk(second, disk)
