"""What other drivers of Google Cloud got wrong, by the words of those who complained: one test for each complaint."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from peers.gcp_bed import PROJECT, GcpBed

from coterie.cpi.conformance.expect import expect_error
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import (
    AuthenticationFailed,
    CpiError,
    GroupInUse,
    InvalidCall,
    Needs,
    NoPlacement,
    NotSupported,
    OutcomeUnknown,
    PrivilegeMissing,
    QuotaExceeded,
    SecurityGroup,
    Throttled,
    Unavailable,
    read_rules,
)
from coterie.cpi.drivers.gcp.client import Client, Failed, Refusal
from coterie.cpi.drivers.gcp.machines import domain_of
from coterie.cpi.kit.calls import translate
from coterie.sandbox.fronts.gcp.call import Trick
from coterie.sandbox.quotas import set_quota


def lose_polls(bed: GcpBed, times: int, patch: pytest.MonkeyPatch) -> list[str]:
    """So many answers to `wait` are lost."""
    send, lost = Client._send, list[str]()

    def deaf(self: Client, what: str, verb: str, url: str, *rest: Any, **keywords: Any) -> Any:
        answer = send(self, what, verb, url, *rest, **keywords)
        if url.endswith("/wait") and len(lost) < times:
            lost.append(url)
            raise Unavailable("the answer was lost", remedy="repeat")
        return answer

    patch.setattr(Client, "_send", deaf)
    return lost


def counted(bed: GcpBed) -> Counter[str]:
    seen: Counter[str] = Counter()
    bed.front.watch = lambda method: seen.update([method])
    return seen


def test_bosh_google_335_a_lost_poll_is_no_lost_snapshot(
    bed: GcpBed, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, mark = lab.disk(), lab.mark()
    with monkeypatch.context() as patch:
        lost = lose_polls(bed, 3, patch)
        made = bed.open().snapshot_disk(disk, {}, mark=mark)
        lab.undo(lab.cpi.delete_snapshot, made)
    assert len(lost) == 3
    found = lab.cpi.find("snapshot", mark)
    assert found and found.cid == made


def test_bosh_google_335_a_refused_poll_leaves_the_outcome_unknown_and_a_repeat_finds_the_snapshot(
    bed: GcpBed, lab: Lab
) -> None:
    disk, mark = lab.disk(), lab.mark()
    bed.front.tricks.append(Trick("refuse", "globalOperations.wait"))
    expect_error(OutcomeUnknown, lambda: bed.open().snapshot_disk(disk, {}, mark=mark))
    before = bed.inventory()
    lab.undo(lab.cpi.delete_snapshot, bed.open().snapshot_disk(disk, {}, mark=mark))
    assert bed.inventory() == before


def test_bosh_google_names_are_searched_over_all_zones_for_every_call(bed: GcpBed, lab: Lab) -> None:
    """The zone is in the CID: one request, and none of a list."""
    vm, seen = lab.vm(), counted(bed)
    assert bed.open().has_vm(vm)
    assert seen == {"instances.get": 1}


def test_bosh_google_names_match_by_their_end(bed: GcpBed, lab: Lab) -> None:
    theirs = bed.operator.create_vm("web", "z1")
    lab.undo(bed.operator.delete, "vm", theirs)
    assert lab.cpi.has_vm("z1/web")
    assert not lab.cpi.has_vm("z1/eb") and not lab.cpi.has_vm("z2/web") and not lab.cpi.has_vm("web")


def test_each_creation_carries_a_request_id_that_follows_from_the_mark(bed: GcpBed, lab: Lab) -> None:
    """So the same request is the same operation, also while the first one is on its way."""
    bed.front.settings.operation_s = 0.2
    mark, seen = lab.mark(), counted(bed)
    with ThreadPoolExecutor(4) as pool:
        made = set(pool.map(lambda _: bed.open().create_disk(1024, {}, mark=mark), range(4)))
    lab.undo(lab.cpi.delete_disk, *made)
    bed.front.settings.operation_s = 0.0
    assert len(made) == 1
    assert seen["disks.insert"] == 4
    assert len({one for _, one in bed.front.requests.values() if one}) >= 1
    assert sum(key.startswith("disks.insert") for key, _ in bed.front.requests.values()) == 1


def test_a_request_id_of_something_that_is_gone_again_creates_it_anew(bed: GcpBed, lab: Lab) -> None:
    mark = lab.mark()
    first = bed.open().create_disk(1024, {}, mark=mark)
    lab.cpi.delete_disk(first)
    lab.undo(lab.cpi.delete_disk, bed.open().create_disk(1024, {}, mark=mark))
    assert lab.cpi.has_disk(first)


def test_bosh_google_318_leaving_what_one_is_not_in_is_success(bed: GcpBed, lab: Lab) -> None:
    vm, disk = lab.vm(), lab.disk()
    lab.cpi.detach_disk(vm, disk)
    lab.cpi.attach_disk(vm, disk)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: bed.open().detach_disk(vm, disk), range(3)))
    assert lab.cpi.get_disks(vm) == []


def test_bosh_google_298_two_deletions_race_and_both_succeed(bed: GcpBed, lab: Lab) -> None:
    """The second operation ends in "was not found"."""
    bed.front.settings.operation_s = 0.2
    vm = bed.open().create_vm(**lab.vm_arguments()).cid
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: bed.open().delete_vm(vm), range(3)))
    bed.front.settings.operation_s = 0.0
    assert not lab.cpi.has_vm(vm)


def test_an_operation_that_outlasts_the_deadline_is_unknown_and_not_failed(bed: GcpBed, lab: Lab) -> None:
    bed.front.settings.operation_s, bed.front.settings.wait_s = 1.0, 0.0
    bed.more["state_timeout"] = 0.2
    mark = lab.mark()
    error = expect_error(OutcomeUnknown, lambda: bed.open().create_disk(1024, {}, mark=mark))
    assert "within 0 s" in error.what and "operation-" in error.why
    time.sleep(1.0)
    bed.front.settings.operation_s = 0.0
    found = bed.open().find("disk", mark)
    assert found
    lab.undo(lab.cpi.delete_disk, found.cid)


def test_a_wait_that_returns_early_is_called_again(bed: GcpBed, lab: Lab) -> None:
    bed.front.settings.operation_s, bed.front.settings.wait_s = 0.2, 0.02
    seen = counted(bed)
    lab.disk()
    assert seen["zoneOperations.wait"] > 2
    bed.front.settings.operation_s = 0.0


def test_bosh_google_203_a_token_is_signed_without_a_request(bed: GcpBed, lab: Lab) -> None:
    """The key's own token endpoint answers nothing here."""
    assert bed.properties()["json_key"]["token_uri"].endswith(":1/token")
    assert not bed.open().has_vm("z1/a")
    assert not bed.peer.identity.tokens.keys() & bed.peer.identity.seen


