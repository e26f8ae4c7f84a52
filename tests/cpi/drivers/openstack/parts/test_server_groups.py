"""Which names a server group may have, which groups can be adopted, and how records are written."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.cpi.contract import GroupMetadata, GroupView, InvalidCall, Mark, Needs, Runtime
from coterie.cpi.drivers.openstack.client import Refusal
from coterie.cpi.drivers.openstack.driver import OpenstackCpi
from coterie.cpi.drivers.openstack.rows import Rows
from coterie.cpi.drivers.openstack.server_groups import read_record, record_tag
from coterie.cpi.kit.check_items import group_items
from coterie.cpi.kit.group_records import GroupRecord

DIRECTOR = "0f8fad5b-d9cb-469f-a165-70867728950e"
MARK = Mark(DIRECTOR, "01" + "a" * 24)
GROUP = "286584e6-c6ea-4a80-9b7c-33dc3d0dbafd"
ROWS = [
    {"id": "1", "name": "data", "policy": "anti-affinity", "members": []},
    {"id": "2", "name": "twice", "policy": "anti-affinity", "members": []},
    {"id": "3", "name": "twice", "policy": "anti-affinity", "members": []},
]


@pytest.fixture
def cpi(monkeypatch: pytest.MonkeyPatch) -> OpenstackCpi:
    runtime = Runtime(DIRECTOR, None)  # type: ignore[arg-type] # nothing is written
    made = OpenstackCpi("north", {"auth_url": "http://127.0.0.1:9"}, runtime)
    monkeypatch.setattr(Rows, "list_all", lambda self, kind: ROWS)
    return made


def findings(cpi: OpenstackCpi, name: str, view: GroupView | None = None, **more: Any) -> list[str]:
    """What a check says about a group by this name; `view`: what is behind its CID already."""
    request = {"name": name, "policy": "anti-affinity", "cid": "cg-x" if view else None, **more}
    request["options"] = {"name": name, **more.get("options", {})}
    items = group_items(
        Needs(groups=(request,)), lambda cid: view or GroupView("missing", None), cpi.groups.find_adopted
    )
    return [f"{item.detail}; {item.remedy}" for item in items]


def test_a_free_name_is_free_and_one_group_can_be_adopted(cpi: OpenstackCpi) -> None:
    adopt = {"adopt": True}
    assert findings(cpi, "mine") == []
    assert findings(cpi, "data", options=adopt) == []
    metadata = GroupMetadata({}, "", "data", policy="anti-affinity", options={"name": "data", **adopt})
    assert cpi.groups.find_adopted(metadata) == "ext-1"


def test_what_cannot_be_is_told_with_the_field(cpi: OpenstackCpi) -> None:
    adopt = {"adopt": True}
    for found, words in (
        (findings(cpi, "data"), "placement.server_group: server group 'data' exists and is not ours"),
        (findings(cpi, "nobody", options=adopt), "placement.adopt: there is no server group 'nobody' to adopt"),
        (findings(cpi, "twice", options=adopt), "placement.adopt: 2 server groups are named 'twice'"),
        (
            findings(cpi, "data", options=adopt, policy="affinity"),
            "placement.policy: server group 'data' has policy anti-",
        ),
        (findings(cpi, "data", options=adopt, security_groups=["web"]), "security_groups: an adopted server group"),
    ):
        (one,) = found
        assert one.startswith(words)


def test_a_group_that_is_there_as_wished_is_not_asked_about(cpi: OpenstackCpi) -> None:
    assert findings(cpi, "data", GroupView("live", "anti-affinity")) == []
    assert findings(cpi, "data", GroupView("drifted", "anti-affinity")) == []
    assert findings(cpi, "data", GroupView("missing", "anti-affinity")) != []
    assert findings(cpi, "data", GroupView("live", "affinity")) != []


def test_a_question_that_was_not_answered_is_no_finding(cpi: OpenstackCpi, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(self: Rows, kind: str) -> None:
        raise InvalidCall("no answer", retryable=True)

    monkeypatch.setattr(Rows, "list_all", silent)
    with pytest.raises(InvalidCall, match="no answer"):
        findings(cpi, "data")


@pytest.mark.parametrize("status", [400, 401, 403, 429, 503])
def test_a_refusal_of_the_cloud_is_no_finding(cpi: OpenstackCpi, monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    def refuse(self: Rows, kind: str) -> None:
        raise Refusal("list", status, "", "no")

    monkeypatch.setattr(Rows, "list_all", refuse)
    with pytest.raises(Refusal):
        findings(cpi, "data")


def test_a_group_is_remembered_until_it_is_gone(cpi: OpenstackCpi, monkeypatch: pytest.MonkeyPatch) -> None:
    nova, answers = cpi.vm_factory.groups.nova, [{**ROWS[0], "name": MARK.group_cid}]
    monkeypatch.setattr(Rows, "list_all", lambda self, kind: answers)
    seen = nova.find(MARK.group_cid)

    def away(self: Rows, kind: str, wanted: str) -> None:
        raise Refusal("look", 503, "", "no")

    with monkeypatch.context() as patch, pytest.raises(Refusal):
        patch.setattr(Rows, "read", away)
        nova.find(MARK.group_cid)
    assert nova.find_to_join(MARK.group_cid) is seen
    answers.clear()
    assert nova.find(MARK.group_cid) is nova.find_to_join(MARK.group_cid) is None


def test_a_record_is_read_back_and_other_tags_are_none() -> None:
    for record in (GroupRecord(MARK.group_cid, 3, "anti-affinity", (GROUP,)), GroupRecord(MARK.group_cid, 1, None, ())):
        assert read_record(record_tag(record)) == record
        assert len(record_tag(record)) <= 255
    for tag in ("blue", "cg-x", "cg-x.y.none", f"{MARK.group_cid}.1.none.rubbish"):
        assert read_record(tag) is None
