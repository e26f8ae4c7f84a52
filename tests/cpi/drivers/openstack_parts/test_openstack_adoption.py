"""Which names a server group may have, and which groups can be adopted: looked at before anything is made."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.cpi.contract import GroupMetadata, GroupView, InvalidCall, Needs, Runtime
from coterie.cpi.drivers.openstack.driver import OpenstackCpi
from coterie.cpi.kit.check_items import group_items

DIRECTOR = "0f8fad5b-d9cb-469f-a165-70867728950e"
ROWS = [
    {"id": "1", "name": "data", "policy": "anti-affinity", "members": []},
    {"id": "2", "name": "twice", "policy": "anti-affinity", "members": []},
    {"id": "3", "name": "twice", "policy": "anti-affinity", "members": []},
]


@pytest.fixture
def cpi(monkeypatch: pytest.MonkeyPatch) -> OpenstackCpi:
    runtime = Runtime(DIRECTOR, None)  # type: ignore[arg-type] # nothing is written
    made = OpenstackCpi("north", {"auth_url": "http://127.0.0.1:9"}, runtime)
    monkeypatch.setattr(made, "rows", lambda kind: ROWS)
    return made


def told(cpi: OpenstackCpi, name: str, view: GroupView | None = None, **more: Any) -> list[str]:
    """What a check says about a group by this name; `view`: what is behind its CID already."""
    wish = {"name": name, "policy": "anti-affinity", "cid": "cg-x" if view else None, **more}
    wish["options"] = {"name": name, **more.get("options", {})}
    items = group_items(Needs(groups=(wish,)), lambda cid: view or GroupView("missing", None), cpi.require_nameable)
    return [f"{item.detail}; {item.remedy}" for item in items]


def test_a_free_name_is_free_and_one_group_can_be_adopted(cpi: OpenstackCpi) -> None:
    adopt = {"adopt": True}
    assert told(cpi, "mine") == []
    assert told(cpi, "data", options=adopt) == []
    metadata = GroupMetadata({}, "", "data", policy="anti-affinity", options={"name": "data", **adopt})
    assert cpi.require_nameable(metadata) == "ext-1"


def test_what_cannot_be_is_told_with_the_field(cpi: OpenstackCpi) -> None:
    adopt = {"adopt": True}
    for found, words in (
        (told(cpi, "data"), "placement.server_group: server group 'data' exists and is not ours"),
        (told(cpi, "nobody", options=adopt), "placement.adopt: 0 server groups are named 'nobody'"),
        (told(cpi, "twice", options=adopt), "placement.adopt: 2 server groups are named 'twice'"),
        (told(cpi, "data", options=adopt, policy="affinity"), "placement.policy: server group 'data' has policy anti-"),
        (told(cpi, "data", options=adopt, security_groups=["web"]), "security_groups: an adopted server group"),
    ):
        (one,) = found
        assert one.startswith(words)


def test_a_group_that_is_there_as_wished_is_not_asked_about(cpi: OpenstackCpi) -> None:
    assert told(cpi, "data", GroupView("live", "anti-affinity")) == []
    assert told(cpi, "data", GroupView("drifted", "anti-affinity")) == []
    assert told(cpi, "data", GroupView("missing", "anti-affinity")) != []
    assert told(cpi, "data", GroupView("live", "affinity")) != []


def test_a_question_that_was_not_answered_is_no_finding(cpi: OpenstackCpi, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(kind: str) -> None:
        raise InvalidCall("no answer", retryable=True)

    monkeypatch.setattr(cpi, "rows", silent)
    with pytest.raises(InvalidCall, match="no answer"):
        told(cpi, "data")
