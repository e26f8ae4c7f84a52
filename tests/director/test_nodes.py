"""Enrolled nodes and moved clouds through the API, with a conductor at work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from coterie.conductor.membership import ConductorRole
from coterie.conductor.process import Conductor
from coterie.director.context import AppContext
from coterie.ledger.store import Ledger
from tests.cli.conftest import CLOUD
from tests.director.asgi import Client, Reply
from tests.director.test_work import ended
from tests.ledger.views import rows
from tests.requests.strangers import exists, stranger


@pytest.fixture
def conductor(context: AppContext) -> Iterator[Conductor]:
    """Of the group without a name only, so that other groups are empty."""
    made = Conductor(
        context.ledger, "test", state_folder=context.state_folder.path, workers=2, role=ConductorRole(group="")
    )
    made.start()
    yield made
    made.drain(10)


@pytest.fixture
def working(client: Client, conductor: Conductor) -> Client:
    assert client.send("PUT", "/v1/cloud-config", {"text": CLOUD}).status == 200
    assert client.send("POST", "/v1/clouds/lab/check").status == 200
    return client


def enroll(client: Client, cid: str, **more: Any) -> dict[str, Any]:
    reply = client.send("POST", "/v1/nodes", {"cloud": "lab", "cid": cid, **more})
    assert reply.status == 201, reply.text
    found: dict[str, Any] = reply.json
    return found


def test_enroll_show_move_forget(working: Client, context: AppContext) -> None:
    cid = stranger(context.state_folder.path)
    node = enroll(working, cid, name="db1")
    assert (node["name"], node["state"], node["vm_cid"], node["enrolled"]) == ("db1", "up", cid, True)
    assert (node["deployment"], node["instance_group"], node["index"]) == (None, None, None)
    for which in ("db1", node["uuid"]):
        assert working.get(f"/v1/nodes/{which}").json == node
    assert working.get("/v1/nodes?enrolled=true").json["items"][0]["uuid"] == node["uuid"]
    assert working.get("/v1/nodes?enrolled=false").json["items"] == []
    assert working.get("/v1/nodes?limit=1&cloud=lab").json["items"][0]["name"] == "db1"
    assert working.get("/v1/clouds/lab").json["nodes"] == 1
    assert working.get("/v1/ring/nodes/db1").json["conductor"] == "test"
    moved = working.send("PATCH", "/v1/nodes/db1", {"conductor_group": ""})
    assert (moved.status, moved.json["conductor_group"]) == (200, "")
    assert working.send("DELETE", "/v1/nodes/db1").status == 204
    assert working.get("/v1/nodes/db1").status == 404
    assert exists(context.state_folder.path, cid)
    kinds = [one["kind"] for one in working.get("/v1/events").json["items"]]
    assert {"node.enrolled", "node.moved", "node.forgotten"} <= set(kinds)


def test_only_destroy_ends_the_machine_and_once(working: Client, context: AppContext) -> None:
    cid = stranger(context.state_folder.path)
    enroll(working, cid, name="db1")

    def destroy() -> Reply:
        return working.send("DELETE", "/v1/nodes/db1?destroy=true", headers={"idempotency-key": "k"})

    first = destroy()
    assert first.status == 202 and ended(working, first.json["task_id"])["state"] == "done"
    assert destroy().json == first.json, "also when there is nothing left to destroy"
    assert not exists(context.state_folder.path, cid)
    assert working.get("/v1/nodes").json["items"] == []


def test_an_empty_group_is_refused_and_left(working: Client, context: AppContext) -> None:
    shared = CLOUD.replace("driver: sandbox", "driver: sandbox\n  other_conductor_groups: [rack9]")
    assert working.send("PUT", "/v1/cloud-config", {"text": shared}).status == 200
    cid = stranger(context.state_folder.path)
    refused = working.send("POST", "/v1/nodes", {"cloud": "lab", "cid": cid, "conductor_group": "rack9"})
    assert (refused.status, refused.json["code"]) == (409, "no_conductor_in_group")
    assert "rack9" in refused.json["what"] and refused.json["remedy"]
    assert working.get("/v1/nodes").json["items"] == []
    enroll(working, cid, name="db1")
    moved = working.send("PATCH", "/v1/nodes/db1", {"conductor_group": "rack9"})
    assert (moved.status, moved.json["code"]) == (409, "no_conductor_in_group")
    assert working.get("/v1/nodes/db1").json["conductor_group"] is None
    there = Conductor(
        context.ledger, "rack", state_folder=context.state_folder.path, workers=1, role=ConductorRole(group="rack9")
    )
    there.start()
    assert working.send("PATCH", "/v1/nodes/db1", {"conductor_group": "Rack9"}).json["runs_in_group"] == "rack9"
    there.drain(10)
    assert working.send("DELETE", "/v1/nodes/db1?destroy=true").status == 409
    out = working.send("PATCH", "/v1/nodes/db1", {"conductor_group": None})
    assert (out.status, out.json["runs_in_group"]) == (200, "")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"cid": "vm-1"}, 422),
        ({"cloud": "lab", "cid": ""}, 422),
        ({"cloud": "lab", "cid": "a b"}, 422),
        ({"cloud": "lab", "cid": "vm-1", "conductor_group": "x" * 256}, 422),
        ({"cloud": "lab", "cid": "vm-1", "conductor_group": "a b"}, 400),
        ({"cloud": "lab", "cid": "vm-1", "name": "a/b"}, 400),
        ({"cloud": "lab", "cid": "vm-1", "surprise": 1}, 422),
        ({"cloud": "lab", "cid": "vm-no"}, 404),
        ({"cloud": "nowhere", "cid": "vm-1"}, 404),
    ],
)
def test_mistakes_are_reported(working: Client, body: dict[str, Any], status: int) -> None:
    reply = working.send("POST", "/v1/nodes", body)
    assert (reply.status, reply.headers["content-type"]) == (status, "application/problem+json"), reply.text
    assert reply.json["remedy"]


def test_moving_a_cloud_keeps_the_text_of_its_config(working: Client, context: AppContext) -> None:
    moved = working.send("PATCH", "/v1/clouds/lab", {"conductor_group": "Rack1"})
    assert (moved.status, moved.json["conductor_group"]) == (200, "rack1"), moved.text
    assert working.get("/v1/clouds").json["items"][0]["conductor_group"] == "rack1"
    text = working.get("/v1/cloud-config").json["text"]
    assert text.replace('\n  "conductor_group": "rack1"', "") == CLOUD
    assert working.send("PATCH", "/v1/clouds/lab", {"conductor_group": ""}).status == 200
    enroll(working, stranger(context.state_folder.path))
    refused = working.send("PATCH", "/v1/clouds/lab", {"conductor_group": "empty"})
    assert (refused.status, refused.json["code"]) == (409, "no_conductor_in_group")
    assert working.get("/v1/clouds/lab").json["conductor_group"] == ""
    assert working.send("PATCH", "/v1/clouds/nowhere", {"conductor_group": ""}).status == 404
    assert working.send("PATCH", "/v1/clouds/lab", {"conductor_group": "x" * 256}).status == 422
    assert "cloud.moved" in {one["kind"] for one in working.get("/v1/events").json["items"]}


def test_a_cloud_is_added_without_its_secrets_coming_back(working: Client) -> None:
    secret = {"path": "/bin/cpi", "properties": {"token": "hush-hush"}}
    new = {"name": "new", "driver": "exec", "conductor_group": "rack2", "properties": secret}
    key = {"idempotency-key": "k"}
    replies = [working.send("POST", "/v1/clouds", new, key) for _ in range(2)]
    assert [reply.status for reply in replies] == [201, 201]
    assert replies[0].json["conductor_group"] == "rack2"
    assert all("hush-hush" not in reply.text for reply in replies)
    assert [one["name"] for one in working.get("/v1/clouds").json["items"]] == ["lab", "new"]
    assert working.send("POST", "/v1/clouds", new).status == 409
    assert working.send("POST", "/v1/clouds", {"name": "x", "driver": "none"}).status == 422


def test_a_short_name_will_do_where_it_is_unique(client: Client, ledger: Ledger) -> None:
    uuid = rows.node(ledger, "web", 0, deployment="a")
    rows.node(ledger, "db", 0, deployment="a")
    assert client.get("/v1/nodes/web/0").json["uuid"] == uuid
    rows.node(ledger, "web", 0, deployment="b")
    given = client.get("/v1/nodes/web/0")
    assert (given.status, given.json["remedy"]) == (400, "say which: a/web/0, b/web/0")
    assert client.get("/v1/nodes/a/web/0").json["uuid"] == uuid
    assert client.get("/v1/nodes/web/7").status == 404
