"""Idempotency-Key: the work runs once, however often the request is repeated, and errors are not stored."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from coterie.director.context import AppContext
from coterie.director.http import idempotency
from coterie.errors import Refused
from coterie.ledger.rows import replies
from tests.director.asgi import Client
from tests.director.test_stemcells import GZIP, IMAGE, manifest, tarball
from tests.ledger.views import rows

KEY = {"Idempotency-Key": "k1"}


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Counts deploys; the n-th one is task n."""
    seen: list[Any] = []

    def deploy(context: AppContext, name: str, body: Any) -> int:
        seen.append((name, body.manifest))
        return len(seen)

    monkeypatch.setattr("coterie.director.routes.deployments.deployments.deploy", deploy)
    return seen


def put(client: Client, manifest: str = "a", headers: dict[str, str] | None = None) -> Any:
    return client.send("PUT", "/v1/deployments/x", {"manifest": manifest}, headers)


def test_a_repeated_request_gets_the_first_reply(client: Client, started: list[Any]) -> None:
    first, second = put(client, headers=KEY), put(client, headers=KEY)
    assert (first.status, first.json, first.headers["location"]) == (202, {"task_id": 1}, "/v1/tasks/1")
    assert (second.status, second.json, second.headers["location"]) == (202, {"task_id": 1}, "/v1/tasks/1")
    assert "idempotency-replayed" not in first.headers
    assert second.headers["idempotency-replayed"] == "true"
    assert len(started) == 1


def test_without_a_key_every_request_counts(client: Client, started: list[Any]) -> None:
    assert [put(client).json["task_id"] for _ in range(2)] == [1, 2]


def test_a_key_belongs_to_one_request(client: Client, started: list[Any]) -> None:
    put(client, headers=KEY)
    other = put(client, "b", KEY)
    assert (other.status, other.json["code"]) == (400, "usage")
    assert client.send("PUT", "/v1/deployments/y", {"manifest": "a"}, KEY).status == 400
    assert len(started) == 1


def test_an_error_reply_is_not_stored(client: Client, started: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:

        def refuse(*arguments: Any) -> int:
            raise Refused("not now", remedy="later")

        patch.setattr("coterie.director.routes.deployments.deployments.deploy", refuse)
        assert put(client, headers=KEY).status == 409
    assert put(client, headers=KEY).status == 202


def test_one_of_many_at_once_does_the_work(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, go_on = threading.Event(), threading.Event()
    seen: list[int] = []

    def slow(*arguments: Any) -> int:
        seen.append(1)
        entered.set()
        assert go_on.wait(60)
        return 9

    monkeypatch.setattr("coterie.director.routes.deployments.deployments.deploy", slow)
    first: list[Any] = []
    runner = threading.Thread(target=lambda: first.append(put(client, headers=KEY)))
    runner.start()
    assert entered.wait(60)
    busy = put(client, headers=KEY)
    go_on.set()
    runner.join(60)

    assert (busy.status, busy.json["code"], busy.json["retryable"]) == (409, "conflict", True)
    assert first[0].json == put(client, headers=KEY).json == {"task_id": 9}
    assert len(seen) == 1


def test_a_reservation_of_a_dead_process_is_taken_over(client: Client, context: AppContext, started: list[Any]) -> None:
    rows.put(context.ledger, "replies", key="k1", request="whatever", status=0, created_at=1.0)
    assert put(client, headers=KEY).json == {"task_id": 1}


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, "ü"])
def test_a_strange_key_is_refused(client: Client, started: list[Any], key: str) -> None:
    assert put(client, headers={"Idempotency-Key": key}).status == 422
    assert started == []


@pytest.mark.parametrize(
    ("method", "path", "function"),
    [
        ("DELETE", "/v1/deployments/x?delete_disks=true", "deployments.deployments.delete"),
        ("DELETE", "/v1/disks/i1", "disks.deployments.delete_disks"),
    ],
)
def test_other_work_is_done_once_too(
    client: Client, monkeypatch: pytest.MonkeyPatch, method: str, path: str, function: str
) -> None:
    calls: list[Any] = []

    def work(*arguments: Any) -> int:
        calls.append(arguments)
        return len(calls)

    monkeypatch.setattr(f"coterie.director.routes.{function}", work)
    replies = [client.send(method, path, None, KEY) for _ in range(2)]
    assert [(reply.status, reply.json) for reply in replies] == [(202, {"task_id": 1})] * 2


