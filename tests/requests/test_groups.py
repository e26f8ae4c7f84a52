"""Server groups: planned, created in the cloud, audited."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from coterie.errors import InvalidDocument, Refused
from coterie.ledger.tables import server_group_users, server_groups
from coterie.requests import looks
from coterie.requests.audit import placement_audit
from coterie.sandbox import faults
from coterie.sandbox.accounts import open_account
from coterie.sandbox.datacenter import Account, open_datacenter
from coterie.sandbox.server_groups import create_server_group, delete_server_group
from tests.requests.site import Site, group, manifest

SOFT = "placement: {policy: soft-anti-affinity, server_group: data}"
STRICT = "placement: {policy: anti-affinity, server_group: data}"
ADOPT = "placement: {policy: anti-affinity, server_group: data, adopt: true}"


def group_rows(site: Site) -> list[tuple[str, str, str]]:
    with site.ledger.read() as tx:
        return [
            (r.name, r.cloud, r.state) for r in tx.execute(sa.select(server_groups).order_by(server_groups.c.intent))
        ]


def operators_group(site: Site, name: str) -> str:
    """A group that an operator made by that very name, past Coterie."""
    return create_server_group(operator(site), name=name, policy="anti-affinity").id


def operator(site: Site) -> Account:
    return open_account(open_datacenter(site.folder / "sandbox.db"), "lab", operator=True)


def test_one_group_although_many_nodes_start_at_once(here: Site) -> None:
    here.config = here.config.replace(
        "settle_s: 0.1", "settle_s: 0.1, quotas: {instances: 1000, server_group_members: 1000}"
    )
    here.deploy(manifest(group("a", 100, SOFT), group("b", 100, SOFT)))
    (one,) = here.held("server_group")
    view = here.cpi().inspect_server_group(group_cid(here))
    assert len(view.members) == 200
    assert one.mark is not None


def group_cid(site: Site) -> str:
    with site.ledger.read() as tx:
        found: str = tx.execute(sa.select(server_groups.c.cid).where(server_groups.c.state == "live")).scalar_one()
        return found


def test_a_group_is_there_before_its_first_vm_and_gone_after_its_last(here: Site) -> None:
    task = here.deploy(manifest(group("a", 2, STRICT)))
    kinds = here.kinds(task)
    assert kinds.index("group.ready") < kinds.index("node.up")
    task = here.delete()
    kinds = here.kinds(task)
    assert kinds.index("group.deleted") > max(n for n, kind in enumerate(kinds) if kind == "node.deleted")
    assert here.held("server_group") == []


def test_instance_groups_share_a_group_and_the_ledger_says_so(here: Site) -> None:
    here.deploy(manifest(group("a", 2, SOFT), group("b", 1, SOFT), group("c", 1)))
    with here.ledger.read() as tx:
        assert tx.execute(sa.select(sa.func.count()).select_from(server_group_users)).scalar_one() == 2
    assert group_rows(here) == [("data", "lab", "live")]
    assert here.nodes()["c/0"].server_group is None


def test_auto_anti_affinity_gives_each_instance_group_its_own(local: Site) -> None:
    local.deploy(manifest(group("a", 2), group("b", 2), extra="features: {enable_auto_anti_affinity: true}\n"))
    assert sorted(group_rows(local)) == [("a", "lab", "live"), ("b", "lab", "live")]
    report = placement_audit(local.ledger, "dep")
    assert {g["policy"] for g in report["groups"]} == {"soft-anti-affinity"}


def test_the_director_may_switch_auto_anti_affinity_on_for_all(local: Site) -> None:
    local.deploy(manifest(group("a", 2)), auto_anti_affinity=True)
    assert group_rows(local) == [("a", "lab", "live")]


def test_security_groups_are_made_shared_and_removed_with_their_last_user(local: Site) -> None:
    rules = "security_groups: [{name: kafka, rules: [{protocol: tcp, ports: '9092', cidr: 10.0.0.0/8}]}]\n"
    both = manifest(group("a", 1, "security_groups: [kafka]"), group("b", 1, "security_groups: [kafka]"), extra=rules)
    local.deploy(both)
    assert [found.name for found in local.held("security_group")] == ["kafka"]
    local.deploy(manifest(group("a", 1, "security_groups: [kafka]"), extra=rules))
    assert len(local.held("security_group")) == 1
    local.delete()
    assert local.held("security_group") == []


def test_security_groups_change_in_place(local: Site) -> None:
    local.deploy(manifest(group("a", 1, "security_groups: [one]")))
    before = local.nodes()["a/0"].vm_cid
    local.deploy(manifest(group("a", 1, "security_groups: [one, two]")))
    assert local.nodes()["a/0"].vm_cid == before
    assert {found.name for found in local.held("security_group")} == {"one", "two"}


def test_a_policy_change_moves_the_nodes_into_a_new_group(here: Site) -> None:
    here.deploy(manifest(group("a", 3, SOFT)))
    first = group_cid(here)
    here.deploy(manifest(group("a", 3, STRICT)))
    assert group_cid(here) != first
    assert here.cpi().inspect_server_group(first).state == "missing"
    assert len(here.cpi().inspect_server_group(group_cid(here)).members) == 3
    assert group_rows(here) == [("data", "lab", "gone"), ("data", "lab", "live")]


def test_a_forbidden_policy_change_changes_nothing(local: Site) -> None:
    local.deploy(manifest(group("a", 2, SOFT)))
    forbidden = "placement: {policy: anti-affinity, server_group: data, recreate_on_policy_change: false}"
    before = local.rows()
    with pytest.raises(Refused, match="forbids"):
        local.deploy(manifest(group("a", 2, forbidden)))
    assert {k: v for k, v in local.rows().items() if k != "facts"} == {k: v for k, v in before.items() if k != "facts"}


def test_an_operators_group_is_neither_used_nor_touched_unless_adopted(local: Site) -> None:
    local.deploy(manifest(group("x", 1)))
    theirs = operators_group(local, "data")
    with pytest.raises(Refused, match=r"placement\.server_group: .*'data' exists and is not ours; .*adopt: true"):
        local.plan(manifest(group("a", 2, STRICT)))
    task = local.deploy(manifest(group("a", 2, ADOPT)))
    assert "group.adopted data@lab: the operator's server group" in local.story(task)
    assert "1 to adopt" in local.story(task)
    assert group_cid(local) == f"ext-{theirs}"
    assert len(local.cpi().inspect_server_group(f"ext-{theirs}").members) == 2
    assert local.plan(manifest(group("a", 2, ADOPT))).changes == ()
    story = local.story(local.delete())
    assert "group.left" in story and "group.deleted" not in story
    assert local.cpi().inspect_server_group(f"ext-{theirs}").state == "live"


def test_what_cannot_be_adopted_is_refused_before_anything_is_done(local: Site) -> None:
    before = local.rows()
    with pytest.raises(Refused, match=r"placement\.adopt: there is no server group 'data' to adopt"):
        local.plan(manifest(group("a", 2, ADOPT)))
    operators_group(local, "data")
    with pytest.raises(Refused, match=r"placement\.policy: .*has policy anti-affinity, not soft-anti-affinity"):
        local.plan(manifest(group("a", 2, ADOPT.replace("anti-affinity", "soft-anti-affinity"))))
    with pytest.raises(Refused, match=r"security_groups: an adopted server group is never changed"):
        local.plan(manifest(group("a", 2, f"{ADOPT}, security_groups: [web]")))
    assert {k: v for k, v in local.rows().items() if k != "facts"} == {k: v for k, v in before.items() if k != "facts"}


def test_a_name_that_an_operator_takes_later_is_no_reason_to_refuse(local: Site) -> None:
    local.deploy(manifest(group("a", 2, STRICT)))
    operators_group(local, "data")
    local.deploy(manifest(group("a", 3, STRICT)))
    with pytest.raises(Refused, match="exists and is not ours"):  # another policy would need another group
        local.plan(manifest(group("a", 3, SOFT)))


def test_a_change_of_policy_that_failed_can_be_taken_back_without_touching_a_node(here: Site) -> None:
    here.deploy(manifest(group("a", 2, STRICT)))
    before = {node.vm_cid for node in here.nodes().values()}
    store = operator(here).datacenter.store
    faults.add(store, "create_server_group", "error")
    task = here.deploy(manifest(group("a", 2, SOFT)), expect_state="failed")
    report = here.task(task).report
    assert [failure["flow"] for failure in report["failures"]] == ["group.create"]
    assert report["steps"] == {"failed": 1, "skipped": 3}
    assert "group.kept data@lab: 2 of our nodes still have a VM in it" in here.story(task)
    faults.clear(store)
    plan = here.plan(manifest(group("a", 2, STRICT)))
    assert [(change.action, change.kind) for change in plan.changes] == [("delete", "group")]
    here.deploy(manifest(group("a", 2, STRICT)))
    assert {node.vm_cid for node in here.nodes().values()} == before
    assert here.plan(manifest(group("a", 2, STRICT))).changes == ()
    assert group_rows(here) == [("data", "lab", "live"), ("data", "lab", "gone")]


def test_a_missing_group_is_reported_and_the_next_deploy_mends_it(local: Site) -> None:
    local.deploy(manifest(group("a", 2, SOFT)))
    cid = group_cid(local)
    _delete_behind_our_back(local)
    assert local.cpi().inspect_server_group(cid).state == "missing"
    (found,) = placement_audit(local.ledger, "dep")["groups"]
    assert (found["state"], found["holds"]) == ("missing", False)
    task = looks.look(local.ledger)
    local.wait(task or 0)
    assert group_rows(local) == [("data", "lab", "missing")]
    assert "group.missing" in local.kinds(task or 0)
    plan = local.plan(manifest(group("a", 3, SOFT)))
    assert any("behind our back" in change.reason for change in plan.changes)
    local.deploy(manifest(group("a", 3, SOFT)))
    assert len(local.cpi().inspect_server_group(group_cid(local)).members) == 3


def test_a_deployment_whose_group_is_missing_can_still_be_deleted(local: Site) -> None:
    local.deploy(manifest(group("a", 2, SOFT)))
    _delete_behind_our_back(local)
    local.delete()
    assert local.held("vm") == []


def _delete_behind_our_back(site: Site) -> None:
    view = site.cpi().inspect_server_group(group_cid(site))
    (found,) = [resource for resource in view.resources if resource.kind == "server_group"]
    delete_server_group(operator(site), found.cid)


TWO = """
clouds:
- {name: lab, driver: sandbox, properties: {settle_s: 0.1}}
- {name: far, driver: sandbox, properties: {settle_s: 0.1, groups: single-writer}}
azs:
- {name: z1, cloud: lab, cloud_properties: {zone: z1}}
- {name: f1, cloud: far, cloud_properties: {zone: z2}}
vm_types:
- {name: small, cloud_properties: {cpu: 1, ram_mb: 512, disk_mb: 1024}}
networks:
- name: net
  subnets:
  - {range: 127.20.0.0/16, gateway: 127.20.0.1, azs: [z1]}
  - {range: 127.21.0.0/16, gateway: 127.21.0.1, azs: [f1]}
