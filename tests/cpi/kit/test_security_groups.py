"""Security groups of server groups: used, created, finished, released."""

from __future__ import annotations

import pytest
from kit.group_cloud import MemoryCloud

from coterie.cpi.contract import (
    CpiError,
    GroupMissing,
    InvalidCall,
    NameTaken,
    OutcomeUnknown,
    SecurityGroup,
    Unavailable,
)
from coterie.cpi.contract.rules import EVERYTHING_OUT
from coterie.cpi.kit.security_groups import ListedRule


@pytest.fixture
def cloud() -> MemoryCloud:
    return MemoryCloud()


def rules(cloud: MemoryCloud, cid: str) -> list[str]:
    return sorted(str(one.rule) for one in cloud.security.rules.get(cid, ()))


def test_rules_may_name_groups_that_are_created_with_them(cloud: MemoryCloud) -> None:
    web, db = SecurityGroup("web", ({"ports": "80", "group": "db"},)), SecurityGroup("db", ({"ports": "5432"},))
    assert cloud.security_groups.ensure([web, db], cloud.mark()) == ("sg-1", "sg-2")
    assert rules(cloud, "sg-1") == ["ingress tcp 80 from group sg-2"] * 2  # one of each family
    assert rules(cloud, "sg-2") == ["ingress tcp 5432 from 0.0.0.0/0"]
    found = [cloud.security.named["web"]]
    assert {rule.group for rule in cloud.security_groups.list_rules(found)["sg-1"]} == {"db"}
    with pytest.raises(CpiError, match="'nothing', which is not there") as caught:
        cloud.security_groups.ensure([SecurityGroup("lost", ({"group": "nothing"},))], cloud.mark())
    assert caught.value.retryable and "lost" not in cloud.security.named


def test_changed_rules_come_before_others_go(cloud: MemoryCloud) -> None:
    mark = cloud.mark()
    cloud.security_groups.ensure([SecurityGroup("web", ({"protocol": "any", "cidr": "0.0.0.0/0"},))], mark)
    cloud.security.calls.clear()
    changed = SecurityGroup("web", ({"protocol": "tcp", "ports": 443, "cidr": "10.1.2.3/8"},))
    cloud.security_groups.ensure([changed], cloud.mark())
    assert cloud.security.calls == ["+ ingress tcp 443 from 10.0.0.0/8", "- ingress any from 0.0.0.0/0"]
    cloud.security_groups.ensure([changed], mark)
    assert len(cloud.security.calls) == 2
    cloud.security_groups.ensure([SecurityGroup("web")], mark)  # no rules given: they are left as they are
    assert len(cloud.security.calls) == 2
    cloud.security_groups.ensure([SecurityGroup("web", ())], mark)
    assert rules(cloud, "sg-1") == []


def test_of_a_rule_that_two_calls_added_one_stays(cloud: MemoryCloud) -> None:
    mark, request = cloud.mark(), SecurityGroup("web", ({"ports": "80"},))
    cloud.security_groups.ensure([request], mark)
    (first,) = cloud.security.rules["sg-1"]
    cloud.security.rules["sg-1"].insert(0, ListedRule("rule-9", first.rule))
    cloud.security_groups.ensure([request], mark)
    assert cloud.security.rules["sg-1"] == [first]


def test_the_clouds_own_egress_rules_are_kept_until_egress_rules_are_requested(cloud: MemoryCloud) -> None:
    mark, ingress = cloud.mark(), {"ports": "80"}
    cloud.security.egress_needs_rules = True
    cloud.security_groups.ensure([SecurityGroup("web")], mark)
    for rule in EVERYTHING_OUT:
        cloud.security.add_rule("sg-1", rule)
    cloud.security_groups.ensure([SecurityGroup("web", (ingress,))], mark)
    assert len(rules(cloud, "sg-1")) == 3
    dns = {"protocol": "udp", "ports": "53", "cidr": "10.0.0.0/8", "direction": "egress"}
    cloud.security_groups.ensure([SecurityGroup("web", (ingress, dns))], mark)
    assert rules(cloud, "sg-1") == ["egress udp 53 to 10.0.0.0/8", "ingress tcp 80 from 0.0.0.0/0"]
    cloud.security_groups.ensure([SecurityGroup("web", (ingress,))], mark)
    assert rules(cloud, "sg-1") == ["egress any to 0.0.0.0/0", "egress any to ::/0", "ingress tcp 80 from 0.0.0.0/0"]


