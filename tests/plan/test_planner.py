"""What the planner decides, and why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coterie.cpi.contract import GroupLimit
from coterie.errors import NotFound, Refused
from coterie.manifest import load_both, resolve
from coterie.plan.model import Plan
from coterie.plan.nodes import Options
from coterie.plan.planner import make_plan
from coterie.plan.render import text
from coterie.plan.stages import stages
from tests.growth import count_lines
from tests.plan.world import CONFIG, World, cloud, group, group_specs, manifest

BASE = manifest(group("broker", 3), group("web", 2))


def said(plan: Plan) -> list[tuple[str, str, str]]:
    return [(change.action, change.subject, change.reason) for change in plan.changes]


def nodes(plan: Plan) -> dict[str, str]:
    return {c.subject: f"{c.action}: {c.reason}" for c in plan.changes if c.kind == "node"}


@pytest.fixture
def world() -> World:
    return World()


def test_a_first_deployment(world: World) -> None:
    plan = world.plan(BASE)
    assert said(plan) == [
        ("create", "debian/1@lab", "not in this cloud yet"),
        ("create", "broker/0", "new"),
        ("create", "broker/2", "new"),
        ("create", "broker/1", "new"),
        ("create", "web/0", "new"),
        ("create", "web/1", "new"),
    ]
    assert not plan.destructive


def test_the_same_again_changes_nothing(world: World) -> None:
    world.deploy(BASE)
    assert said(world.plan(BASE)) == []


def test_equal_inputs_give_equal_plans_to_the_byte(world: World) -> None:
    first, second = world.plan(BASE), World().plan(BASE)
    assert first.id == second.id
    assert first.to_json() == second.to_json()
    assert world.plan(manifest(group("broker", 4), group("web", 2))).id != first.id


def test_scale_up_uses_the_emptiest_az_and_moves_no_node(world: World) -> None:
    world.deploy(BASE)
    plan = world.plan(manifest(group("broker", 5), group("web", 2)))
    assert nodes(plan) == {"broker/3": "create: new", "broker/4": "create: new"}
    assert {c.subject: c.az for c in plan.changes} == {"broker/3": "z2", "broker/4": "z1"}


def test_scale_down_removes_the_last_and_says_so(world: World) -> None:
    world.deploy(BASE)
    plan = world.plan(manifest(group("broker", 2), group("web", 2)))
    assert nodes(plan) == {"broker/2": "delete: scale down to 2"}
    assert plan.destructive


def test_a_group_that_is_gone_from_the_manifest_is_removed(world: World) -> None:
    world.deploy(BASE)
    plan = world.plan(manifest(group("broker", 3)))
    assert set(nodes(plan)) == {"web/0", "web/1"}
    assert "no longer in the manifest" in nodes(plan)["web/0"]


def test_a_stemcell_upgrade_recreates_and_names_both_versions(world: World) -> None:
    world.deploy(BASE)
    plan = world.plan(manifest(group("broker", 3, stemcell="next"), group("web", 2)))
    assert nodes(plan) == {f"broker/{i}": "recreate: stemcell debian/1 → 2" for i in (0, 1, 2)}
    assert ("create", "debian/2@lab", "not in this cloud yet") in said(plan)


def test_tags_change_in_place(world: World) -> None:
    world.deploy(BASE)
    plan = world.plan(manifest(group("broker", 3, more="tags: {a: b}"), group("web", 2)))
    assert nodes(plan)["broker/0"] == "update: tags: a – → b"
    assert not plan.destructive


def test_disks_grow_in_place_and_never_shrink(world: World) -> None:
    disk = "persistent_disk: 1024"
    world.deploy(manifest(group("broker", 1, more=disk)))
    grown = world.plan(manifest(group("broker", 1, more="persistent_disk: 2048")))
    assert nodes(grown) == {"broker/0": "update: disk 1024 → 2048 MiB"}
    with pytest.raises(Refused, match="cannot shrink from 1024 to 512"):
        world.plan(manifest(group("broker", 1, more="persistent_disk: 512")))
    world.clouds["lab"] = cloud("lab", resize_disk=False)
    with pytest.raises(Refused, match="cannot change a disk in place"):
        world.plan(manifest(group("broker", 1, more="persistent_disk: 2048")))


def test_a_dropped_disk_is_kept_and_counts_as_destructive(world: World) -> None:
    world.deploy(manifest(group("broker", 1, more="persistent_disk: 1024")))
    plan = world.plan(manifest(group("broker", 1)))
    assert nodes(plan) == {"broker/0": "update: let go of its disk of 1024 MiB, which is kept"}
    assert plan.destructive


def test_dead_missing_and_unfinished_nodes_are_made_anew(world: World) -> None:
    world.deploy(BASE)
    world.alter("broker/0", state="dead")
    world.alter("broker/1", state="missing")
    world.alter("broker/2", state="failing", problem="no host")
    assert nodes(world.plan(BASE)) == {
        "broker/0": "recreate: its VM is dead",
        "broker/1": "recreate: its VM is missing",
        "broker/2": "recreate: not finished last time: no host",
    }


def test_static_addresses_decide_the_az_and_a_new_one_recreates(world: World) -> None:
    more = "networks: [{name: net, static_ips: [%s]}]"
    first = world.deploy(manifest(group("broker", 2, more=more % "10.2.9.1, 10.1.9.1")))
    assert {c.subject: c.az for c in first.changes if c.kind == "node"} == {"broker/0": "z2", "broker/1": "z1"}
    plan = world.plan(manifest(group("broker", 2, more=more % "10.2.9.1, 10.1.9.7")))
    assert nodes(plan) == {"broker/1": "recreate: address in net 10.1.9.1 → 10.1.9.7"}


def test_addresses_of_others_are_not_given_out(world: World) -> None:
    taken = replace(world.snapshot(), taken={"net": frozenset({"10.1.0.2", "10.1.0.3"})})
    from coterie.plan.planner import make_plan
    from tests.plan.world import group_specs

    plan = make_plan(taken, group_specs(manifest(group("broker", 1, azs="z1"))))
    (node,) = [c for c in plan.changes if c.kind == "node"]
    assert node.details.addresses == {"net": "10.1.0.4"}


PLACED = "placement: {policy: %s, server_group: data}"


def test_a_shared_group_is_one_group(world: World) -> None:
    text_ = manifest(
        group("broker", 2, more=PLACED % "soft-anti-affinity"), group("web", 2, more=PLACED % "soft-anti-affinity")
    )
    plan = world.plan(text_)
    assert [c.subject for c in plan.changes if c.kind == "group"] == ["data@lab"]
    assert [name for name, _ in plan.users] == ["broker", "web"]


def test_a_policy_change_replaces_the_group_and_moves_its_nodes(world: World) -> None:
    world.deploy(manifest(group("broker", 2, more=PLACED % "soft-anti-affinity")))
    plan = world.plan(manifest(group("broker", 2, more=PLACED % "anti-affinity")))
    assert [(c.action, c.reason) for c in plan.changes if c.kind == "group"] == [
        ("create", "policy soft-anti-affinity → anti-affinity"),
        ("delete", "replaced: policy soft-anti-affinity → anti-affinity"),
    ]
    assert all("policy soft-anti-affinity → anti-affinity" in why for why in nodes(plan).values())


def test_a_policy_change_can_be_forbidden(world: World) -> None:
    world.deploy(manifest(group("broker", 2, more=PLACED % "soft-anti-affinity")))
    forbidden = "placement: {policy: anti-affinity, server_group: data, recreate_on_policy_change: false}"
    with pytest.raises(Refused, match="recreate_on_policy_change: false forbids"):
        world.plan(manifest(group("broker", 2, more=forbidden)))


def test_a_group_that_vanished_is_made_anew_with_its_nodes(world: World) -> None:
    text_ = manifest(group("broker", 2, more=PLACED % "anti-affinity"))
    world.deploy(text_)
    (cid,) = [g.cid for g in world.groups.values()]
    world.clouds["lab"] = replace(world.clouds["lab"], missing_groups=frozenset({str(cid)}))
    plan = world.plan(text_)
    assert "behind our back" in nodes(plan)["broker/0"]


def test_where_living_vms_can_change_their_group_none_is_made_anew(world: World) -> None:
    world.clouds["lab"] = cloud("lab", moves_members=True)
    world.deploy(manifest(group("broker", 2, azs="z1")))
    for more, why in (
        (PLACED % "soft-anti-affinity", "joins server group data, in place"),
        (PLACED % "anti-affinity", "policy soft-anti-affinity → anti-affinity, in place"),
        ("", "leaves its server group, in place"),
    ):
        text_ = manifest(group("broker", 2, azs="z1", more=more))
        changes = [change for change in world.plan(text_).changes if change.kind == "node"]
        assert {(c.action, c.destructive, c.details.regrouped) for c in changes} == {("update", False, True)}
        assert all(c.reason.endswith(why) for c in changes)
        world.deploy(text_)
        assert world.plan(text_).changes == ()


def test_a_node_that_is_made_anew_anyway_joins_its_group_that_way(world: World) -> None:
    world.clouds["lab"] = cloud("lab", moves_members=True)
    world.deploy(manifest(group("broker", 1, azs="z1")))
    plan = world.plan(manifest(group("broker", 1, azs="z1", more=PLACED % "anti-affinity", stemcell="next")))
    (change,) = [change for change in plan.changes if change.kind == "node"]
    assert (change.action, change.details.regrouped) == ("recreate", False)
    assert "joins server group data" in change.reason


def test_two_clouds_have_two_groups(world: World) -> None:
    plan = world.plan(manifest(group("broker", 3, azs="z1, f1", more=PLACED % "anti-affinity")))
    assert [c.subject for c in plan.changes if c.kind == "group"] == ["data@lab", "data@far"]
    refs = {c.subject: c.details.server_group.new for c in plan.changes if c.kind == "node"}
    assert refs == {"broker/0": "data@lab", "broker/2": "data@lab", "broker/1": "data@far"}


def test_more_strict_nodes_than_hosts_are_refused(world: World) -> None:
    hosts = [{"name": f"h{i}", "az": "z1", "rack": "r"} for i in range(2)]
    item = {"what": "hosts", "ok": True, "detail": "", "remedy": "", "facts": {"hosts": hosts}}
    world.clouds["lab"] = replace(world.clouds["lab"], checks=(item,))
    with pytest.raises(Refused, match="3 nodes must be on different hosts, but cloud lab has only 2"):
        world.plan(manifest(group("broker", 3, azs="z1", more=PLACED % "anti-affinity")))


def test_a_quota_is_checked_before_anything_is_made(world: World) -> None:
    quotas = {"instances": {"limit": 4, "used": 1}}
    item = {"what": "quotas", "ok": True, "detail": "", "remedy": "", "facts": {"quotas": quotas}}
    world.clouds["lab"] = replace(world.clouds["lab"], checks=(item,))
    with pytest.raises(Refused, match="quota of 4 instances is exceeded: 1 used, 5 more needed"):
        world.plan(BASE)


def test_a_group_with_more_nodes_than_its_cloud_lets_in_is_refused(world: World) -> None:
    quotas = {"server_group_members": {"limit": 2, "used": 0}}
    item = {"what": "quotas", "ok": True, "detail": "", "remedy": "", "facts": {"quotas": quotas}}
    world.clouds["lab"] = replace(world.clouds["lab"], checks=(item,))
    placed = PLACED % "soft-anti-affinity"
    with pytest.raises(Refused, match="quota of 2 server_group_members is exceeded: server group data has 3"):
        world.plan(manifest(group("broker", 3, azs="z1", more=placed)))
    assert world.plan(manifest(group("broker", 2, azs="z1", more=placed))).changes
    assert world.plan(manifest(group("broker", 3, azs="z1"))).changes


def test_a_failed_check_refuses_the_plan_with_its_remedy(world: World) -> None:
    item = {"what": "credentials", "ok": False, "detail": "wrong key", "remedy": "set api_key", "facts": None}
    world.clouds["lab"] = replace(world.clouds["lab"], checks=(item,))
    with pytest.raises(Refused, match="credentials: wrong key; set api_key"):
        world.plan(BASE)


def test_an_unknown_stemcell_is_refused(world: World) -> None:
    with pytest.raises(Refused, match="debian/9 is not in the catalogue"):
        world.plan(BASE.replace("version: '1'", "version: '9'"))


def test_latest_is_the_newest(world: World) -> None:
    plan = world.plan(BASE.replace("version: '1'", "version: latest"))
    assert plan.changes[0].subject == "debian/2@lab"


def test_soft_groups_boot_as_few_at_a_time_as_the_cloud_can_spread(world: World) -> None:
    world.clouds["lab"] = cloud("lab", boots_per_soft_group=2)
    more = PLACED % "soft-anti-affinity" + ", update: {max_in_flight: 10, serial: false}"
    (rollout,) = world.plan(manifest(group("broker", 8, more=more))).rollouts
    assert (rollout.max_in_flight, rollout.serial) == (2, True)


def test_recreate_on_request(world: World) -> None:
    world.deploy(BASE)
    assert nodes(world.plan(BASE, only=frozenset({"web/1"}), recreate=True)) == {"web/1": "recreate: asked for"}
    with pytest.raises(NotFound, match="there is no node web/9") as unknown:
        world.plan(BASE, only=frozenset({"web/9"}))
    assert "broker, web" in unknown.value.remedy
    assert len(nodes(world.plan(BASE, recreate=True))) == 5


def test_only_the_named_nodes_are_touched(world: World) -> None:
    world.deploy(BASE)
    changed = manifest(group("broker", 2, stemcell="next"), group("web", 2, stemcell="next"))
    assert set(nodes(world.plan(changed, only=frozenset({"web/1"})))) == {"web/1"}


def test_a_node_does_not_move_to_another_cloud(world: World) -> None:
    world.deploy(manifest(group("broker", 1, azs="z1")))
    with pytest.raises(Refused, match="in cloud lab and cannot move to far"):
        world.plan(manifest(group("broker", 1, azs="f1")))


def test_removal_takes_nodes_groups_and_images(world: World) -> None:
    world.deploy(manifest(group("broker", 1, more=PLACED % "affinity" + ", persistent_disk: 100")))
    plan = world.remove()
    assert said(plan) == [
        ("delete", "broker/0", "the deployment is deleted; its disk of 100 MiB is kept"),
        ("delete", "data@lab", "no instance group uses it any more"),
        ("delete", "debian/1@lab", "no deployment uses it any more"),
    ]
    assert "DELETED" in world.remove(delete_disks=True).changes[0].reason


def test_removal_has_a_step_for_an_image_that_others_use_too(world: World) -> None:
    world.deploy(manifest(group("broker", 1)))
    world.images["lab", "other/1"] = "i"
    world.images_used_elsewhere = frozenset(world.images)
    plan = world.remove()
    reason = "another deployment uses it; the last one that is deleted takes it"
    assert said(plan)[1:] == [("leave", "debian/1@lab", reason)]
    assert stages(plan)[-1].name == "stemcell removals"


def test_the_text_has_the_summary_first_and_last_and_destruction_on_top(world: World) -> None:
    world.deploy(BASE)
    plan = world.plan(manifest(group("broker", 4), group("web", 1)))
    assert text(plan) == (
        f"Deployment dep: 1 to create, 1 to delete (plan {plan.id})\n"
        "\n"
        "Destroys or interrupts:\n"
        "  - delete   node web/1  lab/z2       scale down to 1\n"
        "\n"
        "Other changes:\n"
        "  + create   node broker/3  lab/z2       new; net 10.2.0.4 or next\n"
        "\n"
        f"Deployment dep: 1 to create, 1 to delete (plan {plan.id})\n"
    )


def test_long_runs_are_summed_up_but_never_what_destroys(world: World) -> None:
    many = manifest(group("broker", 40))
    short = text(world.plan(many))
    assert "… and 29 more (29 × create node); --detail shows them" in short
    assert "broker/39" in text(world.plan(many), detail=True)
    world.deploy(many)
    assert text(world.remove()).count("- delete   node") == 40


def test_nodes_recreated_for_one_reason_are_one_row_below_what_is_deleted(world: World) -> None:
    world.deploy(manifest(group("broker", 40), group("web", 3)))
    plan = world.plan(manifest(group("broker", 38, stemcell="next"), group("web", 3)))
    lines = text(plan).splitlines()
    at = lines.index("Destroys or interrupts:")
    assert [line.split()[:4] for line in lines[at + 1 : at + 3]] == [
        ["-", "delete", "node", "broker/38"],
        ["-", "delete", "node", "broker/39"],
    ]
    assert " ".join(lines[at + 3].split()) == "± recreate 38 nodes of broker lab/z1,z2 stemcell debian/1 → 2"
    assert "Rollout of broker: 1 canary first, then 1 at once" in lines
    assert text(plan, detail=True).count("± recreate node broker/") == 38


def test_new_nodes_are_told_with_their_disks_and_addresses(world: World) -> None:
    plan = world.plan(manifest(group("broker", 1, more="persistent_disk: 2048")))
    assert "new; net 10.1.0.2 or next; disk of 2048 MiB" in text(plan)


def test_security_groups_are_told(world: World) -> None:
    secured = group("web", 1, more="security_groups: [web, shared, bare]")
    rules = "- {name: web, rules: [{protocol: tcp, ports: 443, cidr: 10.0.0.0/8}]}\n- {name: shared, adopt: true}\n"
    plan = world.plan(f"security_groups:\n{rules}" + manifest(secured))
    told = text(plan)
    assert "security group web: created\n" in told
    assert "security group shared: adopted, and left as it is\n" in told
    assert "security group bare: created\n" in told
    assert told.index("web: created") < told.index("443")


def test_what_is_switched_is_told(world: World) -> None:
    world.deploy(BASE)
    world.resurrection = False
    assert world.plan(BASE).switches == ()
    plan = world.plan(BASE, resurrection=True)
    assert plan.switches == ("resurrection: off → on",)
    assert plan.id != world.plan(BASE).id
    assert "nothing to change" not in text(plan)
    assert "  ~ resurrection: off → on\n" in text(plan)
    world.resurrection = True
    assert world.plan(BASE).switches == ("resurrection: on → off",)


def test_a_node_that_was_never_made_is_created_and_one_that_never_ran_may_be_replaced(world: World) -> None:
    world.carry_out_partly(world.plan(manifest(group("broker", 3))), ("broker/0",))
    world.alter("broker/0", has_vm=True)
    plan = world.plan(manifest(group("broker", 3)))
    assert nodes(plan) == {
        "broker/0": "recreate: not finished last time: no luck",
        "broker/2": "create: not made last time",
        "broker/1": "create: not made last time",
    }
    assert not plan.destructive, "nothing of it ever ran"
    assert {change.details.node for change in plan.changes if change.kind == "node"} == {
        node.uuid for node in world.nodes.values()
    }


def test_an_address_is_not_given_on_before_its_node_is_gone(world: World) -> None:
    world.deploy(manifest(group("old", 1, azs="z1")))
    plan = world.plan(manifest(group("new", 1, azs="z1")))
    (made,) = [c for c in plan.changes if c.kind == "node" and c.action == "create"]
    assert made.details.addresses["net"] != world.nodes["old/0"].addresses["net"]


def test_a_static_address_of_a_node_that_still_has_it_is_refused(world: World) -> None:
    static = "networks: [{name: net, static_ips: [10.1.9.1]}]"
    world.deploy(manifest(group("old", 1, azs="z1", more=static)))
    with pytest.raises(Refused, match=r"10\.1\.9\.1 in network net still belongs to old/0"):
        world.plan(manifest(group("new", 1, azs="z1", more=static)))


STRICT = "placement: {policy: anti-affinity, server_group: data}"


def test_more_members_than_an_az_takes_are_refused_although_no_host_is_shown(world: World) -> None:
    limits = {"anti-affinity": GroupLimit(members_per_az=2), "soft-anti-affinity": GroupLimit()}
    world.clouds["lab"] = cloud("lab", group_limits=limits)
    world.deploy(manifest(group("a", 2, more=STRICT), group("b", 2, more=STRICT)))
    expected = "server group data: 3 nodes would be in z1, but cloud lab takes 2 members of one anti-affinity group"
    with pytest.raises(Refused, match=expected + r".*use fewer nodes, more azs, or soft-anti-affinity"):
        world.plan(manifest(group("a", 3, more=STRICT), group("b", 2, more=STRICT)))
    world.plan(manifest(group("a", 3, more=STRICT.replace("anti", "soft-anti"))))


def test_azs_that_are_one_zone_of_the_cloud_share_its_limit(world: World) -> None:
    limits = {"anti-affinity": GroupLimit(members_per_az=1)}
    world.clouds["lab"] = cloud("lab", group_limits=limits, zone_property="rack")  # which none of the azs has
    world.plan(manifest(group("a", 2, more=STRICT)))
    world.clouds["lab"] = cloud("lab", group_limits=limits, zone_property="region")
    config = CONFIG.replace("zone: z1", "region: here").replace("zone: z2", "region: here")
    deployment, documents = load_both((manifest(group("a", 2, more=STRICT)), "m.yml"), (config, "c.yml"))
    with pytest.raises(Refused, match="2 nodes would be in here"):
        make_plan(world.snapshot(), resolve(deployment.value, documents.value), Options())


def members(world: World) -> dict[str, int | None]:
    return {name: node.spec.member for name, node in sorted(world.nodes.items()) if node.spec}


def test_members_of_a_group_have_numbers_of_their_own_in_each_az(world: World) -> None:
    world.deploy(manifest(group("a", 3, more=STRICT), group("b", 2, more=STRICT), group("c", 1)))
    assert members(world) == {"a/0": 0, "a/1": 0, "a/2": 1, "b/0": 2, "b/1": 1, "c/0": None}


def test_a_member_keeps_its_number_and_a_free_one_is_given_again(world: World) -> None:
    world.deploy(manifest(group("a", 3, "z1", STRICT), group("b", 2, "z1", STRICT)))
    assert members(world) == {"a/0": 0, "a/1": 1, "a/2": 2, "b/0": 3, "b/1": 4}
    world.deploy(manifest(group("a", 1, "z1", STRICT), group("b", 2, "z1", STRICT)))
    world.deploy(manifest(group("a", 2, "z1", STRICT), group("b", 3, "z1", STRICT)), recreate=True)
    assert members(world) == {"a/0": 0, "a/1": 1, "b/0": 3, "b/1": 4, "b/2": 2}
    assert world.plan(manifest(group("a", 2, "z1", STRICT), group("b", 3, "z1", STRICT))).changes == ()


def test_a_plan_costs_each_node_the_same_in_a_deployment_of_any_size(world: World) -> None:
    def cost(count: int) -> float:
        specs = group_specs(manifest(group("a", count, "z1", STRICT.replace("anti", "soft-anti"))))
        return count_lines(lambda: make_plan(world.snapshot(), specs, Options())) / count

    cost(10)  # what is worked out once per process
    assert cost(1000) < 1.2 * cost(250)


def test_a_stopped_node_is_no_canary(world: World) -> None:
    world.deploy(manifest(group("a", 4, "z1")))
    for name in ("a/0", "a/2"):
        world.alter(name, state="stopped", has_vm=False)
    watch = "canary_watch_s: 7, update_watch_s: 60"
    changed = manifest(group("a", 4, "z1", f"update: {{canaries: 1, {watch}}}", stemcell="next"))
    order = [(stage.name, [change.subject for change in stage.changes]) for stage in stages(world.plan(changed))][1:]
    assert order == [("canaries of a", ["a/1"]), ("a in z1", ["a/0", "a/2", "a/3"])]
    watched = {c.subject: c.details.spec.watch_s for c in world.plan(changed).changes if c.kind == "node"}
    assert (watched["a/1"], watched["a/3"]) == (7, 60)


def test_where_only_disks_change_before_it_a_recreated_node_is_watched_as_a_canary(world: World) -> None:
    disk = "persistent_disk: 2048"
    world.deploy(manifest(group("a", 2, "z1", disk)))
    world.alter("a/1", state="dead")
    more = "persistent_disk: 4096, update: {canaries: 1, canary_watch_s: 7, update_watch_s: 60}"
    plan = world.plan(manifest(group("a", 2, "z1", more)))
    order = [(stage.name, [change.subject for change in stage.changes]) for stage in stages(plan)]
    assert order == [("canaries of a", ["a/1"]), ("disks of a", ["a/0"])]
    assert plan.changes[-1].details.spec.watch_s == 7


def test_the_id_of_a_plan_is_worked_out_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = world.plan(manifest(group("a", 3)))
    first = plan.id
    monkeypatch.setattr(Plan, "_content", lambda self: pytest.fail("again"))
    assert (plan.id, first in text(plan)) == (first, True)
