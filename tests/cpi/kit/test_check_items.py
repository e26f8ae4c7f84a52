"""The items of a check that every driver answers in the same words."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coterie.cpi.contract import (
    AuthenticationFailed,
    GroupMetadata,
    GroupMissing,
    GroupView,
    NameTaken,
    Needs,
    NotSupported,
    Throttled,
    Unavailable,
)
from coterie.cpi.kit.check_items import credentials_item, need_items, requirement_items

GROUP = {"name": "workers", "policy": "anti-affinity", "options": {"name": "theirs", "adopt": True}}


class Rules:
    """Of a cloud without the group to adopt, and with a security group that is taken."""

    def inspect(self, cid: str) -> GroupView:
        return GroupView("missing", None)

    def find_adopted(self, metadata: GroupMetadata) -> object:
        raise GroupMissing("there is no such group")

    def require_security_groups(self, cid: str | None, metadata: GroupMetadata) -> None:
        for one in metadata.security_groups:
            raise NameTaken(f"{one.name} is taken", details={"field": "security_groups"})


def failing(error: Exception) -> Callable[[], str]:
    def look() -> str:
        raise error

    return look


def test_credentials_that_work_are_told_with_their_account() -> None:
    item = credentials_item(lambda: "account 1")
    assert (item.what, item.ok, item.detail) == ("credentials", True, "account 1")


def test_wrong_credentials_are_a_finding_and_an_unanswered_question_is_none() -> None:
    item = credentials_item(failing(AuthenticationFailed("no such user", remedy="correct it", retryable=False)))
    assert not item.ok and item.remedy == "correct it"
    with pytest.raises(Throttled):
        credentials_item(failing(Throttled("later")))


def test_what_a_cloud_has_not_is_told_by_one_item_each() -> None:
    group = {**GROUP, "security_groups": [{"name": "web"}]}
    needs = Needs(policies=("anti-affinity", "affinity"), kinds=("vm", "port"), groups=(group,))
    items = {item.what: item.ok for item in need_items(needs, ("anti-affinity",), ("vm",), Rules())}
    assert items == {
        "policy anti-affinity": True,
        "policy affinity": False,
        "kind port": False,
        "server group workers": False,
        "security group web": False,
    }


def test_each_server_group_that_cannot_be_had_is_one_item() -> None:
    def require(metadata: GroupMetadata, cid: str | None) -> None:
        if metadata.policy == "affinity":
            raise NotSupported("no host for all", remedy="use another", details={"field": "azs"})

    needs = Needs(groups=({"name": "web", "policy": "anti-affinity"}, {"name": "db", "policy": "affinity"}))
    (item,) = requirement_items(needs, require)
    assert not item.ok
    assert (item.what, item.detail, item.remedy) == ("server group db", "azs: no host for all", "use another")


def test_a_requirement_that_could_not_be_read_is_no_finding() -> None:
    def require(metadata: GroupMetadata, cid: str | None) -> None:
        raise Unavailable("away", remedy="repeat")

    with pytest.raises(Unavailable):
        list(requirement_items(Needs(groups=(GROUP,)), require))


def test_rules_of_a_driver_come_in_place_of_the_usual_ones() -> None:
    items = need_items(Needs(groups=(GROUP,)), (), (), Rules(), refuse=lambda metadata: None)
    assert items == []
