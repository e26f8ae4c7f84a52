"""Lists by a name that nobody has, or a state that there is not: told, not answered with an empty page."""

from __future__ import annotations

import pytest

from coterie.ledger.store import Ledger
from tests.cli.conftest import CLOUD
from tests.director.asgi import Client
from tests.ledger.views import rows

_BY_DEPLOYMENT = ("nodes", "groups", "disks", "tasks", "objects", "placement")


@pytest.mark.parametrize("noun", _BY_DEPLOYMENT)
def test_a_deployment_that_never_was_is_not_found(client: Client, noun: str) -> None:
    told = client.get(f"/v1/{noun}?deployment=nosuch")
    assert (told.status, told.json["what"]) == (404, "no deployment 'nosuch'")
    assert told.json["remedy"]


@pytest.mark.parametrize("noun", [noun for noun in _BY_DEPLOYMENT if noun != "placement"])
def test_one_that_was_has_an_empty_list(client: Client, ledger: Ledger, noun: str) -> None:
    rows.task(ledger, 1, kind="delete", deployment="gone", state="done")
    assert client.get(f"/v1/{noun}?deployment=gone").status == 200


@pytest.mark.parametrize(
    "path", ["nodes?cloud=x", "nodes?az=x", "nodes?instance_group=x", "groups?cloud=x", "disks?cloud=x"]
)
def test_so_are_clouds_azs_and_instance_groups(client: Client, path: str) -> None:
    assert client.get(f"/v1/{path}").status == 404


def test_what_is_only_configured_is_there(client: Client) -> None:
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
    told = client.get(f"/v1/{path}?state=bogus")
    assert (told.status, told.json["code"]) == (422, "invalid_request")
    assert possible in told.json["mistakes"][0]["what"]
