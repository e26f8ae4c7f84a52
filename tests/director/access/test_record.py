"""The record of changes: caller, request, time and outcome of every changing request, refused ones too."""

from __future__ import annotations

from typing import Any

from coterie.ledger.store import Ledger
from coterie.ledger.tables import events, tasks
from tests.director.access.conftest import Make
from tests.director.asgi import Client
from tests.ledger.views import rows


def audit(ledger: Ledger) -> list[dict[str, Any]]:
    with ledger.read() as tx:
        found = tx.execute(events.select().where(events.c.kind == "audit").order_by(events.c.id))
        return [dict(row.data) for row in found]


def test_every_change_is_recorded_and_nothing_else(person: Make, ledger: Ledger) -> None:
    admin, viewer = person("admin", name="ann"), person("viewer", name="vic")
    made = admin.send("POST", "/v1/tokens", {"name": "ci"})
    admin.send("DELETE", f"/v1/tokens/{made.json['id']}")
    viewer.send("DELETE", "/v1/deployments/web")
    admin.send("POST", "/v1/objects/none/settle", {})
    for path in ("/v1/nodes", "/v1/tokens", "/v1/whoami"):
        admin.get(path)
    admin.send("POST", "/v1/plans", {})
    names = ("who", "role", "method", "path", "status", "outcome")
    assert [tuple(one[name] for name in names) for one in audit(ledger)] == [
        ("ann", "admin", "POST", "/v1/tokens", 201, "done"),
        ("ann", "admin", "DELETE", f"/v1/tokens/{made.json['id']}", 204, "done"),
        ("vic", "viewer", "DELETE", "/v1/deployments/web", 403, "refused"),
        ("ann", "admin", "POST", "/v1/objects/none/settle", 404, "refused"),
    ]
    first = audit(ledger)[0]
    assert first["made"] == f"/v1/tokens/{made.json['id']}"
    assert (first["peer"], first["how"], first["credential"]) == ("test", "token", admin.id)
    shown = admin.get("/v1/events?kind=audit").json["items"]
    assert shown[-1]["body"].startswith("ann: POST done (201)")


def test_a_wrong_token_is_recorded_without_a_caller(locked: Client, ledger: Ledger) -> None:
    locked.send("POST", "/v1/cleanups", {}, {"authorization": "Bearer cot_a_b"})
    locked.send("POST", "/v1/cleanups", {})
    assert [(one["who"], one["status"]) for one in audit(ledger)] == [(None, 401)]


def test_a_strange_path_cannot_break_the_record(person: Make, ledger: Ledger) -> None:
    admin = person("admin")
    assert admin.send("DELETE", "/v1/deployments/\x00\x1b[31m" + "x" * 2000).status in (404, 405, 422)
    (one,) = audit(ledger)
    assert one["path"].isprintable() and len(one["path"]) <= 255


def test_a_task_carries_the_identity_of_its_caller(person: Make, ledger: Ledger) -> None:
    rows.put(ledger, "clouds", name="lab", driver="sandbox", properties={}, conductor_group="")
    rows.cloud_object(ledger, "d1", state="kept", cid="disk-1")
    olga = person("operator", name="olga")
    reply = olga.send("DELETE", "/v1/disks/d1")
    assert reply.status == 202, reply.text
    with ledger.read() as tx:
        assert tx.execute(tasks.select()).one().requested_by == f"olga#{olga.id}"
    assert audit(ledger)[0]["made"] == f"/v1/tasks/{reply.json['task_id']}"


def test_a_key_of_another_caller_reveals_no_reply(person: Make, ledger: Ledger) -> None:
    rows.put(ledger, "clouds", name="lab", driver="sandbox", properties={}, conductor_group="")
    rows.cloud_object(ledger, "d1", state="kept", cid="disk-1")
    key = {"idempotency-key": "k1"}
    first, second = person("operator", name="olga"), person("operator", name="otto")
    assert first.send("DELETE", "/v1/disks/d1", None, **key).status == 202
    assert first.send("DELETE", "/v1/disks/d1", None, **key).headers["idempotency-replayed"] == "true"
    assert second.send("DELETE", "/v1/disks/d1", None, **key).status == 400
