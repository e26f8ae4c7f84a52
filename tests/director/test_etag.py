"""ETag and If-Match: a change that was made up against another state is refused with 412."""

from __future__ import annotations

import pytest

from coterie.director.office import Office
from tests.director.asgi import Client
from tests.ledger.views import rows

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


def test_plain_yaml_is_taken_too(client: Client) -> None:
    reply = client.send("PUT", "/v1/cloud-config", CONFIG.encode(), {"content-type": "text/yaml; charset=utf-8"})
    assert reply.status == 200, reply.text
    assert reply.json["text"] == CONFIG


@pytest.mark.parametrize(("method", "body"), [("PUT", {"manifest": "name: kafka"}), ("DELETE", None)])
def test_a_deployment_is_changed_only_as_it_was_read(client: Client, office: Office, method: str, body: object) -> None:
    rows.deployment(office.ledger, "kafka", serial=4)
    assert client.get("/v1/deployments/kafka").headers["etag"] == '"4"'
    stale = client.send(method, "/v1/deployments/kafka", body, {"If-Match": '"3"'})
    assert (stale.status, stale.json["code"]) == (412, "stale_plan")
    for matching in ('"4"', 'W/"4"', '"3", "4"', "*"):
        assert client.send(method, "/v1/deployments/kafka", body, {"If-Match": matching}).status != 412


def test_the_manifest_carries_the_tag_of_its_deployment(client: Client, office: Office) -> None:
    rows.deployment(office.ledger, "kafka", serial=4, manifest="name: kafka\n")
    reply = client.get("/v1/deployments/kafka/manifest")
    assert (reply.text, reply.headers["etag"]) == ("name: kafka\n", '"4"')
    assert reply.headers["content-type"].startswith("text/yaml")
