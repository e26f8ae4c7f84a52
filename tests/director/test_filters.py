"""Lists filtered by a name or a state that does not exist: an error, not an empty page."""

from __future__ import annotations

import pytest

from coterie.ledger.store import Ledger
from tests.cli.conftest import CLOUD
from tests.director.asgi import Client
from tests.ledger.views import rows

_BY_DEPLOYMENT = ("nodes", "groups", "disks", "tasks", "objects", "placement")


@pytest.mark.parametrize("noun", _BY_DEPLOYMENT)
def test_a_deployment_that_never_was_is_not_found(client: Client, noun: str) -> None:
    given = client.get(f"/v1/{noun}?deployment=nosuch")
    assert (given.status, given.json["what"]) == (404, "no deployment 'nosuch'")
    assert given.json["remedy"]


@pytest.mark.parametrize("noun", [noun for noun in _BY_DEPLOYMENT if noun != "placement"])
def test_a_deleted_deployment_has_an_empty_list(client: Client, ledger: Ledger, noun: str) -> None:
    rows.task(ledger, 1, kind="delete", deployment="gone", state="done")
    assert client.get(f"/v1/{noun}?deployment=gone").status == 200


@pytest.mark.parametrize(
    "path", ["nodes?cloud=x", "nodes?az=x", "nodes?instance_group=x", "groups?cloud=x", "disks?cloud=x"]
)
def test_unknown_clouds_azs_and_instance_groups_are_not_found(client: Client, path: str) -> None:
    assert client.get(f"/v1/{path}").status == 404


def test_a_configured_name_counts_as_existing(client: Client) -> None:
    put = client.send("PUT", "/v1/cloud-config", CLOUD.encode(), {"content-type": "text/yaml"})
    assert put.status in (200, 201), put.text
    for path in ("nodes?cloud=lab", "nodes?az=z1", "groups?cloud=lab", "disks?cloud=lab"):
        assert client.get(f"/v1/{path}").json["items"] == [], path


@pytest.mark.parametrize(
    ("path", "possible"),
    [
        ("nodes", "'planned'"),
        ("groups", "'drifted'"),
        ("disks", "'kept'"),
        ("objects", "'unknown'"),
        ("tasks", "'cancelling'"),
        ("tasks/1/steps", "'queued'"),
    ],
)
def test_a_state_that_there_is_not_is_refused_with_those_that_there_are(
    client: Client, ledger: Ledger, path: str, possible: str
) -> None:
    rows.task(ledger, 1)
    given = client.get(f"/v1/{path}?state=bogus")
    assert (given.status, given.json["code"]) == (422, "invalid_request")
    assert possible in given.json["mistakes"][0]["what"]


def test_nodes_are_filtered_by_the_group_that_their_work_runs_in(client: Client, ledger: Ledger) -> None:
    rows.put(ledger, "clouds", name="lab", driver="sandbox", properties={}, conductor_group="rack1")
    rows.node(ledger, "web", 0)
    own = rows.node(ledger, "web", 1, conductor_group="rack2")
    found = {name: client.get(f"/v1/nodes?conductor_group={name}").json["items"] for name in ("Rack1", "rack2", "")}
    assert {name: [one["name"] for one in nodes] for name, nodes in found.items()} == {
        "Rack1": ["web/0"],
        "rack2": ["web/1"],
        "": [],
    }
    assert [one["uuid"] for one in found["rack2"]] == [own]
    assert client.get("/v1/nodes?conductor_group=a:b").status == 400