def test_bosh_google_205_a_question_is_repeated_and_a_change_is_not(bed: GcpBed, lab: Lab) -> None:
    bed.front.tricks.append(Trick("throttle", "disks.get"))
    assert not lab.cpi.has_disk("z1/a")
    seen = counted(bed)
    bed.front.tricks.append(Trick("throttle", "disks.insert"))
    expect_error(Throttled, lambda: lab.cpi.create_disk(1024, {}, mark=lab.mark()))
    assert seen["disks.insert"] == 1


def test_bosh_google_134_what_is_missing_is_told_before_anything_is_made(bed: GcpBed, lab: Lab) -> None:
    networks = {"default": {"type": "dynamic", "cloud_properties": {"subnetwork_name": "nonesuch"}}}
    arguments, seen = lab.vm_arguments(), counted(bed)
    for changed, word in (
        ({"networks": networks}, "nonesuch"),
        ({"networks": {**arguments["networks"], "out": {"type": "vip", "ip": "198.51.100.77"}}}, "198.51.100.77"),
        ({"stemcell_cid": "cot-none"}, "cot-none"),
        ({"disk_cids": ["z2/cot-a"]}, "not in zone z1"),
    ):
        error = expect_error(CpiError, partial(lab.cpi.create_vm, **{**arguments, **changed}))
        assert word in error.what and error.remedy
    assert "instances.insert" not in seen


def test_vagrant_google_112_a_failed_instance_leaves_no_boot_disk(bed: GcpBed, lab: Lab) -> None:
    """Also where the cloud leaves it: it has its name from the mark."""
    lab.image()
    before = bed.inventory()
    bed.front.compute.leaves_disks = True
    huge = {**bed.huge_vm_properties("z1"), "ephemeral_disk_size_gb": 1}
    expect_error(NoPlacement, lambda: lab.cpi.create_vm(**lab.vm_arguments(cloud_properties=huge)))
    assert bed.inventory() == before


