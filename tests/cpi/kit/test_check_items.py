"""Items of a check that every driver answers in the same words."""

from __future__ import annotations

import pytest
from kit.group_cloud import MemoryCloud

from coterie.cpi.contract import GroupMetadata, Needs, NotSupported, SecurityGroup, Unavailable
from coterie.cpi.kit.check_items import requirement_items, standard_items
from coterie.slotted import replace

NEEDS = Needs(groups=({"name": "web", "policy": "anti-affinity"}, {"name": "db", "policy": "affinity"}))


def test_each_server_group_that_cannot_be_had_is_one_item() -> None:
    def require(metadata: GroupMetadata) -> None:
        if metadata.policy == "affinity":
            raise NotSupported("no host for all", remedy="use another", details={"field": "azs"})

    (item,) = requirement_items(NEEDS, require)
    assert not item.ok
    assert (item.what, item.detail, item.remedy) == ("server group db", "azs: no host for all", "use another")


def test_a_question_without_an_answer_is_no_finding() -> None:
    def require(metadata: GroupMetadata) -> None:
        raise Unavailable("away", remedy="repeat")

    with pytest.raises(Unavailable):
        list(requirement_items(NEEDS, require))


def test_what_this_cloud_does_not_have_and_names_that_are_taken() -> None:
    cloud = MemoryCloud()
    cloud.security_groups.ensure([SecurityGroup("web")], cloud.mark())
    cloud.security.named["web"] = replace(cloud.security.named["web"], mark=None)
    asked = {"name": "db", "policy": "affinity", "security_groups": [{"name": "web"}]}
    needs = Needs(policies=("affinity",), kinds=("vm", "network"), groups=(asked,))
    items = standard_items(needs, ["anti-affinity"], ["vm"], cloud.server_groups)
    found = {item.what for item in items if not item.ok}
    assert found == {"policy affinity", "kind network", "security group web"}