"""


def test_two_clouds_one_logical_group_two_handles(here: Site) -> None:
    here.config = TWO
    here.deploy(manifest(group("a", 6, STRICT, azs="z1, f1")))
    assert sorted(group_rows(here)) == [("data", "far", "live"), ("data", "lab", "live")]
    audit = placement_audit(here.ledger, "dep")
    assert all(found["holds"] for found in audit["groups"])
    assert {n["cloud"] for n in audit["nodes"]} == {"lab", "far"}
    assert {len(found["hosts"]) for found in audit["groups"]} == {3}
    here.delete()
    assert here.held("server_group") == []
    assert here.held("server_group", "far", {"groups": "single-writer"}) == []


def test_a_cloud_without_empty_groups_behaves_the_same_to_the_user(here: Site) -> None:
    here.config = TWO
    text = manifest(group("a", 4, SOFT, azs="f1"), group("b", 1, "security_groups: [web]", azs="f1"))
    here.deploy(text)
    assert here.plan(text).changes == ()
    here.deploy(manifest(group("a", 2, STRICT, azs="f1")))
    assert len(placement_audit(here.ledger, "dep")["groups"][0]["hosts"]) == 2
    here.delete()
    for kind in ("vm", "server_group", "security_group"):
        assert here.held(kind, "far", {"groups": "single-writer"}) == []


def test_an_impossible_policy_is_refused_with_its_line(local: Site) -> None:
    local.config = local.config.replace("settle_s: 0.1", "settle_s: 0.1, policies: [soft-anti-affinity]")
    with pytest.raises(InvalidDocument, match="anti-affinity") as refusal:
        local.plan(manifest(group("a", 2, STRICT)))
    (mistake,) = refusal.value.details["mistakes"]
    assert mistake["line"] > 0
    assert "policy" in mistake["field"]


def test_a_strict_group_larger_than_the_cloud_is_refused_before_anything_is_made(local: Site) -> None:
    with pytest.raises(Refused, match="different hosts"):
        local.plan(manifest(group("a", 40, STRICT)))
    assert local.rows()["nodes"] == 0
