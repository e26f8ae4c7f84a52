"""Policies against what clouds can do: refused with the field that asks for them."""

from __future__ import annotations

from dataclasses import replace

from coterie.cpi.contract import POLICIES, Capabilities, GroupLimit, Reason
from coterie.manifest import check, load_cloud_config, load_deployment
from tests.manifest.documents import CONFIG, DEPLOYMENT, edited, line_of, mistakes_of_both

ALL = Capabilities("sandbox", policies=frozenset(POLICIES))


def found(text: str, can: Capabilities, **options: bool) -> list[tuple[str, str]]:
    return [(m["field"], m["what"]) for m in mistakes_of_both(text, CONFIG, capabilities={"lab": can}, **options)]


def test_what_the_cloud_can_do_is_no_mistake() -> None:
    assert found(DEPLOYMENT, ALL) == []


def test_an_impossible_policy_names_the_cloud_and_the_alternatives() -> None:
    can = replace(ALL, policies=frozenset({"soft-anti-affinity", "affinity"}))
    (mistake,) = mistakes_of_both(DEPLOYMENT, CONFIG, capabilities={"lab": can})
    assert mistake["field"] == "instance_groups[controller].placement.policy"
    assert mistake["line"] == line_of(DEPLOYMENT, "policy: anti-affinity")
    assert mistake["what"] == "the cloud 'lab' (driver sandbox) cannot do anti-affinity"
    assert "affinity, soft-anti-affinity" in mistake["remedy"]


def test_an_adopted_group_has_the_policy_its_operator_gave_it() -> None:
    can = replace(ALL, policies=frozenset({"soft-anti-affinity"}))
    text = edited(DEPLOYMENT, ("policy: anti-affinity", "policy: anti-affinity\n    adopt: true"))
    assert found(text, can) == []


def test_a_cloud_without_server_groups() -> None:
    can = replace(ALL, unsupported={"create_server_group": Reason("it only runs programs", "docs")})
    fields = [field for field, _ in found(DEPLOYMENT, can)]
    assert fields == [f"instance_groups[{name}].placement.policy" for name in ("controller", "broker", "connect")]


def test_a_cloud_that_is_not_described_is_not_checked() -> None:
    assert mistakes_of_both(DEPLOYMENT, CONFIG, capabilities={"other": replace(ALL, policies=frozenset())}) == []


def test_the_switch_for_all_groups_is_blamed_where_it_asks() -> None:
    bare = edited(DEPLOYMENT, ("  placement:\n    policy: anti-affinity\n", ""))
    can = replace(ALL, policies=frozenset({"anti-affinity"}))
    on = edited(bare, ("name: kafka", "name: kafka\nfeatures: {enable_auto_anti_affinity: true}"))
    assert found(on, can)[0][0] == "features.enable_auto_anti_affinity"
    assert len(found(bare, can)) == 2
    assert len(found(bare, can, auto_anti_affinity=True)) == 3


def test_limits_of_members_and_groups() -> None:
    (members,) = found(DEPLOYMENT, replace(ALL, max_group_members=5))
    assert members == (
        "instance_groups[connect].instances",
        "the server group 'data' would have 6 members, but 'lab' allows 5",
    )
    (groups,) = found(DEPLOYMENT, replace(ALL, max_groups=1))
    assert groups[0] == "instance_groups[broker].placement"
    assert found(DEPLOYMENT, replace(ALL, max_groups=2, max_group_members=6)) == []


def test_a_limit_counts_for_the_policies_that_it_is_of() -> None:
    of_soft = replace(ALL, group_limits={"soft-anti-affinity": GroupLimit(5)})
    assert found(DEPLOYMENT, of_soft)[0][0] == "instance_groups[connect].instances"
    assert found(DEPLOYMENT, replace(ALL, group_limits={"affinity": GroupLimit(1)})) == []


def test_check_on_documents_that_are_each_right() -> None:
    deployment, config = load_deployment(DEPLOYMENT, "kafka.yml"), load_cloud_config(CONFIG, "cloud.yml")
    assert check(deployment, config) == []
    can = replace(ALL, policies=frozenset({"soft-anti-affinity"}))
    (mistake,) = check(deployment, config, {"lab": can})
    assert (mistake.file, mistake.line, mistake.column) == ("kafka.yml", 21, 13)
