"""The handlers of the single writer: none of them creates anything after its lease has ended."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.cpi.contract import GroupMetadata, Json, Mark, Runtime, Unavailable, revive
from coterie.cpi.drivers.openstack.client import Client
from coterie.cpi.drivers.openstack.driver import OpenstackCpi
from coterie.cpi.drivers.openstack.properties import read_settings
from coterie.cpi.drivers.openstack.rows import Rows
from coterie.cpi.kit.call_limit import CallLimit
from coterie.cpi.kit.permit import Permit
from coterie.cpi.kit.sealing import seal
from coterie.cpi.kit.security_groups import ExistingSecurityGroup

MARK = Mark("0f8fad5b-d9cb-469f-a165-70867728950e", "01" + "a" * 24)
CHANGE: Json = {"kind": "disk", "mark": MARK.wire(), "body": {}}
SECRET = {"auth_url": "http://127.0.0.1:9", "username": "u", "password": "p", "project_name": "x"}


class Ended:
    """A coordinator whose lease has ended."""

    def submit(self, cpi: Any, domain: str, change: Json) -> Json:
        raise AssertionError("not to be called")

    def hold(self, domain: str) -> None:
        raise Unavailable(f"the lease to write {domain} has ended", remedy="repeat")


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    found: list[Any] = []
    monkeypatch.setattr(Client, "send", lambda self, *arguments, **more: found.append(arguments))
    monkeypatch.setattr(Client, "project", "x")
    return found


@pytest.mark.parametrize(
    "change",
    [
        CHANGE,
        {**CHANGE, "kind": "security_group", "body": {"name": "web"}},
        {**CHANGE, "kind": "port", "body": {"network_id": "n"}, "fixed": [], "taken": []},
        {**CHANGE, "kind": "vm", "group": "cg-x", "sealed": seal("p", {"server": {}})},
    ],
    ids=lambda change: str(change["kind"]),
)
def test_nothing_is_created_after_the_lease_has_ended(
    monkeypatch: pytest.MonkeyPatch, sent: list[Any], change: Json
) -> None:
    """The looks took longer than the lease; the next writer creates the same."""
    cpi = OpenstackCpi("north", SECRET, Runtime(MARK.director, Ended()))
    monkeypatch.setattr(Rows, "list_all", lambda self, kind, **params: iter(()))
    (outcome,) = cpi.apply("d", [{**change, "lasts_s": 9.0}])
    assert type(revive(outcome["error"])) is Unavailable
    assert sent == []


def cpi_rows() -> Rows:
    return Rows(Client(read_settings(SECRET), Permit(MARK.director, CallLimit(1))))


def test_of_two_volumes_under_one_mark_the_younger_is_removed(monkeypatch: pytest.MonkeyPatch, sent: list[Any]) -> None:
    rows = [{"id": "a", "created_at": "1"}, {"id": "b", "created_at": "2"}]
    looks = [[], rows]
    monkeypatch.setattr(Rows, "list_live", lambda self, kind, mark: looks.pop(0))
    monkeypatch.setattr(Rows, "create", lambda self, kind, mark, body: rows[1])
    created = cpi_rows().apply_create(CHANGE, lambda: None)
    assert (created.cid, created.new) == ("a", False)
    assert [(one[0], one[3]) for one in sent] == [("DELETE", "/volumes/b")]


class Answers:
    """A coordinator that answers as another conductor's writer would."""

    def __init__(self, *, new: bool) -> None:
        self.new = new

    def submit(self, cpi: Any, domain: str, change: Json) -> Json:
        return {"ok": True, "id": "x", "made": self.new}

    def hold(self, domain: str) -> None: ...


@pytest.mark.parametrize("new", [True, False])
def test_what_this_call_created_is_known_though_it_cannot_be_read(monkeypatch: pytest.MonkeyPatch, new: bool) -> None:
    def away(self: Rows, kind: str, wanted: str) -> Any:
        raise Unavailable("the service is away", remedy="wait")

    monkeypatch.setattr(Rows, "read", away)
    groups = OpenstackCpi("north", SECRET, Runtime(MARK.director, Answers(new=new))).vm_factory.groups
    metadata = GroupMetadata({}, "d", "g", policy="anti-affinity")
    if new:
        group, is_new = groups.nova.create(metadata, MARK)
        assert (group.id, group.name, group.policy, is_new) == ("x", MARK.group_cid, "anti-affinity", True)
        assert groups.neutron.create("web", MARK) == (ExistingSecurityGroup("x", MARK, name="web"), True)
    else:  # it may be anything
        with pytest.raises(Unavailable):
            groups.nova.create(metadata, MARK)
        with pytest.raises(Unavailable):
            groups.neutron.create("web", MARK)


def test_a_name_that_two_security_groups_got_meanwhile_is_refused(
    monkeypatch: pytest.MonkeyPatch, sent: list[Any]
) -> None:
    monkeypatch.setattr(
        Rows, "list_all", lambda self, kind, **params: iter([{"id": cid, "name": "web"} for cid in "ab"])
    )
    cpi = OpenstackCpi("north", SECRET, Runtime(MARK.director, Ended()))
    change = {**CHANGE, "kind": "security_group", "body": {"name": "web"}, "lasts_s": 9.0}
    (outcome,) = cpi.apply("d", [change])
    assert "2 security groups are named 'web'" in outcome["error"]["what"]
    assert sent == []
