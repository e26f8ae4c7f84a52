"""Security groups of server groups: used, created, finished, released."""

from __future__ import annotations

import pytest
from kit.group_cloud import MemoryCloud

from coterie.cpi.contract import CpiError, InvalidCall, OutcomeUnknown, SecurityGroup, Unavailable
from coterie.cpi.kit.security_groups import read_ports


@pytest.fixture
def cloud() -> MemoryCloud:
    return MemoryCloud()


def test_rules_may_name_groups_that_are_created_with_them(cloud: MemoryCloud) -> None:
    web, db = SecurityGroup("web", ({"group": "db"},)), SecurityGroup("db", ({"ports": "5432"},))
    assert cloud.security_groups.ensure([web, db], cloud.mark()) == ("sg-1", "sg-2")
    assert cloud.security.rules == {"web": ["sg-2"], "db": ["5432"]}
    with pytest.raises(CpiError, match="'nothing', which is not there") as caught:
        cloud.security_groups.ensure([SecurityGroup("lost", ({"group": "nothing"},))], cloud.mark())
    assert caught.value.retryable and "lost" not in cloud.security.named


def test_a_wrong_rule_is_refused_before_anything_is_created(cloud: MemoryCloud) -> None:
    with pytest.raises(InvalidCall):
        cloud.security_groups.ensure([SecurityGroup("a"), SecurityGroup("b", ({"wrong": 1},))], cloud.mark())
    assert not cloud.security.named


def test_what_cannot_get_its_rules_is_deleted_again(cloud: MemoryCloud) -> None:
    with pytest.raises(CpiError, match="refused"):
        cloud.security_groups.ensure([SecurityGroup("a"), SecurityGroup("b", ({"fails": 1},))], cloud.mark())
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


def test_an_operators_group_is_used_as_it_is(cloud: MemoryCloud) -> None:
    cloud.security.create("web", None)
    assert cloud.security_groups.ensure([SecurityGroup("web", ({"ports": "80"},))], cloud.mark()) == ("sg-1",)
    assert not cloud.security.rules
    cloud.security_groups.release(["sg-1"])
    assert cloud.security.named


def test_a_half_made_group_is_finished_unless_a_server_group_has_it(cloud: MemoryCloud) -> None:
    mark, request = cloud.mark(), SecurityGroup("web", ({"ports": "80"},))
    cloud.security.create("web", mark)
    cloud.security_groups.ensure([request], cloud.mark())
    assert cloud.security.rules.pop("web") == ["80"]
    cloud.records.write("cg", None, ("sg-1",))
    cloud.security_groups.ensure([request], cloud.mark())
    assert not cloud.security.rules
    cloud.security_groups.ensure([request], mark)
    assert cloud.security.rules


def test_only_what_is_ours_and_unused_is_released(cloud: MemoryCloud) -> None:
    mark = cloud.mark()
    cloud.security_groups.ensure([SecurityGroup("a"), SecurityGroup("b")], mark)
    assert cloud.security_groups.created_for(mark) == {"sg-1", "sg-2"}
    cloud.security.used = {"sg-1"}
    cloud.security_groups.release(["sg-1", "sg-2", "sg-3"])
    assert list(cloud.security.named) == ["a"]
    with pytest.raises(CpiError, match="in use"):
        cloud.security_groups.delete("sg-1")


def test_names_that_must_exist(cloud: MemoryCloud) -> None:
    cloud.security.create("web", None)
    assert cloud.security_groups.require_existing(["web", "web"]) == ["sg-1"]
    with pytest.raises(CpiError, match="no security group 'db'"):
        cloud.security_groups.require_existing(["db"])


def test_ports_of_a_rule() -> None:
    assert [read_ports(rule) for rule in ({"ports": 80}, {"ports": "8000-8080"}, {})] == [
        (80, 80),
        (8000, 8080),
        (1, 65535),
    ]
    with pytest.raises(InvalidCall, match="ports 'http'"):
        read_ports({"ports": "http"})
