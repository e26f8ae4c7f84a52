"""Versions of the API: reported, refused, and the fields that older ones hide."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from coterie.client.api import VERSION_HEADER
from coterie.director.app import build
from coterie.director.context import AppContext
from coterie.director.middleware.api_version import HEADER, NEWEST, OLDEST
from coterie.ledger.store import Ledger
from coterie.settings import load
from tests.director.asgi import Client, Reply
from tests.ledger.views import rows

MINIMUM, MAXIMUM = (f"{one[0]}.{one[1]}" for one in (OLDEST, NEWEST))
PATHS = ("/livez", "/v1/nodes", "/v1/nothing", "/openapi.json", "/metrics")


@pytest.fixture
def furnished(client: Client, ledger: Ledger) -> Client:
    rows.node(ledger, "broker", 0, conductor_group="rack1")
    rows.put(ledger, "clouds", name="lab", driver="sandbox", properties={}, conductor_group="rack1")
    rows.conductor(ledger, "c1", conductor_group="rack1")
    rows.event(ledger, None, 0, kind="node.moved", data={"uuid": "u", "conductor_group": "rack1"})
    return client


def signature(reply: Reply) -> tuple[str, ...]:
    names = ("coterie-api-version", "coterie-api-minimum-version", "coterie-api-maximum-version", "vary")
    return tuple(reply.headers[name] for name in names)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("asked", "spoken"), [(None, MINIMUM), ("1.0", "1.0"), ("1.1", "1.1"), ("latest", MAXIMUM)])
def test_every_answer_names_its_api_version_and_the_supported_range(
    client: Client, path: str, asked: str | None, spoken: str
) -> None:
    client.speaks = asked
    assert signature(client.get(path)) == (spoken, MINIMUM, MAXIMUM, HEADER)


@pytest.mark.parametrize("asked", ["0.9", "1.3", "2.0", "1", "", "x", "1.1.1", "-1.0", "99999.0", "\xff"])
def test_an_unsupported_api_version_is_refused_with_a_remedy(client: Client, asked: str) -> None:
    client.speaks = asked
    reply = client.get("/v1/nodes")
    assert (reply.status, reply.json["code"]) == (406, "unsupported_version")
    assert reply.headers["content-type"] == "application/problem+json"
    assert MINIMUM in reply.json["remedy"] and MAXIMUM in reply.json["remedy"]
    assert signature(reply)[1:3] == (MINIMUM, MAXIMUM)


def test_a_refused_log_in_is_signed_too(context: AppContext) -> None:
    context.token = "s3cret"
    client = Client(build(context))
    try:
        reply = client.get("/v1/nodes")
        assert (reply.status, signature(reply)[2]) == (401, MAXIMUM)
    finally:
        client.close()


@pytest.mark.parametrize("path", ["nodes", "nodes/kafka/broker/0", "clouds", "clouds/lab", "conductors", "events"])
def test_conductor_groups_are_hidden_from_older_versions(furnished: Client, path: str) -> None:
    new = furnished.get(f"/v1/{path}")
    furnished.speaks = "1.0"
    old = furnished.get(f"/v1/{path}")
    assert (new.status, old.status) == (200, 200)
    assert "rack1" in new.text and "conductor_group" in new.text
    assert not {"conductor_group", "runs_in_group", "enrolled"} & set(_names(old.json))
    furnished.speaks = None
    said, before = furnished.get(f"/v1/{path}").json, old.json
    for page in (said, before):
        for row in page.get("items", ()):
            row.pop("silent_s", None)  # time passes between two requests
    assert said == before, "a client that names no version is one from before versions"


def test_a_director_tells_clients_of_any_version_whether_it_works(client: Client) -> None:
    client.speaks = None
    assert client.get("/v1/info").json["unfinished"] == []


def _names(value: object) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(name for one in value.values() for name in _names(one))]
    return [name for one in value for name in _names(one)] if isinstance(value, list) else []


def test_the_event_stream_hides_them_too(furnished: Client, ledger: Ledger) -> None:
    rows.task(ledger, 7, state="done", ended_at=1.0, events=1)
    rows.event(ledger, 7, 1, data={"conductor_group": "rack1"})
    for version, shown in (("1.0", False), ("1.1", True)):
        furnished.speaks = version
        with furnished.stream("/v1/tasks/7/events") as blocks:
            assert ("conductor_group" in next(blocks)) is shown


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PATCH", "/v1/nodes/kafka/broker/0", {"conductor_group": "rack1"}),
        ("POST", "/v1/nodes", {"cloud": "lab", "cid": "vm-1", "conductor_group": "rack1"}),
        ("PATCH", "/v1/clouds/lab", {"conductor_group": "rack1"}),
        ("POST", "/v1/clouds", {"name": "x", "driver": "sandbox", "conductor_group": "rack1"}),
        ("GET", "/v1/conductors/groups", None),
        ("GET", "/v1/ring", None),
    ],
)
def test_older_api_versions_cannot_set_it(furnished: Client, method: str, path: str, body: object) -> None:
    furnished.speaks = "1.0"
    reply = furnished.send(method, path, body)
    assert (reply.status, reply.json["code"]) == (406, "version_too_old")
    assert "1.1" in reply.json["remedy"]


@pytest.mark.parametrize(("pin", "newest"), [("0.0", "1.0"), ("0.1", MAXIMUM), (None, MAXIMUM)])
def test_a_director_pinned_to_a_release_before_groups_offers_no_version_with_them(
    context: AppContext, pin: str | None, newest: str
) -> None:
    folder = str(context.state_folder.path)
    settings = load({"state": folder, **({"pin_release_version": pin} if pin else {})}, {"HOME": folder})
    client = Client(build(replace(context, settings=settings)))
    try:
        client.speaks = "latest"
        assert signature(client.get("/v1/nodes"))[:3] == (newest, MINIMUM, newest)
        client.speaks = "1.1"
        assert client.get("/v1/nodes").status == (406 if newest == "1.0" else 200)
    finally:
        client.close()


def test_the_command_line_sends_a_supported_api_version(client: Client) -> None:
    (spoken,) = VERSION_HEADER.values()
    client.speaks = spoken
    assert client.get("/v1/info").status == 200
    assert json.loads(client.get("/openapi.json").body)["paths"]["/v1/nodes"]["get"]["parameters"]
