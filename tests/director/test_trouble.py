"""Through the API, on both databases: a lost ledger is recovered, an alarm is accepted, a cloud is pinned anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coterie.conductor.process import Conductor
from coterie.director.app import build
from coterie.director.context import AppContext
from coterie.director.process.state_folder import StateFolder
from coterie.ids import Ids
from coterie.ledger.rows import alarms
from coterie.ledger.rows.identity import ensure_director
from coterie.ledger.store import Ledger
from coterie.ledger.writes import execute
from coterie.settings import load
from tests import conftest
from tests.director.asgi import Client
from tests.director.conftest import publish_key
from tests.director.test_work import WISH, deploy
from tests.requests.lost_ledger import lose_deployments

ledger = conftest.ledger  # on both databases, unlike that of this folder


@pytest.fixture
def working(ledger: Ledger, tmp_path: Path) -> Iterator[Client]:
    """A Director with a conductor, and a deployment that is up."""
    state_folder = StateFolder(tmp_path / "state")
    state_folder.prepare()
    settings = load({"state": str(state_folder.path)}, {"HOME": str(tmp_path)})
    keys = publish_key(ledger, state_folder.path)
    context = AppContext(ledger, ensure_director(ledger, "test", Ids()), settings, state_folder, local=True)
    conductor = Conductor(ledger, "test", state_folder=state_folder.path, workers=4, keys=keys)
    conductor.start()
    client = Client(build(context))
    light = {"name": "debian-12", "version": "1.1", "cloud_properties": {"image": "x"}}
    assert client.send("POST", "/v1/stemcells", light).status == 201
    deploy(client, WISH)
    yield client
    client.close()
    conductor.drain(10)


def test_a_lost_ledger_is_recovered(working: Client, ledger: Ledger) -> None:
    before = {node["uuid"]: node["vm_cid"] for node in _items(working, "/v1/nodes")}
    lose_deployments(ledger)
    assert _items(working, "/v1/nodes") == []
    documents = {name: WISH[name] for name in ("manifest", "cloud_config")}
    found = working.send("POST", "/v1/recoveries/plan", documents)
    assert found.status == 200, found.text
    assert {item["kind"] for item in found.json["items"]} == {"vm", "disk", "image", "server_group"}
    assert all(item["taken"] for item in found.json["items"])
    body, key = {**documents, "plan": found.json["id"]}, {"idempotency-key": "once"}
    assert working.send("POST", "/v1/recoveries", {**body, "plan": "another"}).status == 412
    done = [working.send("POST", "/v1/recoveries", body, key) for _ in range(2)]
    assert [reply.status for reply in done] == [200, 200]
    assert done[0].json == done[1].json == found.json
    assert {node["uuid"]: node["vm_cid"] for node in _items(working, "/v1/nodes")} == before
    assert working.send("POST", "/v1/plans", WISH).json["changes"] == []
    assert "deployment.recovered" in {event["kind"] for event in _items(working, "/v1/events")}


def test_an_alarm_is_shown_and_accepted(working: Client, ledger: Ledger) -> None:
    with ledger.write() as tx:
        execute(tx, alarms.ring([], "lab", "meltdown", "2 of 2 nodes vanished"))
    (shown,) = working.get("/v1/clouds/lab").json["alarms"]
    assert (shown["kind"], shown["body"]) == ("meltdown", "2 of 2 nodes vanished")
    assert "coterie clouds accept lab" in shown["remedy"]
    refused = working.send("DELETE", "/v1/deployments/web")
    assert (refused.status, refused.json["details"]["alarms"]) == (409, ["meltdown"])
    assert 'coterie_cloud_alarms{cloud="lab",kind="meltdown"} 1' in working.get("/metrics").text
    ended = working.send("POST", "/v1/clouds/lab/accept")
    assert (ended.status, ended.json) == (200, {"name": "lab", "ended": ["meltdown"]})
    assert working.get("/v1/clouds/lab").json["alarms"] == []
    assert working.send("POST", "/v1/clouds/lab/accept").json["ended"] == []
    assert working.send("DELETE", "/v1/deployments/web").status == 202


def test_a_cloud_is_pinned_anew(working: Client) -> None:
    before = working.get("/v1/clouds/lab").json["pinned_to"]
    elsewhere = WISH["cloud_config"].replace("driver: sandbox", "driver: sandbox\n  properties: {account: other}")
    refused = working.send("PUT", "/v1/cloud-config", {"text": elsewhere})
    assert refused.status == 409, refused.text
    assert before in refused.json["why"]
    identity = "account other of sandbox"
    moved = working.send("POST", "/v1/clouds/lab/repin", {"identity": identity})
    assert (moved.status, moved.json["pinned_to"]) == (200, identity)
    assert working.get("/v1/clouds/lab").json["pinned_to"] == identity
    (event,) = [one for one in _items(working, "/v1/events") if one["kind"] == "cloud.repinned"]
    assert before in event["body"]


def _items(client: Client, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(path).json["items"]
    return found
