"""Server groups beyond the kit: what is not ours is never deleted, and no VM is restarted without permission."""

from __future__ import annotations

import pytest
from peers.cloudstack_bed import CloudstackBed

from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import CpiError, Expected, GroupInUse, InvalidCall, NameTaken, NotSupported, SecurityGroup
from coterie.sandbox import faults

WEB = SecurityGroup("web", ({"protocol": "tcp", "ports": "80-90", "cidr": "127.0.0.0/8", "direction": "ingress"},))


def test_a_group_of_our_name_and_another_type_is_left_alone(bed: CloudstackBed, lab: Lab) -> None:
    mark = lab.mark()
    theirs = bed.client().createAffinityGroup(name=mark.group_cid, type="host affinity")["affinitygroup"]["id"]
    lab.undo(lab.bed.operator.delete, "server_group", theirs)  # type: ignore[union-attr] # this bed has one
    with pytest.raises(NameTaken):
        lab.cpi.create_server_group(lab.metadata("anti-affinity"), mark=mark)
    with pytest.raises(GroupInUse, match="not ours"):
        lab.cpi.delete_server_group(mark.group_cid)
    assert bed.client().listAffinityGroups(id=theirs)


def test_members_are_not_restarted_unless_the_settings_say_so(bed: CloudstackBed, lab: Lab) -> None:
    cid = lab.group(security_groups=[WEB])
    vm = lab.vm(group=cid)
    before = lab.cpi.inspect_server_group(cid)
    bed.more = {"security_group_change": "refuse"}
    with pytest.raises(NotSupported, match="stopped VMs only"):
        bed.open().update_server_group(cid, lab.metadata(security_groups=[]))
    assert lab.cpi.inspect_server_group(cid) == before
    assert bed.client().listVirtualMachines(id=vm)["virtualmachine"][0]["state"] == "Running"


def test_rules_reach_the_security_group(bed: CloudstackBed, lab: Lab) -> None:
    cid = lab.group(security_groups=[WEB])
    (found,) = bed.client().listSecurityGroups(securitygroupname="web")["securitygroup"]
    (rule,) = found["ingressrule"]
    assert (rule["startport"], rule["endport"], rule["cidr"]) == (80, 90, "127.0.0.0/8")
    lab.cpi.delete_server_group(cid)
    assert bed.client().listSecurityGroups(securitygroupname="web") == {}


def test_rules_in_all_words_of_a_manifest(bed: CloudstackBed, lab: Lab) -> None:
    lab.group(
        security_groups=[SecurityGroup("out", ({"protocol": "any", "cidr": "10.0.0.0/8", "direction": "egress"},))]
    )
    (found,) = bed.client().listSecurityGroups(securitygroupname="out")["securitygroup"]
    assert [(rule["protocol"], rule["cidr"]) for rule in found["egressrule"]] == [("all", "10.0.0.0/8")]
    between = SecurityGroup("between", ({"protocol": "tcp", "ports": "80", "group": "web"},))
    with pytest.raises(InvalidCall, match="addresses only"):
        lab.cpi.create_server_group(lab.metadata(security_groups=[between]), mark=lab.mark())
    assert bed.client().listSecurityGroups(securitygroupname="between") == {}


def test_a_failing_group_takes_its_security_groups_with_it(bed: CloudstackBed, lab: Lab) -> None:
    faults.add(bed.datacenter.store, "createAffinityGroup", "error", times=1)
    with pytest.raises(CpiError):
        lab.cpi.create_server_group(lab.metadata(security_groups=[WEB]), mark=lab.mark())
    assert bed.client().listSecurityGroups(securitygroupname="web") == {}


def test_many_records_stay_readable(lab: Lab) -> None:
    groups = [lab.group(security_groups=[SecurityGroup(f"g{number}")]) for number in range(3)]
    for cid in groups:
        for names in (["a"], ["a", "b"], []):
            lab.cpi.update_server_group(cid, lab.metadata(security_groups=[SecurityGroup(name) for name in names]))
            kinds = [one.kind for one in lab.cpi.inspect_server_group(cid).resources]
            assert kinds.count("security_group") == len(names)


