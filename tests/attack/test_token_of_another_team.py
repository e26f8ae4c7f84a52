"""A token of team blue with the name of a token of team red."""

from __future__ import annotations

from coterie.ledger.rows import ownerships
from coterie.ledger.store import Ledger
from tests.director.access.conftest import Make
from tests.ledger.views import rows


def test_the_same_name_gives_neither_the_task_nor_the_reply_of_another_team(person: Make, ledger: Ledger) -> None:
    rows.put(ledger, "clouds", name="lab", driver="sandbox", properties={}, conductor_group="")
    rows.deployment(ledger, "horse")
    rows.cloud_object(ledger, "d1", deployment="horse", state="kept", cid="disk-1")
    with ledger.write() as tx:
        ownerships.assign(tx, "horse", "red")
    red, blue = person("operator", "red", name="ci"), person("operator", "blue", name="ci")
    key = {"idempotency-key": "k1"}
    started = red.send("DELETE", "/v1/disks/d1", **key)
    assert started.status == 202, started.text
    task = started.json["task_id"]
    assert red.get(f"/v1/tasks/{task}").status == 200
    assert blue.get(f"/v1/tasks/{task}").status == 404
    assert blue.get("/v1/tasks").json["items"] == []
    replayed = blue.send("DELETE", "/v1/disks/d1", **key)
    assert (replayed.status, replayed.json["task_id"]) == (400, None)
    assert "idempotency-replayed" not in replayed.headers
    assert red.send("DELETE", "/v1/disks/d1", **key).headers["idempotency-replayed"] == "true"
