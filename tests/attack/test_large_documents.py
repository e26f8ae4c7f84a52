"""An operator who sends large manifests, several at once, and goes away."""

from __future__ import annotations

import asyncio
import json
import os
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from coterie.director.app import build
from coterie.director.context import AppContext
from coterie.director.http.slots import Slots
from coterie.director.services import large_plans
from tests.director import asgi
from tests.director.access.conftest import Make
from tests.director.asgi import Client


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


def test_a_large_plan_is_made_apart_and_its_mistakes_come_back(
    apart: AppContext, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asgi, "_receiver", partial(asgi._receiver, forever=True))  # the client stays
    large = {"manifest": "name: x\nbad: 1\n" + "#" * 2000, "manifest_file": "m.yml"}
    here = client.send("POST", "/v1/plans", {**large, "manifest": large["manifest"].strip("#")})
    there = client.send("POST", "/v1/plans", large)
    assert there.status == here.status >= 400, there.text
    assert there.json == here.json
    assert children() == []


def test_it_is_stopped_when_the_client_goes(apart: AppContext) -> None:
    body = json.dumps({"manifest": "name: x\n" + "- a: {b: [c, d]}\n" * 150_000}).encode()
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

        work = asyncio.create_task(build(apart)(asgi._scope("POST", "/v1/plans", headers), receive, send))
        until = time.monotonic() + 60
        while not children() and time.monotonic() < until:
            await asyncio.sleep(0.05)
        seen.append(len(children()))
        gone.set()
        await asyncio.wait_for(work, 60)
        seen.append(len(children()))

    asyncio.run(run())
    assert seen == [1, 0]


def test_one_caller_has_few_at_once(apart: AppContext, person: Make) -> None:
    apart.large_documents = Slots("large documents", 0, 4)
    large = {"content-length": "5000"}
    one = person("operator")
    for method, path in (("POST", "/v1/plans"), ("PUT", "/v1/deployments/x")):
        refused = one.send(method, path, {"manifest": "name: x\n" + "#" * 2000}, **large)
        assert (refused.status, refused.json["code"]) == (429, "too_many_requests")
    assert one.send("POST", "/v1/plans", {"manifest": "name: x"}, **{"content-length": "30"}).status != 429
