"""create_vm and its kin: whole or nothing, once per mark, and refusals that say what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from peers.agent_rules import AGENT, TWO_NICS_AND_A_VIP, broken_rules

from coterie.cpi.contract import (
    CpiError,
    DiskNotFound,
    GroupMissing,
    InvalidCall,
    NetworkNotFound,
    NoPlacement,
    OutcomeUnknown,
    QuotaExceeded,
    StemcellNotFound,
    Throttled,
    Unavailable,
    VMCreationFailed,
    VMNotFound,
)
from coterie.cpi.drivers.sandbox.machines import SELF
from coterie.sandbox import networks
from coterie.sandbox.quotas import set_quota
from coterie.sandbox.reshape import kill_vm
from coterie.sandbox.vm_shape import get_user_data, get_vm, list_vms

from .lab import Lab


def present(lab: Lab) -> list[str]:
    return [vm.id for vm in list_vms(lab.operator).items]


def test_a_vm_is_marked_placed_and_told_its_agent(lab: Lab) -> None:
    mark = lab.mark()
    cid = lab.vm(mark=mark, env={"bosh": {"password": "x"}})
    vm = get_vm(lab.operator, cid)
    assert vm.tags["coterie-director"] == mark.director
    assert vm.tags["coterie-intent"] == mark.intent
    assert (vm.state, vm.zone) == ("running", "z1")
    settings = json.loads(get_user_data(lab.operator, cid))
    assert (settings["agent_id"], settings["env"]) == ("agent", {"bosh": {"password": "x"}})


def test_the_settings_are_enough_for_an_agent(tmp_path: Path) -> None:
    """Two networks on one NIC, one on another, and a public address."""
    lab = Lab(tmp_path, {"agent": AGENT})
    requested = {
        "front": {**TWO_NICS_AND_A_VIP["front"], "ip": "10.0.0.5", "netmask": "255.0.0.0", "nic_group": "1"},
        "six": {"type": "manual", "ip": "fd00::5", "netmask": "ffff::", "prefix": "128", "nic_group": "1"},
        "back": TWO_NICS_AND_A_VIP["back"],
        "public": {**TWO_NICS_AND_A_VIP["public"], "ip": "10.0.0.6"},
    }
    cid = lab.vm(networks=requested)
    macs = {nic.mac for nic in get_vm(lab.operator, cid).nics if nic.mac}
    assert len(macs) == 2
    assert broken_rules(json.loads(get_user_data(lab.operator, cid)), requested, macs) == []


def test_the_answer_has_the_addresses(lab: Lab) -> None:
    asked = {
        "fixed": {"type": "manual", "ip": "10.0.0.5", "netmask": "255.0.0.0", "cloud_properties": {"name": "default"}},
        "floating": {"type": "vip", "ip": "10.0.0.6", "cloud_properties": {}},
        "any": {"type": "dynamic", "ip": "10.0.0.5", "cloud_properties": {}},
    }
    made = lab.cpi.create_vm("a", lab.stemcell, {"zone": "z1"}, asked, [], {}, mark=lab.mark())
    assert made.networks["fixed"]["ip"] == "10.0.0.5"
    assert made.networks["fixed"]["netmask"] == "255.0.0.0"
    assert made.networks["fixed"]["mac"] != made.networks["any"]["mac"]
    assert made.networks["floating"]["ip"] == "10.0.0.6"
    assert "mac" not in made.networks["floating"]
    assert made.networks["any"]["ip"] not in ("10.0.0.5", "10.0.0.6")


def test_a_repeat_with_one_mark_answers_the_first(either: Lab) -> None:
    lab, mark = either, either.mark()
    group = lab.group("anti-affinity")
    arguments = (
        "a",
        lab.stemcell,
        {"zone": "z1"},
        {"n": {"type": "dynamic"}},
        [],
        {"bosh": {"server_group_cid": group}},
    )
    first = lab.cpi.create_vm(*arguments, mark=mark)
    assert lab.open().create_vm(*arguments, mark=mark) == first
    assert present(lab) == [first.cid]


@pytest.mark.parametrize(
    ("properties", "field"),
    [
        ({"zone": "z1", "flavour": "m"}, "flavour"),
        ({"zone": "z1", "cpu": 0}, "cpu"),
        ({"zone": "z1", "ram_mb": "2G"}, "ram_mb"),
        ({"zone": "z1", "instance_type": "huge"}, "instance_type"),
        ({"zone": 1}, "zone"),
        ({"cpu": 1}, "zone"),
        ({"zone": "z1", "security_groups": "web"}, "security_groups"),
    ],
)
def test_a_mistake_in_cloud_properties_is_named(lab: Lab, properties: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidCall, match=rf"cloud_properties\.{field} ") as caught:
        lab.vm(cloud_properties=properties)
    assert caught.value.remedy
    assert present(lab) == []


def test_sizes_come_from_the_type_the_numbers_or_both(lab: Lab) -> None:
    sizes = {}
    for name, properties in {
        "type": {"instance_type": "m"},
        "mixed": {"instance_type": "m", "ram": 5000},
        "own": {"cpu": 3, "ram_mb": 3000, "ephemeral_disk_mb": 30},
    }.items():
        vm = get_vm(lab.operator, lab.vm(cloud_properties={"zone": "z1", **properties}))
        sizes[name] = (vm.cpu, vm.ram_mb, vm.disk_mb)
    assert sizes == {"type": (2, 4096, 20_480), "mixed": (2, 5000, 20_480), "own": (3, 3000, 30)}


@pytest.mark.parametrize(
    ("network", "field"),
    [
        ({"type": "manual"}, "ip"),
        ({"type": "magic", "ip": "10.0.0.1"}, "type"),
        ({"type": "dynamic", "cloud_properties": {"vlan": 5}}, "cloud_properties.vlan"),
    ],
)
def test_a_mistake_in_networks_is_named(lab: Lab, network: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidCall, match=rf"networks\.front\.{field} "):
        lab.vm(networks={"front": network})


def test_what_a_vm_is_made_of_must_be_there(lab: Lab) -> None:
    for error, wrong in (
        (StemcellNotFound, {"stemcell_cid": "none"}),
        (NetworkNotFound, {"networks": {"n": {"type": "dynamic", "cloud_properties": {"name": "none"}}}}),
        (DiskNotFound, {"disk_cids": ["none"]}),
        (GroupMissing, {"group": "cg-0000000000-00000000000000000000000000"}),
        (GroupMissing, {"group": "ext-none"}),
        (CpiError, {"size": {"security_groups": ["none"]}}),
    ):
        with pytest.raises(error) as caught:
            lab.vm(**wrong)
        assert caught.value.remedy
    assert present(lab) == []


def test_no_host_says_which_hosts_and_why(lab: Lab) -> None:
    group = lab.group("anti-affinity")
    for _ in range(4):
        lab.vm(group)
    with pytest.raises(NoPlacement) as caught:
        lab.vm(group)
    assert caught.value.why == "z1: 4 hosts: 4 already hold a member"
    assert caught.value.remedy
    assert lab.vm(group, zone="z2")


def test_a_quota_is_told_with_its_numbers(lab: Lab) -> None:
    set_quota(lab.operator.datacenter, "lab", "instances", 0)
    with pytest.raises(QuotaExceeded, match="0 of 0 are used, 1 more"):
        lab.vm()


def test_a_taken_address_is_told_with_its_holder(lab: Lab) -> None:
    same = {"n": {"type": "manual", "ip": "10.0.0.9"}}
    holder = lab.vm(networks=same)
    with pytest.raises(VMCreationFailed, match=holder) as caught:
        lab.vm(networks=same)
    assert not caught.value.retryable


@pytest.mark.parametrize(
    ("mode", "error", "left"),
    [
        ("error", CpiError, 0),
        ("throttle", Throttled, 0),
        ("timeout-before-commit", OutcomeUnknown, 0),
        ("timeout-after-commit", OutcomeUnknown, 1),
    ],
)
def test_what_befalls_the_call_is_told_as_it_is(lab: Lab, mode: str, error: type[CpiError], left: int) -> None:
    mark = lab.mark()
    lab.fault("create_vm", mode, times=1)
    with pytest.raises(error) as caught:
        lab.vm(mark=mark)
    assert caught.value.retryable
    assert len(present(lab)) == left
    assert lab.vm(mark=mark) in present(lab)
    assert len(present(lab)) == 1


def test_a_lost_question_is_no_unknown_outcome(lab: Lab) -> None:
    group = lab.group()
    lab.fault("list_server_groups", "timeout-after-commit", times=1)
    with pytest.raises(Unavailable):
        lab.vm(group)
    assert present(lab) == []


def test_a_call_that_is_done_twice_makes_one_vm(either: Lab) -> None:
    group = either.group()
    either.fault("*", "twice")
    cid = either.vm(group)
    assert present(either) == [cid]


def test_a_broken_vm_is_removed_before_the_failure_is_told(either: Lab) -> None:
    group = either.group()
    for method in ("create_vm", "start_vm"):
        either.fault(method, "vm-error-state", times=1)
    with pytest.raises(VMCreationFailed) as caught:
        either.vm(group)
    assert caught.value.retryable
    assert present(either) == []
    either.clear()
    assert either.cpi.inspect_server_group(group).members == ()


def test_a_broken_vm_that_cannot_be_removed_is_an_unknown_outcome(lab: Lab) -> None:
    mark = lab.mark()
    lab.fault("create_vm", "vm-error-state", times=1)
    lab.fault("delete_vm", "error", times=1)
    with pytest.raises(OutcomeUnknown):
        lab.vm(mark=mark)
    with pytest.raises(VMCreationFailed):
        lab.vm(mark=mark)
    assert present(lab) == []
    assert lab.vm(mark=mark)


def test_a_slow_build_is_waited_for(lab: Lab) -> None:
    lab.fault("create_vm", "slow-build", ms=60, times=1)
    assert get_vm(lab.operator, lab.vm()).state == "running"


def test_deleting_is_idempotent_and_keeps_disks(lab: Lab) -> None:
    cid = lab.vm()
    disk = lab.cpi.create_disk(100, {}, cid, mark=lab.mark())
    lab.cpi.attach_disk(cid, disk)
    assert lab.cpi.has_vm(cid) is True
    lab.cpi.delete_vm(cid)
    lab.cpi.delete_vm(cid)
    assert lab.cpi.has_vm(cid) is False
    assert lab.cpi.has_disk(disk) is True


def test_a_deletion_done_twice_is_a_deletion(lab: Lab) -> None:
    cid = lab.vm()
    lab.fault("delete_vm", "twice")
    lab.cpi.delete_vm(cid)
    assert present(lab) == []


def test_a_killed_vm_is_rebooted(lab: Lab) -> None:
    cid = lab.vm()
    kill_vm(lab.operator.datacenter, cid)
    lab.cpi.reboot_vm(cid)
    assert get_vm(lab.operator, cid).state == "running"
    with pytest.raises(VMNotFound):
        lab.cpi.reboot_vm("none")


def test_metadata_becomes_tags_and_cannot_forge_a_mark(lab: Lab) -> None:
    cid = lab.vm()
    lab.cpi.set_vm_metadata(cid, {"name": "broker/0", "index": "0"})
    vm = get_vm(lab.operator, cid)
    assert vm.name == "broker/0"
    assert vm.tags["index"] == "0"
    with pytest.raises(InvalidCall, match="reserved"):
        lab.cpi.set_vm_metadata(cid, {"coterie-director": "me"})
    assert get_vm(lab.operator, cid) == vm
    with pytest.raises(VMNotFound):
        lab.cpi.set_vm_metadata("none", {})


def test_the_smallest_fit_is_what_is_required(lab: Lab) -> None:
    wanted = {"cpu": 2, "ram": 3000, "ephemeral_disk_size": 4000}
    assert lab.cpi.calculate_vm_cloud_properties(wanted) == {"cpu": 2, "ram_mb": 3000, "disk_mb": 4000}
    with pytest.raises(NoPlacement):
        lab.cpi.calculate_vm_cloud_properties({**wanted, "cpu": 17})
    with pytest.raises(InvalidCall, match="ram"):
        lab.cpi.calculate_vm_cloud_properties({"cpu": 1})


def test_own_security_groups_are_used_beside_those_of_the_group(lab: Lab) -> None:
    from coterie.sandbox.security_groups import create_security_group

    own = create_security_group(lab.operator, name="own").id
    group = lab.group(security_group_names=["web"])
    cid = lab.vm(group, size={"security_groups": ["own"]})
    assert own in get_vm(lab.operator, cid).security_groups
    assert len(get_vm(lab.operator, cid).security_groups) == 2
    lab.cpi.update_server_group(group, lab.metadata())
    assert get_vm(lab.operator, cid).security_groups == (own,)


def test_a_security_group_of_its_own_stays_when_the_group_gives_it_up(lab: Lab) -> None:
    group = lab.group(security_group_names=["web"])
    cid = lab.vm(group, size={"security_groups": ["web"]})
    before = get_vm(lab.operator, cid).security_groups
    assert len(before) == 1
    lab.cpi.update_server_group(group, lab.metadata())
    assert get_vm(lab.operator, cid).security_groups == before


def test_the_vm_of_this_process_is_the_one_its_environment_names(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SELF, raising=False)
    with pytest.raises(VMNotFound, match="runs in no VM"):
        lab.cpi.current_vm_id()
    cid = lab.vm()
    monkeypatch.setenv(SELF, cid)
    assert lab.cpi.current_vm_id() == cid


def test_an_only_zone_need_not_be_named(tmp_path: Any) -> None:
    lab = Lab(tmp_path, {"layout": {"zones": [{"name": "alone"}]}})
    assert get_vm(lab.operator, lab.vm(cloud_properties={"cpu": 1})).zone == "alone"


def test_networks_are_used_by_name_or_cid(lab: Lab) -> None:
    made = lab.cpi.create_network({"type": "manual", "range": "10.5.0.0/24"}, mark=lab.mark())
    networks.create_network(lab.operator, name="theirs", range="10.6.0.0/24")
    for name, prefix in ((made.cid, "10.5.0."), ("theirs", "10.6.0.")):
        wanted = {"n": {"type": "dynamic", "cloud_properties": {"name": name}}}
        answer = lab.cpi.create_vm("a", lab.stemcell, {"zone": "z1"}, wanted, [], {}, mark=lab.mark())
        assert answer.networks["n"]["ip"].startswith(prefix)
