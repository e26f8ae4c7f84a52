"""Cleanup through the API: survey, review, apply, undo; by schedule; with a hook; with metrics."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from coterie.conductor.process import Conductor
from coterie.director.context import AppContext
from coterie.director.services.scheduled_cleanup import ScheduledCleanup
from coterie.ledger.store import Ledger
from coterie.settings import Settings, load
from tests.director.asgi import Client
from tests.director.test_work import WISH, deploy, ended

AT_ONCE = {"grace_s": 0, "undo_s": 0, "keep_stemcells": 0}


@pytest.fixture
def working(client: Client, context: AppContext) -> Iterator[Client]:
    made = Conductor(context.ledger, "test", state_folder=context.state_folder.path, workers=4)
    made.start()
    light = {"name": "debian-12", "version": "1.1", "cloud_properties": {"image": "x"}}
    assert client.send("POST", "/v1/stemcells", light).status == 201
    assert deploy(client, WISH)["state"] == "done"
    yield client
    made.drain(10)


def leave(client: Client) -> None:
    assert client.send("POST", "/v1/deployments/web/abandon").status == 204


def survey(client: Client, **body: Any) -> dict[str, Any]:
    begun = client.send("POST", "/v1/cleanups", {**AT_ONCE, **body})
    assert begun.status == 202, begun.text
    assert ended(client, begun.json["task_id"])["state"] == "done"
    found: dict[str, Any] = client.get(f"/v1/cleanups/{begun.json['cleanup']}").json
    return found


def test_survey_look_apply(working: Client) -> None:
    assert survey(working)["plan"]["items"] == []
    leave(working)
    run = survey(working)
    assert run["state"] == "planned"
    assert {survey["kind"] for survey in run["surveys"] if survey["state"] == "done"} >= {"vm", "disk", "server_group"}
    findings = working.get(f"/v1/cleanups/{run['id']}/findings?kind=vm").json["items"]
    assert {(one["verdict"], one["action"]) for one in findings} == {("orphan", "delete")}
    assert all(one["evidence"] for one in findings)
    stale = working.send("POST", f"/v1/cleanups/{run['id']}/apply", {"plan": "another"})
    assert (stale.status, stale.json["code"]) == (412, "stale_plan")
    task = working.send("POST", f"/v1/cleanups/{run['id']}/apply", {"plan": run["plan"]["id"]})
    assert task.status == 202
    assert ended(working, task.json["task_id"])["state"] == "done"
    after = working.get(f"/v1/cleanups/{run['id']}").json
    assert (after["state"], after["outcomes"]) == ("swept", {"deleted": 6})
    again = working.send("POST", f"/v1/cleanups/{run['id']}/apply", {"plan": run["plan"]["id"]})
    assert (again.status, again.json["code"]) == (409, "conflict")
    metrics = working.get("/metrics").text
    assert 'coterie_cleanup_cleaned_total{cloud="lab",kind="vm"} 2' in metrics
    assert 'coterie_cleanup_found{cloud="lab",kind="disk",verdict="orphan"} 2' in metrics
    kinds = {event["kind"] for event in working.get("/v1/events?limit=200").json["items"]}
    assert {"cleanup.marked", "cleanup.deleted", "deployment.abandoned"} <= kinds


def test_undo_and_marks(working: Client) -> None:
    leave(working)
    run = survey(working, undo_s=3600)
    task = working.send("POST", f"/v1/cleanups/{run['id']}/apply", {"plan": run["plan"]["id"]}).json["task_id"]
    ended(working, task)
    saved = working.send("POST", "/v1/cleanups/undo", {"names": []}).json["saved"]
    assert len(saved) == 2
    marks = working.get("/v1/cleanups/marks").json["items"]
    assert [mark["pinned"] for mark in marks if mark["kind"] == "disk"] == [True, True]
    assert "disk" not in {item["kind"] for item in survey(working)["plan"]["items"]}
    assert working.send("POST", "/v1/cleanups/undo", {"names": ["nothing"]}).status == 404


@pytest.mark.parametrize(
    "body",
    [{"names": [""]}, {"names": ["a"]}, {"kinds": ["network"]}, {"clouds": ["nowhere"]}, {"grace_s": -1}, {"x": 1}],
)
def test_nonsense_is_refused(client: Client, body: dict[str, Any]) -> None:
    reply = client.send("POST", "/v1/cleanups", body)
    assert reply.status in (400, 404, 422)
    assert reply.json["remedy"]


def test_missing_things_are_404(client: Client) -> None:
    for path in ("/v1/cleanups/99", "/v1/cleanups/99/findings"):
        assert client.get(path).status == 404
    assert client.send("POST", "/v1/deployments/ghost/abandon").status == 404


def configured(context: AppContext, tmp_path: Path, **more: str) -> Settings:
    env = {f"COTERIE_CLEANUP_{name.upper()}": value for name, value in more.items()}
    return load({"state": str(context.state_folder.path)}, {"HOME": str(tmp_path), **env})


def finish(client: Client, ledger: Ledger, kind: str) -> None:
    ended(client, client.get(f"/v1/tasks?kind={kind}").json["items"][0]["id"])


def test_by_the_clock_and_only_in_the_allowed_hours(working: Client, context: AppContext, tmp_path: Path) -> None:
    leave(working)
    settings = configured(
        context,
        tmp_path,
        schedule="30 3 * * *",
        apply="true",
        hours="3-5",
        grace_hours="0",
        undo_days="0",
        keep_stemcells="0",
    )
    keeper = ScheduledCleanup(context.ledger, settings)
    day = 86_400 * (int(keeper._since // 86_400) + 2)
    keeper.run_due(now=day + 7 * 3600)
    assert working.get("/v1/cleanups").json["items"] == [], "due, but not at this hour"
    keeper.run_due(now=day + 4 * 3600)
    (run,) = working.get("/v1/cleanups").json["items"]
    assert run["requested_by"] == "schedule"
    finish(working, context.ledger, "survey")
    keeper._apply()
    assert working.get(f"/v1/cleanups/{run['id']}").json["sweep_task"] is not None


def test_without_apply_a_scheduled_cleanup_only_lists(working: Client, context: AppContext, tmp_path: Path) -> None:
    leave(working)
    keeper = ScheduledCleanup(context.ledger, configured(context, tmp_path, schedule="* * * * *", grace_hours="0"))
    keeper.run_due(now=keeper._since + 120)
    finish(working, context.ledger, "survey")
    keeper._apply()
    (run,) = working.get("/v1/cleanups").json["items"]
    assert (run["state"], run["sweep_task"]) == ("planned", None)


def test_the_hook_is_called_once(working: Client, context: AppContext, tmp_path: Path) -> None:
    leave(working)
    heard: list[Any] = []
    with _listening(heard) as port:
        out = tmp_path / "told.json"
        script = f"import sys; open({str(out)!r}, 'ab').write(sys.stdin.buffer.read() + b'\\n')"
        command = f'{sys.executable} -c "{script}"'
        keeper = ScheduledCleanup(
            context.ledger, configured(context, tmp_path, webhook=f"http://127.0.0.1:{port}/x", command=command)
        )
        run = survey(working)
        keeper.run_due()
        keeper.run_due()
    assert [news["event"] for news in heard] == ["cleanup.planned"]
    assert heard[0]["planned"] == len(run["plan"]["items"]) > 0
    assert [json.loads(line) for line in out.read_text().splitlines()] == heard


def test_a_hook_receives_each_event_once_although_another_one_fails(
    working: Client, context: AppContext, tmp_path: Path
) -> None:
    leave(working)
    heard: list[Any] = []
    with _listening(heard) as port:
        settings = configured(context, tmp_path, webhook=f"http://127.0.0.1:{port}/x", command="false")
        keeper = ScheduledCleanup(context.ledger, settings)
        survey(working)
        for _ in range(5):
            keeper.run_due()
    assert [news["event"] for news in heard] == ["cleanup.planned"]


def test_a_new_hook_receives_nothing_of_the_past(working: Client, context: AppContext, tmp_path: Path) -> None:
    leave(working)
    survey(working)
    heard: list[Any] = []
    with _listening(heard) as port:
        settings = configured(context, tmp_path, webhook=f"http://127.0.0.1:{port}/x")
        keeper = ScheduledCleanup(context.ledger, settings)
        keeper.run_due()
        assert heard == []
        new = survey(working)
        ScheduledCleanup(context.ledger, settings).run_due()  # a restart makes no hook new
    assert [news["cleanup"] for news in heard] == [new["id"]]


def test_the_number_of_planned_deletions_never_changes(working: Client, context: AppContext, tmp_path: Path) -> None:
    leave(working)
    heard: list[Any] = []
    with _listening(heard) as port:
        settings = configured(context, tmp_path, webhook=f"http://127.0.0.1:{port}/x")
        keeper = ScheduledCleanup(context.ledger, settings)
        run = survey(working, undo_s=3600)
        keeper.run_due()
        task = working.send("POST", f"/v1/cleanups/{run['id']}/apply", {"plan": run["plan"]["id"]}).json["task_id"]
        ended(working, task)
        assert working.send("POST", "/v1/cleanups/undo", {"names": []}).json["saved"]
        keeper.run_due()
    assert [(news["event"], news["planned"]) for news in heard] == [
        ("cleanup.planned", len(run["plan"]["items"])),
        ("cleanup.swept", len(run["plan"]["items"])),
    ]


def test_what_was_confirmed_is_what_is_executed(working: Client) -> None:
    leave(working)
    run = survey(working)
    items = run["plan"]["items"]
    edited = [{**items[0], "cid": "vm-of-others"}, *items[1:]]
    for wrong in (edited, items[1:], []):
        body = {"plan": run["plan"]["id"], "items": wrong}
        refused = working.send("POST", f"/v1/cleanups/{run['id']}/apply", body)
        assert (refused.status, refused.json["code"]) == (412, "stale_plan")
    body = {"plan": run["plan"]["id"], "items": items}
    assert working.send("POST", f"/v1/cleanups/{run['id']}/apply", body).status == 202


def test_a_failing_hook_is_retried_and_reported(working: Client, context: AppContext, tmp_path: Path) -> None:
    keeper = ScheduledCleanup(context.ledger, configured(context, tmp_path, command="false"))
    survey(working)
    for _ in range(5):
        keeper.run_due()
    untold = [e for e in working.get("/v1/events?limit=500").json["items"] if e["kind"] == "cleanup.untold"]
    assert len(untold) == 3


class _listening:
    def __init__(self, heard: list[Any]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *words: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self) -> int:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return int(self._server.server_address[1])

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
