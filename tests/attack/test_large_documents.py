"""An operator who sends large manifests, several at once, and goes away."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from coterie.conductor.process import Conductor, params_of
from coterie.director.app import build
from coterie.director.context import AppContext
from coterie.director.http.slots import Slots
from coterie.director.process import plan_process
from coterie.director.services import deployments, large_plans
from coterie.director.services.deployments import DeployBody
from coterie.ledger.rows import director_keys, stemcells
from coterie.ledger.views import tasks
from coterie.seal.signature import Signer
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
    apart: AppContext, client: Client, monkeypatch: pytest.MonkeyPatch, method: str, path: str
) -> None:
    monkeypatch.setattr(asgi, "_receiver", partial(asgi._receiver, forever=True))  # the client stays
    large = {"manifest": "name: x\nbad: 1\n" + "#" * 2000, "manifest_file": "m.yml"}
    here = client.send(method, path, {**large, "manifest": large["manifest"].strip("#")})
    there = client.send(method, path, large)
    assert there.status == here.status >= 400, there.text
    assert there.json == here.json
    assert children() == []


def test_a_large_deploy_is_accepted_once(
    context: AppContext, client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(asgi, "_receiver", partial(asgi._receiver, forever=True))
    conductor = Conductor(context.ledger, "c", state_folder=tmp_path, workers=2)
    conductor.start()
    try:
        with context.ledger.write() as tx:
            stemcells.add(tx, "debian-12", "1.1", None, None, {"image": "x"}, [])
            director_keys.publish(tx, Signer.load(context.state_folder.signing_key), params_of, pinned=False)
        context.ledger.sign_with(Signer.load(context.state_folder.signing_key))
        assert client.send("PUT", "/v1/cloud-config", {"text": CLOUD}).status == 200
        context.database = context.state_folder.database
        body = {"manifest": MANIFEST + "#" * 3_000_000}
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


def test_one_caller_has_few_at_once(apart: AppContext, person: Make) -> None:
    apart.large_documents = Slots("large documents", 0, 4)
    large = {"content-length": "5000"}
    one = person("admin")
    for method, path in (*REQUESTS, ("POST", "/v1/recoveries/plan"), ("POST", "/v1/recoveries")):
        refused = one.send(method, path, {"manifest": "name: x\n" + "#" * 2000}, **large)
        assert (refused.status, refused.json["code"]) == (429, "too_many_requests")
    assert one.send("POST", "/v1/plans", {"manifest": "name: x"}, **{"content-length": "30"}).status != 429