@pytest.mark.parametrize("mode", ["error-after-commit", "twice"])
def test_a_group_whose_creation_errs_and_yet_succeeds_is_found(bed: CloudstackBed, lab: Lab, mode: str) -> None:
    """A lost race ends in the same words as this, or in others: so after any error the group is looked for."""
    faults.add(bed.datacenter.store, "createAffinityGroup", mode, times=1)
    cid = lab.group("anti-affinity")
    (found,) = bed.client().listAffinityGroups()["affinitygroup"]
    assert found["name"] == cid


@pytest.mark.parametrize("mode", ["error-after-commit", "twice"])
def test_a_group_whose_deletion_errs_and_yet_succeeds_is_gone(bed: CloudstackBed, lab: Lab, mode: str) -> None:
    cid = lab.group("anti-affinity")
    faults.add(bed.datacenter.store, "deleteAffinityGroup", mode, times=1)
    lab.cpi.delete_server_group(cid)
    assert bed.client().listAffinityGroups() == {}


def test_a_group_that_cannot_be_deleted_is_reported(bed: CloudstackBed, lab: Lab) -> None:
    cid = lab.group("anti-affinity")
    faults.add(bed.datacenter.store, "deleteAffinityGroup", "error", times=1)
    with pytest.raises(CpiError, match="530"):
        lab.cpi.delete_server_group(cid)
    assert bed.client().listAffinityGroups()


@pytest.mark.parametrize(
    ("policy", "kind"),
    [
        ("anti-affinity", "host anti-affinity"),
        ("affinity", "host affinity"),
        ("soft-anti-affinity", "non-strict host anti-affinity"),
        ("soft-affinity", "non-strict host affinity"),
    ],
)
def test_every_policy_is_a_type_of_affinity_group(bed: CloudstackBed, lab: Lab, policy: str, kind: str) -> None:
    lab.group(policy)
    assert [one["type"] for one in bed.client().listAffinityGroups()["affinitygroup"]] == [kind]


def test_a_security_group_that_another_server_group_holds_is_in_use_without_any_vm(lab: Lab) -> None:
    maker, holder = lab.group(security_groups=[WEB]), lab.group(security_groups=[WEB])
    lab.cpi.delete_server_group(maker)
    (found,) = [one for one in lab.cpi.survey("security_group", lab.bed.director_uuid).objects if one.mark]
    assert found.mark is not None and found.mark.group_cid == maker
    assert found.in_use_by == (holder,)
    with pytest.raises(GroupInUse, match="1 server groups"):
        lab.cpi.delete_object("security_group", found.cid, Expected(found.mark, found.created_at, found.etag))
    vm = lab.vm(group=holder)
    assert lab.cpi.find("security_group", found.mark).in_use_by == (vm, holder)  # type: ignore[union-attr] # it is there


def test_rules_of_an_adopted_security_group_stay_as_they_are(bed: CloudstackBed, lab: Lab) -> None:
    lab.group(security_groups=[WEB])
    lab.group(security_groups=[SecurityGroup("web", ({"ports": "443"},), adopt=True)])
    (found,) = bed.client().listSecurityGroups(securitygroupname="web")["securitygroup"]
    assert [rule["startport"] for rule in found["ingressrule"]] == [80]


def test_one_that_was_left_without_its_rules_gets_them_with_its_next_user(bed: CloudstackBed, lab: Lab) -> None:
    mark = lab.mark()
    bed.client().createSecurityGroup(name="web", description=f"{mark.name()} {mark.director}")
    lab.group(security_groups=[WEB])
    (found,) = bed.client().listSecurityGroups(securitygroupname="web")["securitygroup"]
    assert [rule["startport"] for rule in found["ingressrule"]] == [80]