def test_a_stemcell_is_catalogued_once_and_a_repetition_leaves_no_file(client: Client, context: AppContext) -> None:
    body = tarball({"stemcell.MF": manifest(), "image": IMAGE})
    first, second = [client.send("POST", "/v1/stemcells", body, {**GZIP, **KEY}) for _ in range(2)]
    assert (first.status, first.json) == (second.status, second.json)
    assert second.headers["idempotency-replayed"] == "true"
    other = client.send("POST", "/v1/stemcells", tarball({"stemcell.MF": manifest(), "image": b"x"}), {**GZIP, **KEY})
    assert (other.status, other.json["code"]) == (400, "usage")
    assert client.send("DELETE", "/v1/stemcells/debian-12/1.10").status == 204
    assert client.send("POST", "/v1/stemcells", body, {**GZIP, **KEY}).headers["idempotency-replayed"] == "true"
    assert list(context.state_folder.stemcells.iterdir()) == []
    light = {"name": "a", "version": "1", "cloud_properties": {"image": "x"}}
    replies = [client.send("POST", "/v1/stemcells", light, {"Idempotency-Key": "k2"}) for _ in range(2)]
    assert ["idempotency-replayed" in one.headers for one in replies] == [False, True]


def test_keys_and_abandoned_deployments_too(client: Client, context: AppContext) -> None:
    public = client.get("/v1/keys").json["items"][0]["public"]
    for number, (path, body) in enumerate(
        [
            ("/v1/keys", {"conductor_group": "rack1", "public": public}),
            (f"/v1/keys/{public_id(client, public)}/retire", {"conductor_group": "rack1"}),
            ("/v1/deployments/old/abandon", None),
        ]
    ):
        rows.deployment(context.ledger, "old", serial=1) if body is None else None
        sent = [client.send("POST", path, body, {"Idempotency-Key": f"n{number}"}) for _ in range(2)]
        assert [one.status for one in sent] == [204, 204], sent[0].text
        assert ["idempotency-replayed" in one.headers for one in sent] == [False, True]
        assert sent[1].text == ""


def public_id(client: Client, public: str) -> str:
    return next(str(one["id"]) for one in client.get("/v1/keys").json["items"] if one["public"] == public)


def test_a_repeated_request_for_a_token_creates_no_second_one_and_shows_no_secret(
    client: Client, context: AppContext
) -> None:
    first = client.send("POST", "/v1/tokens", {"name": "ann"}, KEY)
    assert first.status == 201
    again = client.send("POST", "/v1/tokens", {"name": "ann"}, KEY)
    assert (again.status, again.json["code"]) == (409, "conflict")
    assert first.json["id"] in again.json["what"] and "tokens revoke" in again.json["remedy"]
    assert first.json["text"] not in again.text
    assert len(client.get("/v1/tokens").json["items"]) == 1
    assert client.send("POST", "/v1/tokens", {"name": "bob"}, KEY).json["code"] == "usage"
    with context.ledger.read() as tx:
        assert first.json["text"] not in str(tx.exec_driver_sql("SELECT * FROM replies").all())
    assert client.send("POST", "/v1/tokens", {"name": "ann"}).status == 201, "without a key every request counts"


def test_a_key_is_renewed_while_its_request_runs_and_free_soon_after_its_director_died(
    client: Client, context: AppContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "_BUSY_S", 2.0)
    monkeypatch.setattr(idempotency, "_RENEW_S", 0.1)
    runs: list[int] = []

    def deploy(context: AppContext, name: str, body: Any) -> int:
        runs.append(1)
        time.sleep(3.0 if len(runs) == 1 else 0.0)
        return len(runs)

    monkeypatch.setattr("coterie.director.routes.deployments.deployments.deploy", deploy)
    slow = threading.Thread(target=lambda: put(client, headers=KEY))
    slow.start()
    time.sleep(2.5)
    assert put(client, headers=KEY).status == 409
    slow.join(60)
    assert put(client, headers=KEY).json == {"task_id": 1}

    dead = {"Idempotency-Key": "k2"}
    with context.ledger.write() as tx:  # what a Director leaves that is killed in the work
        replies.reserve(tx, "k2", "whatever it was")
    time.sleep(2.2)
    assert put(client, headers=dead).json == {"task_id": 2}
