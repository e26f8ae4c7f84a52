"""Documents: few of one caller are read at once. Plans and deploys of large ones, and of many nodes, are made by a
process of their own, which is stopped when the client goes.

Reading a manifest of megabytes takes many seconds of computing, and so does a plan of many thousand nodes: no other
request shall wait for them.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any

from anyio import from_thread
from fastapi import Request

from coterie.director.access import caller
from coterie.director.context import AppContext, Context
from coterie.director.http import problem
from coterie.director.services.deployments import DeployBody, PlanBody

LARGE = 32 * 1024
MANY = 3000  # nodes: below, starting a process costs more than the plan
_READ = ("auto_anti_affinity", "pin_release_version", "meltdown_percent", "meltdown_nodes")  # settings for the process
_LOOK_S = 0.3


async def hold_slot(context: Context, request: Request) -> AsyncIterator[None]:
    """A dependency of routes that read documents: a large one takes a slot or is refused, others wait for one."""
    if not context.locked:
        yield
        return
    holder, length = caller.current().identity, request.headers.get("content-length", "")
    if request.method != "GET" and not (length.isdigit() and int(length) <= LARGE):
        context.large_documents.take(holder)
        try:
            yield
        finally:
            context.large_documents.release(holder)
        return
    async with context.documents.take(holder):
        if await request.is_disconnected():
            raise _stopped()
        yield


def is_apart(context: AppContext, body: PlanBody | DeployBody) -> bool:
    """Whether this request gets a process of its own."""
    size = len(body.manifest or "") + len(body.cloud_config or "")
    return bool(context.database) and (size > LARGE or _count_nodes(body.manifest or "") > MANY)


_INSTANCES = re.compile(r"\binstances[\"']?\s*:\s*[\"']?(\d{1,6})\b")


def _count_nodes(manifest: str) -> int:
    """As written; a manifest that hides the number from this is planned in the Director, and is bounded there, too."""
    return sum(map(int, _INSTANCES.findall(manifest)))


async def plan_apart(context: AppContext, request: Request, body: PlanBody, detail: bool) -> dict[str, Any]:
    """`id`, `plan` and `text`; or `problem`."""
    return await _run(context, request, {**_order(context, request, body), "detail": detail})


def deploy_apart(context: AppContext, request: Request, name: str, body: DeployBody) -> dict[str, Any]:
    """`task_id`; or `problem`. Call it in a worker thread of the event loop."""
    answer = from_thread.run(_run, context, request, {**_order(context, request, body), "deploy": name})
    context.ledger.notify_ready()  # another process has written: conductors in this one do not know
    return answer


async def _run(context: AppContext, request: Request, order: dict[str, Any]) -> dict[str, Any]:
    """The process is stopped when the client goes or the Director ends. One that has begun to store a deploy ends by
    itself, and its answer counts."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "coterie.director.process.plan_process", stdin=-1, stdout=-1
    )
    talk = asyncio.create_task(process.communicate(json.dumps(order).encode()))
    stopped = False
    try:
        while not (await asyncio.wait({talk}, timeout=_LOOK_S))[0]:
            if not stopped and (context.ending or await request.is_disconnected()):
                stopped = True
                process.terminate()
        answer: dict[str, Any] = json.loads((await talk)[0] or b"null") or {}
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
    failure = _stopped() if stopped else problem.unexpected_failure()
    return answer or {"problem": problem.body_of(failure, request.url.path)}


def _order(context: AppContext, request: Request, body: PlanBody | DeployBody) -> dict[str, Any]:
    who = asdict(caller.current())
    return {
        "database": context.database,
        "settings": {
            "state": str(context.state_folder.path),
            **{name: context.settings[name] for name in _READ},
        },
        "caller": {**who, "teams": None if who["teams"] is None else sorted(who["teams"])},
        "body": body.model_dump(),
        "path": request.url.path,
    }


def _stopped() -> problem.Failure:
    return problem.Failure(503, "unreachable", "the request was stopped", "send it again")
