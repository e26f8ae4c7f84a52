"""An operator who sends large manifests, or very many, at once, and goes away."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fastapi import Request

from coterie.conductor.process import Conductor, params_of
from coterie.director.app import build
from coterie.director.context import AppContext
from coterie.director.http.slots import Slots
from coterie.director.middleware import request_limits
from coterie.director.process import plan_process
from coterie.director.services import deployments, large_plans
from coterie.director.services.deployments import DeployBody, PlanBody
from coterie.errors import UsageError
from coterie.ledger.rows import director_keys, stemcells
from coterie.ledger.store import pinned_release
from coterie.ledger.views import tasks
from coterie.seal.signature import Signer
from coterie.settings import load
from tests.cli.conftest import CLOUD, MANIFEST
from tests.director import asgi
from tests.director.access.conftest import Make
from tests.director.asgi import Client
from tests.ledger.test_grants import finished


def children() -> list[str]:
    """Command lines of our own plan processes."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1] if folder.name.isdigit() else ""
            words = (folder / "cmdline").read_text() if parent == str(os.getpid()) else ""
        except OSError:
            continue
        found += [words] if "plan_process" in words else []
    return found


@pytest.fixture
def apart(context: AppContext, monkeypatch: pytest.MonkeyPatch) -> AppContext:
    context.database = context.state_folder.database
    monkeypatch.setattr(large_plans, "LARGE", 1000)
    return context


REQUESTS = [("POST", "/v1/plans"), ("PUT", "/v1/deployments/x")]


@pytest.mark.parametrize(("method", "path"), REQUESTS)
def test_a_large_one_is_made_apart_and_its_mistakes_come_back(
    apart: AppContext, client: Client, method: str, path: str
) -> None:
    large = {"manifest": "name: x\nbad: 1\n" + "#" * 2000, "manifest_file": "m.yml"}
    here = client.send(method, path, {**large, "manifest": large["manifest"].strip("#")})
    there = client.send(method, path, large)
    assert there.status == here.status >= 400, there.text
    assert there.json == here.json
    assert children() == []


def test_a_large_deploy_is_accepted_once(context: AppContext, client: Client, tmp_path: Path) -> None:
    conductor = Conductor(context.ledger, "c", state_folder=tmp_path, workers=2)
    conductor.start()
    try:
        with context.ledger.write() as tx:
            stemcells.add(tx, "debian-12", "1.1", None, None, {"image": "x"}, [])
            director_keys.publish(tx, Signer.load(context.state_folder.signing_key), params_of, pinned=False)
        context.ledger.sign_with(Signer.load(context.state_folder.signing_key))
        assert client.send("PUT", "/v1/cloud-config", {"text": CLOUD}).status == 200
        context.database = context.state_folder.database
        body = {"manifest": MANIFEST + "#" * 100_000}
        first, again = [client.send("PUT", "/v1/deployments/web", body, {"Idempotency-Key": "k"}) for _ in range(2)]
        assert (first.status, again.status, again.headers.get("idempotency-replayed")) == (202, 202, "true"), first.text
        assert first.json == again.json
        assert finished(context.ledger, first.json["task_id"]) == "done"
    finally:
        conductor.drain(10)


@pytest.mark.parametrize(("method", "path"), REQUESTS)
def test_it_is_stopped_when_the_client_goes_and_others_do_not_wait(apart: AppContext, method: str, path: str) -> None:
    body = json.dumps({"manifest": "name: x\n" + "- a: {b: [c, d]}\n" * 180_000}).encode()
    assert len(body) > 3_000_000
    headers = {"content-type": "application/json", "coterie-api-version": "latest", "content-length": str(len(body))}
    seen: list[int] = []

    async def run() -> None:
        gone = asyncio.Event()
        pending: list[Any] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Any:
            if pending:
                return pending.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            """The client has gone."""

        app = build(apart)
        work = asyncio.create_task(app(asgi._scope(method, path, headers), receive, send))
        until = time.monotonic() + 60
        while not children() and time.monotonic() < until:
            await asyncio.sleep(0.05)
        seen.append(len(children()))
        await app(asgi._scope("GET", "/v1/info", {}), asgi._receiver(b""), send)
        seen.append(len(children()))  # answered meanwhile
        gone.set()
        await asyncio.wait_for(work, 60)
        seen.append(len(children()))

    asyncio.run(run())
    assert seen == [1, 1, 0]
    with apart.ledger.read() as tx:
        assert tasks.unfinished(tx) == []


