"""Through the API with a conductor at work: plan, deploy, look into the cloud, delete."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from coterie.conductor.process import Conductor
from coterie.director.context import AppContext
from coterie.director.services.periodic_look import PeriodicLook
from tests.cli.conftest import CLOUD, MANIFEST
from tests.director.asgi import Client

WISH = {"manifest": MANIFEST, "manifest_file": "web.yml", "cloud_config": CLOUD}


@pytest.fixture
def conductor(context: AppContext) -> Iterator[Conductor]:
    made = Conductor(context.ledger, "test", state_folder=context.state_folder.path, workers=4)
    made.start()
    yield made
    made.drain(10)


@pytest.fixture
def working(client: Client, conductor: Conductor) -> Client:
    light = {"name": "debian-12", "version": "1.1", "cloud_properties": {"image": "x"}}
    assert client.send("POST", "/v1/stemcells", light).status == 201
    return client


def ended(client: Client, task: int) -> dict[str, Any]:
    with client.stream(f"/v1/tasks/{task}/events") as blocks:
        last = list(blocks)[-1]
    found: dict[str, Any] = json.loads(last.split("data: ", 1)[1])
    return found


def deploy(client: Client, body: dict[str, Any]) -> dict[str, Any]:
    reply = client.send("PUT", "/v1/deployments/web", body)
    assert reply.status == 202, reply.text
    assert reply.headers["location"] == f"/v1/tasks/{reply.json['task_id']}"
    return ended(client, reply.json["task_id"])


def test_a_plan_has_an_id_and_a_text_form(working: Client) -> None:
    plan = working.send("POST", "/v1/plans", WISH)
    assert plan.headers["etag"] == f'"{plan.json["id"]}"'
    assert "text" not in plan.json
    assert working.send("POST", "/v1/plans?text=short", WISH).json["text"].startswith("Deployment web: ")
    text = working.send("POST", "/v1/plans?format=text", WISH)
    assert text.headers["content-type"].startswith("text/plain")
    assert plan.json["id"] in text.text
    assert working.get("/v1/deployments").json["items"] == []
    assert working.get("/v1/cloud-config").status == 404, "planning sets nothing"


def test_a_stemcell_can_be_named_by_its_operating_system(working: Client) -> None:
    for version in ("1.10", "1.9"):
        light = {"name": "debian-12", "version": version, "os": "debian", "cloud_properties": {"image": "x"}}
        assert working.send("POST", "/v1/stemcells", light).status == 201
    for version, found in (("1.9", "1.9"), ("latest", "1.10")):
        text = MANIFEST.replace('name: debian-12, version: "1.1"', f'os: debian, version: "{version}"')
        planned = working.send("POST", "/v1/plans", {**WISH, "manifest": text}).json
        assert planned["changes"][0]["subject"] == f"debian-12/{found}@lab"


def test_a_confirmed_plan_is_done_and_a_stale_one_is_not(working: Client) -> None:
    plan = working.send("POST", "/v1/plans", WISH).json
    stale = working.send("PUT", "/v1/deployments/web", {**WISH, "plan": "another"})
    assert (stale.status, stale.json["code"]) == (412, "stale_plan")
    assert deploy(working, {**WISH, "plan": plan["id"]})["state"] == "done"
    again = working.send("PUT", "/v1/deployments/web", {**WISH, "plan": plan["id"]})
    assert again.status == 412


def test_a_deployment_from_plan_to_delete(working: Client) -> None:
    assert deploy(working, WISH)["report"]["steps"] == {"done": 4}
    nodes = working.get("/v1/nodes?deployment=web&state=up").json["items"]
    assert [node["name"] for node in nodes] == ["web/0", "web/1"]
    (group,) = working.get("/v1/groups").json["items"]
    detail = working.get(f"/v1/groups/{group['cid']}").json
    assert detail["live"]["data"]["state"] == "live"
    assert len(detail["members"]) == 2
    checked = working.send("POST", "/v1/clouds/lab/check").json
    assert checked["capabilities"]["driver"] == "sandbox"
    assert all(item["ok"] for item in checked["facts"]["check"]["data"]["items"])
    (audited,) = working.get("/v1/placement?deployment=web").json["groups"]
    assert audited["holds"] is True
    assert working.send("DELETE", f"/v1/disks/{working.get('/v1/disks').json['items'][0]['intent']}").status == 409

    task = working.send("DELETE", "/v1/deployments/web").json["task_id"]
    assert ended(working, task)["state"] == "done"
    assert working.get("/v1/nodes").json["items"] == []
    kept = working.get("/v1/disks?state=kept").json["items"]
    assert len(kept) == 2
    removed = working.send("DELETE", f"/v1/disks/{kept[0]['intent']}")
    assert removed.status == 202
    assert ended(working, removed.json["task_id"])["state"] == "done"
    assert len(working.get("/v1/disks").json["items"]) == 1


def test_the_periodic_look_finds_a_dead_vm_and_recreates_it(working: Client, context: AppContext) -> None:
    assert deploy(working, {**WISH, "manifest": MANIFEST + "resurrection: true\n"})["state"] == "done"
    before = working.get("/v1/nodes/web/web/0").json["vm_cid"]
    _kill(context, before)
    periodic_look = PeriodicLook(context.ledger, 0)
    periodic_look.look_once()
    ended(working, working.get("/v1/tasks?kind=look").json["items"][0]["id"])
    assert working.get("/v1/nodes/web/web/0").json["state"] in ("dead", "missing")
    periodic_look.look_once()
    ended(working, working.get("/v1/tasks?kind=resurrect").json["items"][0]["id"])
    after = working.get("/v1/nodes/web/web/0").json
    assert after["state"] == "up"
    assert after["vm_cid"] != before


def test_a_look_can_be_asked_for(working: Client, context: AppContext) -> None:
    assert deploy(working, WISH)["state"] == "done"
    _kill(context, working.get("/v1/nodes/web/web/1").json["vm_cid"])
    for body in ({"node": "web/web/0"}, {"node": "web/1"}, {"deployment": "web"}, {}):
        reply = working.send("POST", "/v1/looks", body)
        assert (reply.status, ended(working, reply.json["task_id"])["state"]) == (202, "done"), reply.text
        states = [working.get(f"/v1/nodes/web/web/{index}").json["state"] for index in range(2)]
        assert states == (["up", "up"] if body == {"node": "web/web/0"} else ["up", "missing"])
    assert working.send("POST", "/v1/looks", {"deployment": "other"}).status == 404
    assert working.send("POST", "/v1/looks", {"deployment": "web", "node": "web/0"}).status == 400


def _kill(context: AppContext, cid: str) -> None:
    import subprocess
    import sys

    state = str(context.state_folder.path / "sandbox.db")
    program = [sys.executable, "-c", "from coterie.cli.main import main; main()"]
    subprocess.run([*program, "sandbox", "vm", "delete", cid, "--state", state, "--yes"], check=True, timeout=60)
