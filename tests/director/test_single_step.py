"""Single-step tasks through the API: a group is repaired, rights are granted; refusals give their reason."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coterie.conductor.process import Conductor
from coterie.director.context import AppContext
from tests.director.asgi import Client
from tests.director.test_problems import check_problem
from tests.director.test_work import WISH, deploy, ended


@pytest.fixture
def working(context: AppContext, client: Client) -> Iterator[Client]:
    conductor = Conductor(context.ledger, "test", state_folder=context.state_folder.path, workers=2)
    conductor.start()
    light = {"name": "debian-12", "version": "1.1", "cloud_properties": {"image": "x"}}
    assert client.send("POST", "/v1/stemcells", light).status == 201
    assert deploy(client, WISH)["state"] == "done"
    yield client
    conductor.drain(10)


def test_a_group_is_repaired_by_a_task_that_may_be_repeated(working: Client) -> None:
    (group,) = working.get("/v1/groups").json["items"]
    for handle in (group["cid"], group["intent"]):
        reply = working.send("POST", f"/v1/groups/{handle}/repair")
        assert reply.status == 202
        assert ended(working, reply.json["task_id"])["state"] == "done"
    assert working.send("POST", "/v1/groups/nobody/repair").status == 404


def test_promises_are_tried_only_on_the_deployment_that_was_made_for_it(working: Client) -> None:
    problem = check_problem(working.send("POST", "/v1/clouds/lab/prove"), 404, "not_found")
    assert "--deep" in problem["remedy"]
    assert "prove" not in {task["kind"] for task in working.get("/v1/tasks").json["items"]}


def test_rights_that_a_driver_cannot_grant_are_refused_at_once(working: Client) -> None:
    reply = working.send("POST", "/v1/clouds/lab/grant", {"user": "ops"})
    problem = check_problem(reply, 501, "not_supported")
    assert "administrator" in problem["remedy"]
    assert "grant" not in {task["kind"] for task in working.get("/v1/tasks").json["items"]}
    assert working.send("POST", "/v1/clouds/nobody/grant", {"user": "ops"}).status == 404
    assert working.send("POST", "/v1/clouds/lab/grant", {}).status == 422