def test_kcli_542_a_name_that_a_failure_left_does_not_block_the_next(bed: GcpBed, lab: Lab) -> None:
    arguments = lab.vm_arguments()
    bed.front.tricks.append(Trick("fail", "instances.insert"))
    expect_error(CpiError, lambda: lab.cpi.create_vm(**arguments))
    lab.undo(lab.cpi.delete_vm, lab.cpi.create_vm(**arguments).cid)


def test_kube_gce_cleanup_11_firewall_rules_go_with_their_group(bed: GcpBed, lab: Lab) -> None:
    before = bed.inventory()
    wanted = SecurityGroup("web", ({"ports": "80"}, {"direction": "egress", "cidr": "10.0.0.0/8"}))
    cid = lab.cpi.create_server_group(lab.metadata(security_groups=[wanted]), mark=lab.mark())
    assert len([kind for kind, _ in bed.inventory() - before if kind == "security_group"]) == 5
    lab.cpi.delete_server_group(cid)
    assert bed.inventory() == before


def test_scylla_4070_every_disk_bears_a_label_that_lists_can_filter_by(bed: GcpBed, lab: Lab) -> None:
    """Boot disks, too; those of a living VM are no objects of their own, and one that lost its VM is."""
    mark = lab.mark()
    vm = lab.vm(mark=mark, cloud_properties={**bed.vm_properties("z1"), "ephemeral_disk_size_gb": 1})
    for part in ("os", "eph"):
        row = bed.operator.witness.ask("GET", f"zones/z1/disks/{mark.name()}-{part}")
        assert row["labels"]["coterie-intent"] == mark.intent and row["labels"]["coterie-vm"] == mark.name()
    assert lab.cpi.survey("disk", bed.director_uuid).objects == ()
    row = bed.operator.witness.ask("GET", f"zones/z1/instances/{mark.name()}")
    found = bed.front.shelf.get(f"zones/z1/instances/{mark.name()}")
    assert found and row["disks"]
    for disk in found.row["disks"]:
        disk["autoDelete"] = False
    bed.operator.delete("vm", vm)
    assert len(lab.cpi.survey("disk", bed.director_uuid).objects) == 2
    lab.cpi.delete_vm(vm)


def test_karpenter_gcp_242_one_deletion_that_is_proven(bed: GcpBed, lab: Lab) -> None:
    vm = lab.vm()
    seen = counted(bed)
    lab.cpi.delete_vm(vm)
    assert seen["instances.delete"] == 1 and seen["instances.get"] == 2


def test_kubernetes_67348_members_are_listed_at_once(bed: GcpBed, lab: Lab) -> None:
    group = lab.group()
    for _ in range(4):
        lab.vm(group=group)
    seen = counted(bed)
    assert len(lab.cpi.inspect_server_group(group).members) == 4
    assert seen["instances.get"] == 0 and seen["instances.aggregatedList"] == 2


def test_terraform_google_9435_a_policy_with_members_is_not_made_anew(bed: GcpBed, lab: Lab) -> None:
    """The cloud itself refuses its deletion, also of another owner's member."""
    cid = lab.group()
    theirs = bed.operator.boot("pet", "z1", cid)
    lab.undo(bed.operator.delete, "vm", theirs)
    expect_error(GroupInUse, lambda: lab.cpi.delete_server_group(cid))
    assert lab.cpi.inspect_server_group(cid).state == "live"


# -- placement --


def test_members_take_their_domains_by_their_numbers(bed: GcpBed, lab: Lab) -> None:
    group, seen = lab.group("anti-affinity"), counted(bed)
    vms = [lab.vm(group=group, member=number) for number in (3, 0, 6, 1)]
    members = {one.vm_cid: one.domain for one in lab.cpi.inspect_server_group(group).members}
    assert [members[vm] for vm in vms] == ["z1/4", "z1/1", "z1/3", "z1/2"]
    assert seen["instances.insert"] == 4


def test_a_soft_group_names_no_domain(bed: GcpBed, lab: Lab) -> None:
    vm = lab.vm(group=lab.group("soft-anti-affinity"), member=3)
    row = bed.operator.witness.ask("GET", f"zones/z1/instances/{vm.split('/')[1]}")
    assert "availabilityDomain" not in row["scheduling"] and domain_of(row)


