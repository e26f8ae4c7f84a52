"""Server groups on LXD with placement groups: what is made, found again, mended and deleted, and in which order. The
placement groups are the stand-in's that the tests on a real LXD have, too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from tests.cpi.drivers.incus.parts.fake_server import DIRECTOR, IMAGE, Server, cloud, mark
from tests.peers.lxd.placement_groups import EXTENSION, KEPT_AS, KEY, Answer, PlacementGroups

from coterie.cpi.contract import (
    Cpi,
    Expected,
    GroupInUse,
    GroupMetadata,
    Json,
    Mark,
    NameTaken,
    Needs,
    NoPlacement,
    NotSupported,
    OutcomeUnknown,
    PrivilegeMissing,
    SecurityGroup,
)
from coterie.cpi.drivers.incus.client import Client, Refusal
from coterie.cpi.drivers.incus.marks import mark_config

POLICIES = {
    "anti-affinity": ("spread", "strict"),
    "soft-anti-affinity": ("spread", "permissive"),
    "affinity": ("compact", "strict"),
    "soft-affinity": ("compact", "permissive"),
}
NETWORKS = {"default": {"type": "dynamic", "cloud_properties": {}}}
OTHER = Mark("11111111-54c2-4f8e-9d53-1f0b6f2a7c10", "01m7t7m7sreqd2ghvd8g85qerp")


class Lxd(Server):
    """A cluster of LXD 6.6, of containers. `refuses`: methods and paths of which the next request is refused."""

    brand: Mapping[str, str] = {"server": "lxd", "server_version": "6.6"}

    def __init__(self, *extensions: str, **drivers: str) -> None:
        super().__init__(**(drivers or {"m1": "lxc", "m2": "lxc"}))
        self.extensions = extensions or (EXTENSION,)
        self.images[IMAGE] = "container"
        self.profiles: dict[str, Json] = {}
        self.own = PlacementGroups()
        self.refuses: dict[tuple[str, str], int] = {}
        self.calls: list[str] = []

    def call(
        self, client: Client, what: str, method: str, path: str, query: Mapping[str, str], body: Any = None, *more: Any,
        changes: bool, **named: Any,
    ) -> Any:  # fmt: skip
        self.calls.append(f"{method} {path}")
        status = self.refuses.pop((method, path), 0)
        if status:
            raise Refusal(what, status, "refused by the test", changes=changes)
        if not path.startswith("/placement-groups"):
            return super().call(client, what, method, path, query, body, *more, changes=changes, **named)
        sent = json.dumps(body).encode() if body else b""
        headers = more[0] if more and more[0] else {}
        status, _, raw = self.own.around(self.list_all)(method, f"/1.0{path}", headers, sent)
        answer = json.loads(raw)
        if answer["type"] == "error":
            raise Refusal(what, status, answer["error"], changes=changes)
        return answer, "etag"

    def list_all(self, method: str, path: str, headers: Any, body: bytes) -> Answer:
        """As the stand-in sees the server behind it."""
        rows = self.instances if path.startswith("/1.0/instances") else self.profiles
        return 200, {}, json.dumps({"metadata": list(rows.values())}).replace(KEY, KEPT_AS).encode()

    def get(self, path: str, query: Mapping[str, str], body: Any) -> Any:
        kind, _, name = path[1:].partition("/")
        if kind == "network-acls":
            return None if name else []
        if kind != "profiles":
            return super().get(path, query, body)
        rows = [{**row, "used_by": self.users(row["name"])} for row in self.profiles.values()]
        return next((row for row in rows if row["name"] == name), None) if name else rows

    def post(self, path: str, query: Mapping[str, str], body: Any) -> Any:
        if path != "/profiles":
            return super().post(path, query, body)
        self.profiles[body["name"]] = json.loads(json.dumps(body))
        return {"metadata": None}

    def put(self, path: str, query: Mapping[str, str], body: Any) -> Any:
        if not path.startswith("/profiles/"):
            return super().put(path, query, body)
        self.profiles[body["name"]] = json.loads(json.dumps(body))
        return {"metadata": None}

    def delete(self, path: str, query: Mapping[str, str], body: Any) -> Any:
        kind, _, name = path[1:].partition("/")
        rows = self.profiles if kind == "profiles" else self.instances
        if name not in rows:
            return None
        if kind == "profiles" and self.users(name):
            raise Refusal("delete", 400, "Profile is currently in use", changes=True)
        del rows[name]
        return {"metadata": None}

    def users(self, profile: str) -> list[str]:
        return [f"/1.0/instances/{row['name']}" for row in self.instances.values() if profile in row["profiles"]]

    def config(self, name: str) -> dict[str, str]:
        _, _, raw = self.own.around(self.list_all)("GET", f"/1.0/placement-groups/{name}", {}, b"")
        found: dict[str, str] = json.loads(raw)["metadata"]["config"]
        return found

    def groups(self) -> list[str]:
        return self.own.names("default")

    def put_beside(self, name: str, group: str, member: str) -> None:
        """An operator's instance in this placement group."""
        more = {"status": "Running", "used_by": [], "profiles": [], "devices": {}, "type": "container"}
        self.instances[name] = {"name": name, "config": {KEY: group}, "location": member, **more}


