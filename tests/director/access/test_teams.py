"""Teams: a team's operator changes only its deployments, and no other team sees them, on any route."""

from __future__ import annotations

import re

import pytest

from coterie.director.app import build
from coterie.director.context import AppContext
from coterie.ledger.rows import ownerships
from coterie.ledger.store import Ledger
from tests.director.access.conftest import Make, Person
from tests.ledger.views import rows

SECRET = "zebra"  # a name of the other team, which may appear nowhere


@pytest.fixture
def furnished(context: AppContext) -> AppContext:
    """One deployment of team red, one of team blue with everything that can belong to one."""
    ledger = context.ledger
    for name in ("horse", SECRET):
        rows.deployment(ledger, name)
    _everything(ledger)
    with ledger.write() as tx:
        ownerships.assign(tx, "horse", "red")
        ownerships.assign(tx, SECRET, "blue")
    context.resumed = [{"id": 2, "kind": "deploy", "deployment": SECRET}]
    return context


def _everything(ledger: Ledger) -> None:
    rows.group(ledger, "g1", deployment=SECRET, name=f"{SECRET}-group", cid=None, state="intended")
    uuid = rows.node(ledger, f"{SECRET}-node", 0, deployment=SECRET, server_group="g1")
    rows.cloud_object(ledger, "d1", deployment=SECRET, node=uuid, ref=f"{SECRET}/0", cid=f"disk-{SECRET}", state="kept")
    rows.task(ledger, 2, deployment=SECRET, state="running", plan={"x": SECRET})
    rows.stage(ledger, 2, 0, total=1, name=SECRET)
    rows.step(ledger, 1, 2, subject=SECRET)
    rows.event(ledger, 2, 1, subject=SECRET, body=SECRET)
    rows.put(ledger, "clouds", name="lab", driver="sandbox", properties={}, conductor_group="")
    fact = {"data": {f"vm-{SECRET}": {}}, "wanted_at": 1.0, "at": 1.0, "driver": "sandbox", "conductor_group": ""}
    rows.put(ledger, "facts", cloud="lab", what="vms:0", **fact)
    rows.put(ledger, "facts", cloud="lab", what="check:0", **{**fact, "data": {"items": []}})


def _readable(context: AppContext) -> list[str]:
    """Every GET, with a name of the other team wherever a path takes a name."""
    with context.ledger.read() as tx:
        from coterie.ledger.tables import nodes

        uuid = tx.execute(nodes.select()).one().uuid
    fill = {
        "/v1/nodes/{which}": f"/v1/nodes/{uuid}",
        "/v1/ring/nodes/{which}": f"/v1/ring/nodes/{uuid}",
        "{name}": SECRET,
        "{task}": "2",
        "{intent}": "d1",
        "{cid}": "g1",
        "{which}": f"{SECRET}/{SECRET}-node/0",
    }
    found = []
    for path, methods in build(context).openapi()["paths"].items():
        if "get" not in methods:
            continue
        for name, value in fill.items():
            path = path.replace(name, value)
        found.append(re.sub(r"\{[^}]*\}", "1", path))
    return [*found, "/v1/clouds/lab", f"/v1/nodes?deployment={SECRET}", f"/v1/placement?deployment={SECRET}"]


def test_things_of_another_team_are_not_visible(furnished: AppContext, person: Make) -> None:
    whole, own, other = person("viewer"), person("operator", "blue", name="b"), person("operator", "red", name="r")
    seen = {"whole": 0, "own": 0}
    for path in _readable(furnished):
        reply = other.get(path)
        assert reply.status in (200, 400, 403, 404), (path, reply.text)
        # An error may repeat the name in the request; an answer may not.
        assert reply.status != 200 or SECRET not in reply.text, path
        if path.startswith("/v1/placement"):
            continue  # would wait for a conductor to ask the cloud
        seen["whole"] += SECRET in whole.get(path).text
        seen["own"] += SECRET in own.get(path).text
    assert min(seen.values()) >= 10, "the routes are asked for things that are there"