def test_a_deploy_that_is_being_stored_is_not_stopped(monkeypatch: pytest.MonkeyPatch, context: AppContext) -> None:
    """Else the answer would be lost, and a repetition would begin a second one."""

    def deploy(_: AppContext, name: str, body: DeployBody, before_storing: Callable[[], None]) -> int:
        before_storing()
        os.kill(os.getpid(), signal.SIGTERM)
        return 7

    monkeypatch.setattr(deployments, "deploy", deploy)
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert plan_process._deploy(context, {"deploy": "x", "body": {"manifest": ""}}) == {"task_id": 7}
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_process_of_a_pinned_director_is_pinned_too(context: AppContext, monkeypatch: pytest.MonkeyPatch) -> None:
    pinned: list[str | None] = []

    def plan(apart: AppContext, body: PlanBody) -> Any:
        with apart.ledger.read() as tx:
            pinned.append(pinned_release(tx))
        raise UsageError("planned")

    monkeypatch.setattr(deployments, "plan", plan)
    context.database = context.state_folder.database
    context.settings = load({"state": str(context.state_folder.path), "pin_release_version": "0.0"}, {"HOME": "/"})
    request = Request({"type": "http", "path": "/v1/plans", "headers": []})
    order = {**large_plans._order(context, request, PlanBody(manifest="name: x")), "detail": False}
    with pytest.raises(UsageError, match="planned"):
        plan_process._work(json.loads(json.dumps(order)))
    assert pinned == ["0.0"]


def test_one_caller_has_few_at_once(apart: AppContext, person: Make) -> None:
    apart.large_documents = Slots("large documents", 0, 4)
    large = {"content-length": "5000"}
    one = person("admin")
    for method, path in (*REQUESTS, ("POST", "/v1/recoveries/plan"), ("POST", "/v1/recoveries")):
        refused = one.send(method, path, {"manifest": "name: x\n" + "#" * 2000}, **large)
        assert (refused.status, refused.json["code"]) == (429, "too_many_requests")
    assert one.send("POST", "/v1/plans", {"manifest": "name: x"}, **{"content-length": "30"}).status != 429


def test_one_caller_with_very_many_requests_keeps_no_other_waiting(
    context: AppContext, person: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than there are threads: what is too much for one caller waits without one, and as long as it must."""
    monkeypatch.setattr(request_limits, "BODY_S", 0.2)
    working, go_on = threading.Semaphore(0), threading.Event()

    def plan(_: AppContext, body: PlanBody) -> Any:
        if body.manifest == "slow":
            working.release()
            assert go_on.wait(60)
        raise UsageError("planned")

    def whole(_: AppContext, deployment: str | None) -> dict[str, Any]:
        working.release()
        assert go_on.wait(60)
        return {"nodes": [], "groups": []}

    monkeypatch.setattr(deployments, "plan", plan)
    monkeypatch.setattr(deployments, "audit", whole)
    one, other, viewer = person("operator"), person("operator", name="other"), person("viewer", name="viewer")
    small = {"content-length": "30"}
    with ThreadPoolExecutor(100) as many:
        answers = [many.submit(one.send, "POST", "/v1/plans", {"manifest": "slow"}, **small) for _ in range(50)]
        answers += [many.submit(viewer.get, "/v1/placement") for _ in range(50)]
        try:
            for _ in range(4 + 16):
                assert working.acquire(timeout=60)
            assert "planned" in other.send("POST", "/v1/plans", {"manifest": "x"}, **small).text
            assert other.get("/v1/info").status == 200
            assert not working.acquire(timeout=0.3), "no more than this of one caller"
        finally:
            go_on.set()
        assert {done.result().status for done in answers} == {400, 200}
    assert context.requests._of == context.documents._of == {}


def test_what_waited_until_its_client_had_gone_is_not_planned(
    context: AppContext, person: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: list[str] = []
    monkeypatch.setattr(deployments, "plan", lambda _, body: planned.append(body.manifest))
    bearer = f"Bearer {person('operator').token}"
    body = b'{"manifest": "x"}'
    headers = {"authorization": bearer, "content-type": "application/json", "content-length": str(len(body))}
    answers: list[Any] = []

    async def run() -> None:
        pending: list[Any] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Any:
            return pending.pop() if pending else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            answers.append(message)

        await build(context)(asgi._scope("POST", "/v1/plans", headers), receive, send)

    asyncio.run(run())
    assert answers[0]["status"] == 503 and planned == []


def test_a_small_document_about_many_nodes_is_planned_apart_too(context: AppContext) -> None:
    context.database = context.state_folder.database
    group = "- {name: %s, instances: %d}\n"

    def apart(text: str) -> bool:
        return large_plans.is_apart(context, PlanBody(manifest=text))

    assert not apart("instance_groups:\n" + group % ("a", 3000))
    assert apart("instance_groups:\n" + group % ("a", 2000) + group % ("b", 2000))
    assert apart('{"instance_groups": [{"name": "a", "instances": 100000}]}')