def test_compact_policies_are_not_sold_as_affinity(bed: GcpBed, lab: Lab) -> None:
    for policy in ("affinity", "soft-affinity"):
        expect_error(NotSupported, partial(lab.cpi.create_server_group, lab.metadata(policy), mark=lab.mark()))
    body = {"name": "compact", "groupPlacementPolicy": {"collocation": "COLLOCATED"}}
    bed.operator.witness.ask("POST", "regions/lab1/resourcePolicies", body)
    lab.undo(bed.operator.delete, "server_group", "compact")
    asked = lab.metadata(options={"name": "compact", "adopt": True})
    expect_error(InvalidCall, lambda: lab.cpi.create_server_group(asked, mark=lab.mark()))


def test_a_node_group_is_adopted_and_its_members_are_on_its_nodes(bed: GcpBed, lab: Lab) -> None:
    bed.operator.create_nodes("licensed", "z1", 2)
    bed.more["policies"] = ["host-affinity", "soft-anti-affinity"]
    cpi = bed.open()
    wanted = lab.metadata("host-affinity", options={"name": "licensed", "adopt": True})
    group = cpi.create_server_group(wanted, mark=lab.mark())
    arguments = lab.vm_arguments("z1", group)
    vm = cpi.create_vm(**arguments).cid
    lab.undo(cpi.delete_vm, vm)
    view = cpi.inspect_server_group(group)
    assert view.hosts and [one.vm_cid for one in view.members] == [vm]
    assert view.members[0].host in view.hosts
    error = expect_error(CpiError, lambda: cpi.create_vm(**lab.vm_arguments("z2", group)))
    assert error.what and not isinstance(error, OutcomeUnknown)
    asked = lab.metadata("host-affinity")
    expect_error(InvalidCall, lambda: cpi.create_server_group(asked, mark=lab.mark()))


# -- surveys and doubt --


def test_a_zone_that_does_not_answer_proves_nothing(bed: GcpBed, lab: Lab) -> None:
    lab.disk()
    bed.front.unreachable = {"z2"}
    page = lab.cpi.survey("disk", bed.director_uuid)
    bed.front.unreachable = set()
    assert len(page.objects) == 1 and page.complete is False


def test_a_zone_that_does_not_answer_keeps_a_group(bed: GcpBed, lab: Lab) -> None:
    group = lab.group(security_groups=[SecurityGroup("web")])
    bed.front.unreachable = {"z2"}
    expect_error(Unavailable, lambda: bed.open().delete_server_group(group))
    bed.front.unreachable = set()
    assert lab.cpi.inspect_server_group(group).state == "live"


