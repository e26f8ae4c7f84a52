"""ETag and If-Match: a change that was based on another state is refused with 412."""

from __future__ import annotations

import pytest

from coterie.director.context import AppContext
from tests.director.asgi import Client
from tests.ledger.views import rows

TEAMS = "/v1/deployments/kafka"
CONFIG = "clouds:\n- {name: lab, driver: sandbox}\nazs:\n- {name: z1, cloud: lab}\n"


def test_a_cloud_config_is_replaced_only_as_it_was_read(client: Client) -> None:
    assert client.send("PUT", "/v1/cloud-config", {"text": CONFIG}, {"If-Match": '"7"'}).status == 412
    first = client.send("PUT", "/v1/cloud-config", {"text": CONFIG}, {"If-Match": '"0"'})
    assert first.status == 200, first.text
    tag = first.headers["etag"]
    assert client.get("/v1/cloud-config").headers["etag"] == tag

    changed = CONFIG.replace("z1", "z2")
    second = client.send("PUT", "/v1/cloud-config", {"text": changed}, {"If-Match": tag})
    assert second.status == 200
    stale = client.send("PUT", "/v1/cloud-config", {"text": CONFIG}, {"If-Match": tag})
    assert (stale.status, stale.json["code"]) == (412, "stale_plan")
    assert "z2" in client.get("/v1/cloud-config").json["text"]


def test_plain_yaml_is_accepted_too(client: Client) -> None:
    reply = client.send("PUT", "/v1/cloud-config", CONFIG.encode(), {"content-type": "text/yaml; charset=utf-8"})
    assert reply.status == 200, reply.text
    assert reply.json["text"] == CONFIG


@pytest.mark.parametrize(("method", "body"), [("PUT", {"manifest": "name: kafka"}), ("DELETE", None)])
def test_a_deployment_is_changed_only_as_it_was_read(
    client: Client, context: AppContext, method: str, body: object
) -> None:
    rows.deployment(context.ledger, "kafka", serial=4)
    assert client.get("/v1/deployments/kafka").headers["etag"] == '"4"'
    stale = client.send(method, "/v1/deployments/kafka", body, {"If-Match": '"3"'})
    assert (stale.status, stale.json["code"]) == (412, "stale_plan")
    for matching in ('"4"', 'W/"4"', '"3", "4"', "*"):
        assert client.send(method, "/v1/deployments/kafka", body, {"If-Match": matching}).status != 412


def test_the_manifest_carries_the_tag_of_its_deployment(client: Client, context: AppContext) -> None:
    rows.deployment(context.ledger, "kafka", serial=4, manifest="name: kafka\n")
    reply = client.get("/v1/deployments/kafka/manifest")
    assert (reply.text, reply.headers["etag"]) == ("name: kafka\n", '"4"')
    assert reply.headers["content-type"].startswith("text/yaml")


def test_a_deployment_changes_its_team_only_as_it_was_read(client: Client, context: AppContext) -> None:
    rows.deployment(context.ledger, "kafka", serial=4)
    stale = client.send("PATCH", TEAMS, {"team": "red"}, {"If-Match": '"3"'})
    assert (stale.status, stale.json["code"]) == (412, "stale_plan")
    read = client.get(TEAMS)
    assert read.json["team"] is None, "nothing was changed"
    first = client.send("PATCH", TEAMS, {"team": "red"}, {"If-Match": read.headers["etag"]})
    assert (first.status, first.json["team"]) == (200, "red")
    late = client.send("PATCH", TEAMS, {"team": "blue"}, {"If-Match": read.headers["etag"]})
    assert late.status == 412, "whose it is has changed since"
    assert first.headers["etag"] == client.get(TEAMS).headers["etag"] == client.get(f"{TEAMS}/manifest").headers["etag"]
    assert client.send("PATCH", TEAMS, {"team": "blue"}, {"If-Match": "*"}).json["team"] == "blue"


def test_a_cloud_and_a_node_move_only_as_they_were_read(client: Client, context: AppContext) -> None:
    latest = {"Coterie-API-Version": "latest"}
    assert client.send("PUT", "/v1/cloud-config", {"text": CONFIG}).status == 200
    uuid = rows.node(context.ledger, "broker", 0)
    rows.conductor(context.ledger, "c", drivers=["sandbox"], conductor_group="rack1")
    for path in ("/v1/clouds/lab", f"/v1/nodes/{uuid}"):
        read = client.send("GET", path, None, latest)
        assert read.headers["etag"], path
        stale = client.send("PATCH", path, {"conductor_group": "rack1"}, {**latest, "If-Match": '"x"'})
        assert (stale.status, stale.json["code"]) == (412, "stale_plan"), path
        unmoved = client.send("GET", path, None, latest)
        assert unmoved.json["conductor_group"] in ("", None)
        assert unmoved.headers["etag"] == read.headers["etag"]


def test_every_patch_and_replacement_knows_if_match_and_every_post_that_changes_something_its_key(
    client: Client,
) -> None:
    harmless = {"/v1/plans", "/v1/clouds/{name}/check", "/v1/recoveries/plan", "/v1/console/links"}
    for path, methods in client.get("/openapi.json").json["paths"].items():
        for method, given in methods.items():
            headers = {one["name"].lower() for one in given.get("parameters", ()) if one["in"] == "header"}
            if method in ("patch", "put"):
                assert "if-match" in headers, (method, path)
            if method == "post" and path not in harmless:
                assert "idempotency-key" in headers, (method, path)
