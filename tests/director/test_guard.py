"""The gate: tokens, sizes, and the pages that say how we are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.director import guard, token
from coterie.director.app import build
from coterie.director.office import Office
from coterie.errors import UsageError
from coterie.ledger.store import Ledger
from tests.director.asgi import Client
from tests.ledger.views import rows


@pytest.fixture
def locked(office: Office) -> Iterator[Client]:
    office.token = "s3cret"
    made = Client(build(office))
    yield made
    made.close()


@pytest.mark.parametrize(
    "header", [None, "s3cret", "Bearer", "Bearer wrong", "Basic s3cret", "Bearer s3cre", "Bearer é"]
)
@pytest.mark.parametrize("path", ["/v1/nodes", "/readyz", "/metrics", "/openapi.json", "/v1/nothing"])
def test_everything_but_livez_wants_the_token(locked: Client, path: str, header: str | None) -> None:
    reply = locked.get(path, **({"authorization": header} if header else {}))
    assert (reply.status, reply.json["code"]) == (401, "unauthenticated")
    assert reply.headers["www-authenticate"] == "Bearer"
    assert "s3cret" not in reply.text


def test_the_right_token_opens(locked: Client) -> None:
    assert locked.get("/livez").text == "ok\n"
    assert locked.get("/v1/nodes", authorization="Bearer s3cret").status == 200
    assert locked.get("/v1/nodes", authorization="bearer  s3cret").status == 200


def test_a_body_may_not_grow_without_end(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "LARGEST_BODY", 1000)
    told = client.send("POST", "/v1/plans", b"x" * 2000, {"content-length": "2000"})
    assert (told.status, told.json["code"]) == (413, "too_large")
    for length in ({}, {"content-length": "5"}):
        untold = client.send("POST", "/v1/plans", b"x" * 2000, {"content-type": "application/json", **length})
        assert (untold.status, untold.json["code"]) == (413, "too_large")


def test_a_document_has_a_size(client: Client) -> None:
    reply = client.send("POST", "/v1/plans", {"manifest": "#" * (4 * 2**20 + 1)})
    assert (reply.status, reply.json["code"]) == (422, "invalid_request")


def test_ready_until_it_ends(client: Client, office: Office) -> None:
    assert client.get("/readyz").text == "ok\n"
    office.ending = True
    assert (client.get("/readyz").status, client.get("/livez").status) == (503, 200)


def test_metrics_count_by_state(client: Client, ledger: Ledger) -> None:
    rows.node(ledger, "broker", 0)
    rows.cloud_object(ledger, "d1", state="kept")
    rows.task(ledger, 1)
    rows.step(ledger, 1, 1)
    reply = client.get("/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = reply.text.splitlines()
    assert 'coterie_nodes{state="up"} 1' in lines
    assert 'coterie_objects{kind="disk",state="kept"} 1' in lines
    assert 'coterie_tasks{state="running"} 1' in lines
    assert 'coterie_steps{state="ready"} 1' in lines


def test_info_names_the_director_and_what_it_is_busy_with(client: Client, office: Office) -> None:
    rows.task(office.ledger, 1)
    office.resumed = [{"id": 1, "kind": "deploy", "deployment": "kafka"}]
    info = client.get("/v1/info").json
    assert info["director"] == {"name": "test", "uuid": office.identity.uuid}
    assert [task["id"] for task in info["unfinished"]] == [1]
    assert info["resumed"] == office.resumed


def test_a_request_counts_as_activity_until_it_is_answered(client: Client, office: Office) -> None:
    rows.task(office.ledger, 1)
    rows.event(office.ledger, 1, 1)
    with client.stream("/v1/tasks/1/events") as blocks:
        next(blocks)
        assert office.activity.open == 1
        assert office.activity.idle_for() == 0.0
        office.ending = True
        assert list(blocks) == []
    assert office.activity.open == 0


def test_a_token_is_made_once_and_for_its_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "token"
    made = token.obtain(None, file)
    assert len(made) >= 32
    assert token.obtain(None, file) == made == token.read(file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert token.obtain("told", file) == "told"
    file.write_text("\n")
    with pytest.raises(UsageError, match="empty"):
        token.obtain(None, file)
    assert token.read(tmp_path / "none") is None