def metadata(policy: str | None, **more: Any) -> GroupMetadata:
    return GroupMetadata({"name": "lab", "uuid": DIRECTOR}, "dep", "broker", ("z1",), policy=policy, **more)


def create_vm(cpi: Cpi, group: str) -> str:
    size = {"cpu": 1, "memory": 64, "type": "container"}
    env = {"bosh": {"server_group_cid": group}}
    return str(cpi.create_vm("agent", IMAGE, size, NETWORKS, (), env, mark=mark()).cid)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_server_group_is_a_placement_group_too_from_its_creation_to_its_deletion(
    monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    server = Lxd()
    cpi, made_by = cloud(monkeypatch, server), mark()
    cid = cpi.create_server_group(metadata(policy), mark=made_by)
    assert len(cid) <= 63, "LXD takes no longer name"
    assert server.groups() == [cid]
    own = server.config(cid)
    assert (own["policy"], own["rigor"]) == POLICIES[policy]
    assert mark_config(made_by).items() <= own.items()
    assert server.profiles[cid]["config"][KEY] == cid
    assert cpi.create_server_group(metadata(policy), mark=made_by) == cid
    vm = create_vm(cpi, cid)
    assert server.sent[-1]["profiles"] == [cid]
    assert server.sent[-1]["target"] in ("m1", "m2"), "LXD's own choice breaks a strict policy when creates meet"
    assert cpi.inspect_server_group(cid).state == "live"
    with pytest.raises(GroupInUse):
        cpi.delete_server_group(cid)
    del server.instances[vm]
    cpi.delete_server_group(cid)
    assert (server.groups(), server.profiles) == ([], {})


@pytest.mark.parametrize("policy", ["host-affinity", None])
def test_lxd_has_none_for_other_policies(monkeypatch: pytest.MonkeyPatch, policy: str | None) -> None:
    server = Lxd()
    cpi = cloud(monkeypatch, server)
    cid = cpi.create_server_group(metadata(policy), mark=mark())
    assert server.groups() == []
    assert KEY not in server.profiles[cid]["config"]
    assert cpi.inspect_server_group(cid).state == "live"
    cpi.delete_server_group(cid)
    assert server.profiles == {}


def test_a_server_without_them_is_not_asked_for_any(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Lxd("some_other_extension")
    cpi = cloud(monkeypatch, server)
    cid = cpi.create_server_group(metadata("anti-affinity"), mark=mark())
    create_vm(cpi, cid)
    assert cpi.inspect_server_group(cid).state == "live"
    assert [one for one in server.calls if "placement" in one] == []
    assert KEY not in server.profiles[cid]["config"]


def test_a_refused_profile_leaves_no_placement_group(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Lxd()
    server.refuses["POST", "/profiles"] = 403
    with pytest.raises(PrivilegeMissing):
        cloud(monkeypatch, server).create_server_group(metadata("affinity"), mark=mark())
    assert server.groups() == []


def test_what_an_interrupted_call_left_is_finished_by_a_repeat_or_found_and_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, made_by = Lxd(), mark()
    cpi = cloud(monkeypatch, server)
    server.refuses["POST", "/profiles"] = 502
    with pytest.raises(OutcomeUnknown):
        cpi.create_server_group(metadata("affinity"), mark=made_by)
    cid = made_by.group_cid
    assert (server.groups(), server.profiles) == ([cid], {})
    (found,) = cpi.survey("server_group", DIRECTOR).objects
    assert (found.cid, found.mark) == (cid, made_by)
    assert cpi.find("server_group", made_by) == found
    assert cpi.create_server_group(metadata("affinity"), mark=made_by) == cid
    assert [one.cid for one in cpi.survey("server_group", DIRECTOR).objects] == [cid]
    del server.profiles[cid]
    cpi.delete_object("server_group", cid, Expected(made_by, found.created_at, found.etag))
    assert server.groups() == []


def test_of_others_nothing_is_listed_or_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    server, made_by = Lxd(), mark()
    cpi = cloud(monkeypatch, server)
    words = {"policy": "spread", "rigor": "strict"}
    for name, config in ((OTHER.group_cid, mark_config(OTHER)), ("theirs", {}), (made_by.group_cid, {})):
        server.own.create("default", {"name": name, "config": {**config, **words}})
    before = server.groups()
    assert list(cpi.survey("server_group", DIRECTOR).objects) == []
    with pytest.raises(NameTaken, match="is not ours"):
        cpi.create_server_group(metadata("anti-affinity"), mark=made_by)
    with pytest.raises(GroupInUse, match="not ours"):
        cpi.delete_server_group(made_by.group_cid)
    with pytest.raises(NameTaken):
        cpi.create_server_group(metadata("anti-affinity", options={"name": "theirs"}), mark=mark())
    assert (server.groups(), server.profiles) == (before, {})


def test_what_others_change_is_told_and_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Lxd()
    cpi = cloud(monkeypatch, server)
    cid = cpi.create_server_group(metadata("anti-affinity"), mark=mark())

    def drift(note: str) -> None:
        view = cpi.inspect_server_group(cid)
        assert (view.state, view.policy) == ("drifted", "anti-affinity")
        assert note in str(view.notes)
        cpi.update_server_group(cid, metadata("anti-affinity"))
        assert cpi.inspect_server_group(cid).state == "live"
        assert server.config(cid)["rigor"] == "strict"
        assert server.profiles[cid]["config"][KEY] == cid

    server.own.change("default", cid, {"rigor": "permissive"})
    drift("is for soft-anti-affinity, not for anti-affinity")
    server.own.remove("default", cid)
    drift("is missing")
    server.own.remove("default", cid)
    del server.profiles[cid]["config"][KEY]  # as a cluster before 6.6 left it
    drift("is missing")
    del server.profiles[cid]["config"][KEY]
    drift("does not name")


def test_an_operators_group_is_adopted_by_a_profile_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Lxd()
    cpi = cloud(monkeypatch, server)
    server.own.create("default", {"name": "team/pg", "config": {"policy": "spread", "rigor": "strict"}})
    for name in ("db", "other"):
        server.profiles[name] = {"name": name, "config": {KEY: "team/pg"}, "devices": {}}
    wanted = metadata("anti-affinity", options={"name": "db", "adopt": True})
    group = cpi.create_server_group(wanted, mark=mark())
    assert cpi.inspect_server_group(group).policy == "anti-affinity"
    server.put_beside("by-hand", "team/pg", "m1")
    assert server.instances[create_vm(cpi, group)]["location"] == "m2"
    assert {one.vm_cid for one in cpi.inspect_server_group(group).members} >= {"by-hand"}
    with pytest.raises(NoPlacement, match="it has a member of the group"):
        create_vm(cpi, group)
    cpi.update_server_group(group, wanted)
    cpi.delete_server_group(group)
    assert server.groups() == ["team/pg"]
    assert set(server.profiles) == {"db", "other"}


def test_one_that_shares_the_placement_group_by_another_profile_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Lxd()
    cpi = cloud(monkeypatch, server)
    cid = cpi.create_server_group(metadata("anti-affinity"), mark=mark())
    server.profiles["beside"] = {"name": "beside", "config": {KEY: cid}, "devices": {}}
    server.put_beside("theirs", "", "m1")
    server.instances["theirs"]["profiles"] = ["beside"]
    assert server.instances[create_vm(cpi, cid)]["location"] == "m2"


def test_with_an_instance_that_others_put_into_it_it_stays_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Lxd()
    cpi = cloud(monkeypatch, server)
    cid = cpi.create_server_group(metadata("affinity"), mark=mark())
    server.put_beside("by-hand", cid, "m1")
    with pytest.raises(GroupInUse, match="has 1 members"):
        cpi.delete_server_group(cid)
    assert server.groups() == [cid] == list(server.profiles)


def test_a_copy_of_the_profile_keeps_the_placement_group_alone_until_it_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As `lxc profile copy` makes it."""
    server, made_by = Lxd(), mark()
    cpi = cloud(monkeypatch, server)
    cid = cpi.create_server_group(metadata("affinity"), mark=made_by)
    server.profiles["copy"] = {**server.profiles[cid], "name": "copy"}
    cpi.delete_server_group(cid)
    assert (server.groups(), list(server.profiles)) == ([cid], ["copy"])
    (found,) = (one for one in cpi.survey("server_group", DIRECTOR).objects if one.cid == cid)
    with pytest.raises(GroupInUse, match="profiles/copy"):
        cpi.delete_object("server_group", cid, Expected(made_by, found.created_at, found.etag))
    del server.profiles["copy"]
    cpi.delete_object("server_group", cid, Expected(made_by, found.created_at, found.etag))
    assert server.groups() == []


def test_security_groups_are_refused_before_anything_is_made_and_by_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Lxd()
    cpi = cloud(monkeypatch, server)
    web = SecurityGroup("web", ({"protocol": "tcp", "ports": "80", "cidr": "0.0.0.0/0"},))
    wanted = {"name": "broker", "policy": "affinity", "security_groups": [web.wire()]}
    (refused,) = [item for item in cpi.check(Needs(groups=(wanted,))) if "no ACLs of NICs" in item.detail]
    assert not refused.ok
    with pytest.raises(NotSupported, match="cannot be given to a VM"):
        cpi.create_server_group(metadata("affinity", security_groups=(web,)), mark=mark())
    assert (server.groups(), server.profiles) == ([], {})
    size = {"cpu": 1, "memory": 64, "type": "container", "security_groups": ["web"]}
    with pytest.raises(NotSupported, match="cannot be given to a VM"):
        cpi.create_vm("agent", IMAGE, size, NETWORKS, (), {}, mark=mark())
    assert server.sent == []