def test_lists_hold_one_s_own(furnished: AppContext, person: Make) -> None:
    red, blue = person("viewer", "red", name="r"), person("viewer", "blue", "red", name="b")
    assert [one["name"] for one in red.get("/v1/deployments").json["items"]] == ["horse"]
    assert [one["team"] for one in blue.get("/v1/deployments").json["items"]] == ["red", "blue"]
    assert red.get("/v1/info").json["unfinished"] == [] != blue.get("/v1/info").json["unfinished"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("PUT", f"/v1/deployments/{SECRET}", {"manifest": "x"}, 403),
        ("DELETE", f"/v1/deployments/{SECRET}", None, 403),
        ("POST", f"/v1/deployments/{SECRET}/abandon", None, 403),
        ("PATCH", f"/v1/deployments/{SECRET}", {"team": "red"}, 403),
        ("POST", "/v1/plans", {"deployment": SECRET, "delete": True}, 403),
        ("PATCH", f"/v1/nodes/{SECRET}/{SECRET}-node/0", {"conductor_group": "a"}, 404),
        ("POST", "/v1/looks", {}, 400),
        ("POST", "/v1/looks", {"deployment": SECRET}, 404),
        ("POST", "/v1/looks", {"node": f"{SECRET}/{SECRET}-node/0"}, 404),
        ("POST", "/v1/groups/g1/repair", None, 404),
        ("DELETE", "/v1/disks/d1", None, 404),
        ("POST", "/v1/objects/d1/settle", {"cid": None}, 404),
        ("POST", "/v1/tasks/2/cancel", None, 404),
        ("POST", "/v1/stemcells", {"name": "a", "version": "1", "cloud_properties": {"a": 1}}, 403),
        ("POST", "/v1/cleanups", {}, 403),
    ],
)
def test_another_team_s_things_cannot_be_changed(
    furnished: AppContext, person: Make, method: str, path: str, body: object, status: int
) -> None:
    reply = person("operator", "red").send(method, path, body)
    assert reply.status == status, reply.text


def test_a_plan_of_another_team_s_deployment_is_refused_by_the_manifest_s_name(
    furnished: AppContext, person: Make
) -> None:
    red = person("operator", "red")
    given = red.send("POST", "/v1/plans", {"manifest": _valid(SECRET)})
    assert (given.status, given.json["code"]) == (403, "forbidden"), given.text
    # A name that was never used is free, and so is the caller's own: the next error is the missing cloud config.
    for name in ("newcomer", "horse"):
        assert red.send("POST", "/v1/plans", {"manifest": _valid(name)}).json["code"] == "usage"


def _valid(name: str) -> str:
    group = "{name: a, instances: 1, azs: [z1], vm_type: t, stemcell: s, networks: [{name: n}]}"
    return f'name: {name}\nstemcells: [{{alias: s, name: os, version: "1"}}]\ninstance_groups: [{group}]\n'


def test_the_team_decides_visibility_and_an_admin_assigns_the_team(furnished: AppContext, person: Make) -> None:
    admin, red = person("admin", "green"), person("viewer", "red", name="r")
    assert admin.get(f"/v1/deployments/{SECRET}").status == 200, "teams do not limit an admin"
    assert red.get(f"/v1/deployments/{SECRET}").status == 404
    assert admin.send("PATCH", f"/v1/deployments/{SECRET}", {"team": "red"}).json["team"] == "red"
    assert red.get(f"/v1/deployments/{SECRET}").status == 200
    assert admin.send("PATCH", f"/v1/deployments/{SECRET}", {"team": None}).json["team"] is None
    assert red.get(f"/v1/deployments/{SECRET}").status == 404


def test_streams_are_limited_too(furnished: AppContext, person: Make) -> None:
    red: Person = person("viewer", "red")
    reply = red.send("GET", "/v1/tasks/2/events", accept="text/event-stream")
    assert reply.status == 404