def test_rules_that_others_change_all_the_time_are_given_up(
    cloud: MemoryCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cloud.security, "add_rule", lambda cid, rule: None)
    with pytest.raises(CpiError, match="changed or deleted by others") as caught:
        cloud.security_groups.ensure([SecurityGroup("web", ({"ports": "80"},))], cloud.mark())
    assert caught.value.retryable


def test_a_wrong_rule_is_refused_before_anything_is_created(cloud: MemoryCloud) -> None:
    wrong = SecurityGroup("b", ({"protocol": "wrong"},))
    with pytest.raises(InvalidCall):
        cloud.security_groups.ensure([SecurityGroup("a"), wrong], cloud.mark())
    assert not cloud.security.named


def test_what_cannot_get_its_rules_is_deleted_again(cloud: MemoryCloud) -> None:
    fails = SecurityGroup("b", ({"protocol": "fails"},))
    with pytest.raises(CpiError, match="refused"):
        cloud.security_groups.ensure([SecurityGroup("a"), fails], cloud.mark())
    assert not cloud.security.named


def test_after_a_lost_creation_everything_stays(cloud: MemoryCloud) -> None:
    cloud.security.create_fails["b"] = OutcomeUnknown("lost")
    with pytest.raises(OutcomeUnknown, match="lost"):
        cloud.security_groups.ensure([SecurityGroup("a"), SecurityGroup("b")], cloud.mark())
    assert list(cloud.security.named) == ["a"]


def test_the_first_error_counts_where_the_release_fails_too(cloud: MemoryCloud) -> None:
    cloud.security.create_fails["b"] = CpiError("quota")
    cloud.security.delete_fails = Unavailable("away")
    with pytest.raises(CpiError, match="quota"):
        cloud.security_groups.ensure([SecurityGroup("a"), SecurityGroup("b")], cloud.mark())


def test_an_operators_group_is_used_only_where_it_is_adopted(cloud: MemoryCloud) -> None:
    cloud.security.create("web", None)
    request = SecurityGroup("web", ({"ports": "80"},))
    with pytest.raises(NameTaken, match="'web' exists and is not ours"):
        cloud.security_groups.require_usable([request])
    with pytest.raises(NameTaken, match="'web' exists and is not ours"):
        cloud.security_groups.ensure([SecurityGroup("db"), request], cloud.mark())
    assert list(cloud.security.named) == ["web"]
    assert cloud.security_groups.ensure([SecurityGroup("web", adopt=True)], cloud.mark()) == ("sg-1",)
    assert not cloud.security.rules
    cloud.security_groups.release(["sg-1"], "cg")
    assert cloud.security.named
    with pytest.raises(GroupMissing, match="no security group 'other' to adopt"):
        cloud.security_groups.require_usable([SecurityGroup("other", adopt=True)])


def test_rules_that_the_cloud_cannot_have_are_refused_beforehand(cloud: MemoryCloud) -> None:
    with pytest.raises(InvalidCall, match="a wrong rule"):
        cloud.security_groups.require_usable([SecurityGroup("web", ({"protocol": "wrong"},))])
    assert not cloud.security.named


def test_a_server_group_that_has_an_operators_group_goes_on_with_it(cloud: MemoryCloud) -> None:
    """As release 0.1.0 let it: the rules of the operator stay."""
    cloud.security.create("web", None)
    request = SecurityGroup("web", ({"ports": "80"},))
    assert cloud.security_groups.ensure([request], cloud.mark(), held={"sg-1"}) == ("sg-1",)
    assert not cloud.security.rules


def test_a_half_made_group_is_finished(cloud: MemoryCloud) -> None:
    cloud.security.create("web", cloud.mark())
    cloud.security_groups.ensure([SecurityGroup("web", ({"ports": "80"},))], cloud.mark())
    assert rules(cloud, "sg-1") == ["ingress tcp 80 from 0.0.0.0/0"]


def test_only_what_is_ours_and_unused_is_released(cloud: MemoryCloud) -> None:
    mark = cloud.mark()
    cloud.security_groups.ensure([SecurityGroup("a"), SecurityGroup("b")], mark)
    assert cloud.security_groups.created_for(mark) == {"sg-1", "sg-2"}
    cloud.security.used = {"sg-1"}
    cloud.security_groups.release(["sg-1", "sg-2", "sg-3"], mark.group_cid)
    assert list(cloud.security.named) == ["a"]
    with pytest.raises(CpiError, match="in use"):
        cloud.security_groups.delete("sg-1")


def test_names_that_must_exist(cloud: MemoryCloud) -> None:
    cloud.security.create("web", None)
    assert cloud.security_groups.require_existing(["web", "web"]) == ["sg-1"]
    with pytest.raises(CpiError, match="no security group 'db'"):
        cloud.security_groups.require_existing(["db"])