def test_a_cloud_that_ignores_the_filter_is_noticed(bed: GcpBed, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = bed.operator.create("disk", "z1")
    assert theirs
    lab.undo(bed.operator.delete, "disk", theirs)
    page, cpi = Client.page, bed.open()

    def without(self: Client, kind: str, path: str, cursor: str | None = None, **query: str) -> Any:
        query.pop("filter", None)
        return page(self, kind, path, cursor, **query)

    monkeypatch.setattr(Client, "page", without)
    found = cpi.survey("disk", bed.director_uuid)
    assert found.complete is False and found.objects == ()


def test_a_name_that_is_free_again_is_another_object(bed: GcpBed, lab: Lab) -> None:
    from coterie.cpi.contract import Changed, Expected

    mark = lab.mark()
    disk = lab.disk(mark=mark)
    first = lab.cpi.find("disk", mark)
    assert first
    lab.cpi.delete_disk(disk)
    bed.open().create_disk(1024, {}, mark=mark)
    expected = Expected(first.mark, None, first.etag)
    expect_error(Changed, lambda: lab.cpi.delete_object("disk", disk, expected))
    assert lab.cpi.has_disk(disk)


def test_a_project_that_is_not_there_is_no_missing_vm(bed: GcpBed, lab: Lab) -> None:
    bed.more["project"] = "another-project"
    error = expect_error(CpiError, lambda: bed.open().has_vm("z1/a"))
    assert "projects/another-project" in error.why


def test_labels_of_other_writers_stay(bed: GcpBed, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Google replaces all labels: the fingerprint tells that another writer came first."""
    disk, change = lab.disk(), Client.change
    name, others = disk.split("/")[1], iter(range(1))

    def disturbed(self: Client, what: str, verb: str, path: str, *rest: Any, **query: str) -> None:
        if path.endswith("/setLabels") and next(others, None) is not None:
            row = bed.operator.witness.ask("GET", f"zones/z1/disks/{name}")
            body = {"labels": {**row["labels"], "theirs": "x"}, "labelFingerprint": row["labelFingerprint"]}
            bed.operator.witness.ask("POST", f"zones/z1/disks/{name}/setLabels", body)
        change(self, what, verb, path, *rest, **query)

    monkeypatch.setattr(Client, "change", disturbed)
    lab.cpi.set_disk_metadata(disk, {"ours": "Y z"})
    row = bed.operator.witness.ask("GET", f"zones/z1/disks/{name}")
    assert row["labels"]["theirs"] == "x" and row["labels"]["ours"] == "y_z"
    assert row["labels"]["coterie-director"] == bed.director_uuid


# -- errors, quotas, rights, bad input --


@pytest.mark.parametrize(
    ("code", "status", "text", "kind"),
    [
        ("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", 503, "The zone is full", NoPlacement),
        ("INVALID_USAGE", 400, "The zone does not have enough resources for the placement policy", NoPlacement),
        ("QUOTA_EXCEEDED", 403, "Quota 'CPUS' exceeded", QuotaExceeded),
        ("quotaExceeded", 403, "Quota 'CPUS' exceeded", QuotaExceeded),
        ("rateLimitExceeded", 403, "slow down", Throttled),
        ("userRateLimitExceeded", 403, "slow down", Throttled),
        ("RESOURCE_OPERATION_RATE_EXCEEDED", 429, "slow down", Throttled),
        ("IP_IN_USE_BY_ANOTHER_RESOURCE", 400, "IP '10.0.0.5' is already being used by another resource", InvalidCall),
        ("authError", 401, "bad token", AuthenticationFailed),
        ("accessNotConfigured", 403, "API is off", PrivilegeMissing),
        ("forbidden", 403, "Required 'compute.disks.create' permission", PrivilegeMissing),
        ("resourceNotReady", 400, "not ready", Unavailable),
    ],
)
def test_each_refusal_has_its_error(code: str, status: int, text: str, kind: type[CpiError]) -> None:
    error = translate(Refusal("make it", code, text, status))
    assert type(error) is kind and error.remedy and text in error.why
    assert isinstance(Failed("make it", code, text, status), Refusal)


def test_an_exhausted_quota_names_its_metric(bed: GcpBed, lab: Lab) -> None:
    lab.image()
    set_quota(bed.peer.datacenter, "kit", "cpu", 0)
    error = expect_error(QuotaExceeded, lambda: lab.cpi.create_vm(**lab.vm_arguments()))
    set_quota(bed.peer.datacenter, "kit", "cpu", None)
    assert "compute.googleapis.com/cpus" in error.why and "limit of" in error.why


def test_a_missing_right_is_told_by_name(bed: GcpBed, lab: Lab) -> None:
    bed.peer.identity.permissions = {"compute.disks.create"}
    (item,) = [one for one in lab.cpi.check() if one.what == "rights"]
    assert not item.ok and "compute.instances.create" in item.detail and "gcp-role" in item.remedy
    bed.peer.identity.permissions, bed.peer.identity.has_resource_manager = None, False
    (item,) = [one for one in lab.cpi.check() if one.what == "rights"]
    assert item.ok and "cannot be asked" in item.detail


def test_rules_that_firewalls_do_not_have_are_refused_beforehand(bed: GcpBed, lab: Lab) -> None:
    before = bed.inventory()
    for rule in (
        {"protocol": "tcp", "ports": "80", "group": "web", "direction": "egress"},
        {"protocol": "icmp", "ports": "8-0", "cidr": "10.0.0.0/8"},
        {"protocol": "gre", "cidr": "10.0.0.0/8"},
    ):
        wanted = SecurityGroup("web", (rule,))
        refused = partial(lab.cpi.create_server_group, lab.metadata(security_groups=[wanted]), mark=lab.mark())
        error = expect_error(NotSupported, refused)
        group = {"name": "g", "policy": lab.policy, "security_groups": [wanted.wire()]}
        told = [item.detail for item in lab.cpi.check(Needs(groups=(group,))) if not item.ok]
        assert len(told) == 1 and error.what in told[0]
    assert bed.inventory() == before


def test_security_groups_of_another_network_are_refused(bed: GcpBed, lab: Lab) -> None:
    """Firewall rules are of one network: a NIC in another would have none."""
    witness = bed.operator.witness
    witness.ask("POST", "global/networks", {"name": "other", "autoCreateSubnetworks": False})
    body = {"name": "other", "network": f"projects/{PROJECT}/global/networks/other", "ipCidrRange": "10.66.0.0/24"}
    witness.ask("POST", "regions/lab1/subnetworks", body)
    lab.undo(bed.operator.delete, "network", "other")
    group = lab.group(security_groups=[SecurityGroup("web")])
    networks = {"default": {"type": "dynamic", "cloud_properties": {"subnetwork_name": "other"}}}
    error = expect_error(InvalidCall, lambda: lab.vm(group=group, networks=networks))
    assert "default_network" in error.remedy


def _person(**changed: Any) -> dict[str, Any]:
    """A rule as the console writes it, for the tag of a security group."""
    ends = {} if "direction" in changed or "sourceTags" in changed else {"sourceRanges": ["192.0.2.0/24"]}
    action = {} if "denied" in changed else {"allowed": [{"IPProtocol": "tcp", "ports": ["22"]}]}
    return {"name": "theirs", **ends, **action, **changed}


_ACCOUNT = "build@lab-project.iam.gserviceaccount.com"


@pytest.mark.parametrize(
    ("rule", "drift"),
    [
        (_person(), "ingress tcp 22 from 192.0.2.0/24"),
        (_person(sourceTags=["build"]), "ingress tcp 22 from group build"),
        (_person(sourceServiceAccounts=[_ACCOUNT]), "ingress tcp 22 from rule theirs"),
        (_person(denied=[{"IPProtocol": "tcp", "ports": ["80"]}]), "ingress tcp 80 from rule theirs"),
        (_person(priority=10), "ingress tcp 22 from rule theirs"),
        (_person(disabled=True), "ingress tcp 22 from disabled rule theirs"),
        (_person(direction="EGRESS", destinationRanges=["192.0.2.0/24"]), "egress tcp 22 to rule theirs"),
    ],
)
def test_a_rule_that_a_person_wrote_for_the_tag_is_drift_and_goes(
    bed: GcpBed, lab: Lab, rule: dict[str, Any], drift: str
) -> None:
    """Wherever it stands in the network's list; strangers' rules of other tags and of all machines stay."""
    strangers = [bed.operator.create_security_group(f"a-stranger-{n}") for n in range(bed.page_size)]
    bed.operator.witness.ask("POST", "global/firewalls", _person(name="for-all"))
    for name in (*strangers, "for-all"):
        lab.undo(bed.operator.delete, "security_group", name)
    group, cid = _group_of_web(bed, lab)
    assert _rules(lab, group) == _WEB_RULES
    bed.operator.witness.ask("POST", "global/firewalls", {**rule, "targetTags": [cid]})
    assert _rules(lab, group) == sorted({*_WEB_RULES, drift})
    lab.cpi.update_server_group(group, lab.metadata(security_groups=[_WEB]))
    assert _rules(lab, group) == _WEB_RULES
    assert not bed.operator.exists("security_group", "theirs")
    assert all(bed.operator.exists("security_group", name) for name in (*strangers, "for-all"))


def test_a_persons_rule_for_other_machines_too_stays_for_these(bed: GcpBed, lab: Lab) -> None:
    group, cid = _group_of_web(bed, lab)
    bed.operator.witness.ask("POST", "global/firewalls", _person(targetTags=["laptops", cid]))
    lab.undo(bed.operator.delete, "security_group", "theirs")
    lab.cpi.update_server_group(group, lab.metadata(security_groups=[_WEB]))
    assert _rules(lab, group) == _WEB_RULES
    assert bed.operator.witness.ask("GET", "global/firewalls/theirs")["targetTags"] == ["laptops"]


_DENIED_IN = "ingress any from what {} denied"
_DENIED_OUT = "egress any to what {}-deny-out denied"


@pytest.mark.parametrize(
    ("part", "change", "drift"),
    [
        ("", {"disabled": True}, _DENIED_IN),
        ("", {"sourceRanges": ["192.0.2.0/24"]}, _DENIED_IN),
        ("", {"priority": 60000}, _DENIED_IN),
        ("", {"targetTags": ["nothing"]}, _DENIED_IN),
        ("-deny-out", None, _DENIED_OUT),
        ("-deny-out", {"disabled": True}, _DENIED_OUT),
        ("-deny-out", {"denied": [{"IPProtocol": "tcp"}]}, _DENIED_OUT),
    ],
)
def test_a_denying_rule_of_ours_that_is_gone_or_changed_is_drift_and_comes_back(
    bed: GcpBed, lab: Lab, part: str, change: dict[str, Any] | None, drift: str
) -> None:
    group, cid = _group_of_web(bed, lab)
    name = f"{cid}{part}"
    before = bed.operator.witness.ask("GET", f"global/firewalls/{name}")
    _change_rule(bed, name, change)
    assert set(_rules(lab, group)) - set(_WEB_RULES) == {drift.format(cid)}
    lab.cpi.update_server_group(group, lab.metadata(security_groups=[_WEB]))
    assert _rules(lab, group) == _WEB_RULES
    after = bed.operator.witness.ask("GET", f"global/firewalls/{name}")
    said = ("disabled", "priority", "denied", "sourceRanges", "destinationRanges", "targetTags", "description")
    assert [after.get(key) for key in said] == [before.get(key) for key in said]


@pytest.mark.parametrize(
    ("change", "drift"),
    [
        ({"disabled": True}, "ingress tcp 80 from disabled rule {}"),
        ({"priority": 60000}, "ingress tcp 80 from rule {}"),
        ({"targetTags": ["nothing"]}, "ingress tcp 80 from rule {}"),
        ({"sourceRanges": ["10.1.0.0/16"]}, "ingress tcp 80 from 10.1.0.0/16"),
    ],
)
def test_a_rule_of_ours_that_a_person_changed_is_drift_and_is_mended_in_place(
    bed: GcpBed, lab: Lab, change: dict[str, Any], drift: str
) -> None:
    group, cid = _group_of_web(bed, lab)
    rows = bed.operator.witness.ask("GET", "global/firewalls")["items"]
    (row,) = [one for one in rows if one["name"].startswith(f"{cid}-") and one["direction"] == "INGRESS"]
    _change_rule(bed, row["name"], change)
    assert _rules(lab, group) == sorted({*_WEB_RULES[:1], drift.format(row["name"])})
    lab.cpi.update_server_group(group, lab.metadata(security_groups=[_WEB]))
    assert _rules(lab, group) == _WEB_RULES
    assert bed.operator.witness.ask("GET", f"global/firewalls/{row['name']}")["id"] == row["id"]


def test_a_persons_rules_about_what_leaves_go_and_nothing_is_cut_off_meanwhile(bed: GcpBed, lab: Lab) -> None:
    plain = SecurityGroup("kit-plain", ({"protocol": "tcp", "ports": "80", "cidr": "10.0.0.0/8"},))
    group = lab.group(security_groups=[plain])
    (cid,) = (one.cid for one in lab.cpi.inspect_server_group(group).resources if one.kind == "security_group")
    denied = _person(name=f"{cid}-deny-out", direction="EGRESS", denied=[{"IPProtocol": "all"}], targetTags=[cid])
    allowed = _person(direction="EGRESS", destinationRanges=["192.0.2.0/24"], targetTags=[cid])
    for rule, drift in (
        ({**denied, "destinationRanges": ["0.0.0.0/0"]}, f"egress any to what {cid}-deny-out denies"),
        (allowed, "egress tcp 22 to rule theirs"),
    ):
        bed.operator.witness.ask("POST", "global/firewalls", rule)
        assert _rules(lab, group) == [drift, "ingress tcp 80 from 10.0.0.0/8"]
        seen = counted(bed)
        lab.cpi.update_server_group(group, lab.metadata(security_groups=[plain]))
        assert (seen["firewalls.insert"], seen["firewalls.delete"]) == (0, 1)
        assert _rules(lab, group) == ["ingress tcp 80 from 10.0.0.0/8"]


def test_a_persons_rule_stays_when_its_security_group_goes(bed: GcpBed, lab: Lab) -> None:
    """Without the tag it is of no machine, and no plan named it."""
    cid = lab.cpi.create_server_group(lab.metadata(security_groups=[_WEB]), mark=lab.mark())
    (web,) = (one.cid for one in lab.cpi.inspect_server_group(cid).resources if one.kind == "security_group")
    bed.operator.witness.ask("POST", "global/firewalls", _person(targetTags=[web]))
    lab.undo(bed.operator.delete, "security_group", "theirs")
    lab.cpi.delete_server_group(cid)
    assert bed.operator.exists("security_group", "theirs")
    assert not bed.operator.exists("security_group", web)


_WEB = SecurityGroup(
    "kit-web",
    ({"protocol": "tcp", "ports": "80", "cidr": "10.0.0.0/8"}, {"direction": "egress", "cidr": "10.0.0.0/8"}),
)
_WEB_RULES = ["egress tcp to 10.0.0.0/8", "ingress tcp 80 from 10.0.0.0/8"]


def _group_of_web(bed: GcpBed, lab: Lab) -> tuple[str, str]:
    """The CIDs of a server group and of its security group."""
    group = lab.group(security_groups=[_WEB])
    (cid,) = (one.cid for one in lab.cpi.inspect_server_group(group).resources if one.kind == "security_group")
    return group, cid


def _change_rule(bed: GcpBed, name: str, change: dict[str, Any] | None) -> None:
    path = f"global/firewalls/{name}"
    if change is None:
        bed.operator.witness.ask("DELETE", path)
    else:
        bed.operator.witness.ask("PATCH", path, {"name": name, **change})


def _rules(lab: Lab, group: str) -> list[str]:
    found = lab.cpi.inspect_server_group(group).resources
    return sorted({str(rule) for one in found for rule in read_rules(one.rules or ())})


def test_an_image_whose_roles_are_not_shown_is_not_called_unused(bed: GcpBed, lab: Lab) -> None:
    cid = lab.cpi.create_stemcell(*bed.image(), mark=lab.mark())
    lab.undo(lab.cpi.delete_stemcell, cid)
    bed.front.tricks.append(Trick("refuse", "images.getIamPolicy"))
    expect_error(PrivilegeMissing, lambda: lab.cpi.survey("image", bed.director_uuid))
    assert [one.in_use_by for one in lab.cpi.survey("image", bed.director_uuid).objects if one.cid == cid] == [()]


@pytest.mark.parametrize(
    ("properties", "word"),
    [
        ({"target_pool": "a"}, "balancers"),
        ({"backend_service": "a"}, "balancers"),
        ({"preemptible": True}, "preemptible"),
        ({"node_group": "a"}, "adopt"),
        ({"ephemeral_external_ip": True}, "vip"),
        ({"cpu": 2}, "both cpu and ram"),
        ({"labels": {"Team": "a"}}, "lower-case"),
        ({"labels": {"coterie-intent": "a"}}, "coterie-"),
        ({"tags": ["Not_a_tag"]}, "lower-case"),
    ],
)
def test_words_that_are_refused_have_a_remedy(bed: GcpBed, lab: Lab, properties: dict[str, Any], word: str) -> None:
    given = {**bed.vm_properties("z1"), **properties}
    error = expect_error(InvalidCall, lambda: lab.cpi.create_vm(**lab.vm_arguments(cloud_properties=given)))
    assert word in f"{error.what} {error.remedy}"


def test_a_custom_machine_is_named_by_cpu_and_ram(bed: GcpBed, lab: Lab) -> None:
    vm = lab.vm(cloud_properties={"cpu": 2, "ram": 4096, "zone": "z1"})
    row = bed.operator.witness.ask("GET", f"zones/z1/instances/{vm.split('/')[1]}")
    assert row["machineType"].endswith("/custom-2-4096")


def test_a_protected_vm_is_kept_and_the_error_says_why(bed: GcpBed, lab: Lab) -> None:
    vm = lab.vm()
    bed.operator.witness.ask("POST", f"zones/z1/instances/{vm.split('/')[1]}/setDeletionProtection")
    error = expect_error(CpiError, lambda: lab.cpi.delete_vm(vm))
    assert "protected" in error.why and lab.cpi.has_vm(vm)
    path = f"zones/z1/instances/{vm.split('/')[1]}/setDeletionProtection?deletionProtection=false"
    bed.operator.witness.ask("POST", path)


def test_a_stopped_vm_is_started_by_a_reboot_and_a_suspended_one_resumed(bed: GcpBed, lab: Lab) -> None:
    vm = lab.vm()
    path = f"zones/z1/instances/{vm.split('/')[1]}"
    for action in ("stop", "suspend"):
        bed.operator.witness.ask("POST", f"{path}/{action}")
        lab.cpi.reboot_vm(vm)
        assert bed.operator.witness.ask("GET", path)["status"] == "RUNNING"


def test_the_type_of_a_disk_is_for_life(bed: GcpBed, lab: Lab) -> None:
    disk = lab.disk()
    expect_error(NotSupported, lambda: lab.cpi.update_disk(disk, 1024, {"type": "pd-ssd"}))
    assert lab.cpi.update_disk(disk, 2048, {"type": "pd-balanced", "iops": 3000, "throughput": 200}) is None
    row = bed.operator.witness.ask("GET", f"zones/z1/disks/{disk.split('/')[1]}")
    assert (row["sizeGb"], row["provisionedIops"], row["provisionedThroughput"]) == ("2", "3000", "200")
