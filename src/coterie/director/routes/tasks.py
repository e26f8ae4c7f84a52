"""Tasks: what runs, on which conductors, its progress, and why it waits."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query, Request, Response
from pydantic import Field

from coterie.director.context import Context
from coterie.director.http.filters import require_names
from coterie.director.http.idempotency import Key, run_once
from coterie.director.http.reply import Json, Listing, Part, Resource, Word, listing
from coterie.director.routes.noun import noun
from coterie.director.services import deployments
from coterie.director.services.states import StepState, TaskState
from coterie.ledger.views import tasks, waiting

router = noun("tasks", "/v1/tasks")
TaskId = Annotated[int, Path(ge=1, le=2**53)]


class Progress(Resource):
    total: int
    ended: int
    failed: int


class Task(Resource):
    id: int
    kind: str
    deployment: str | None
    state: str
    requested_by: str | None
    events: int
    steps: Progress
    created_at: str
    ended_at: str | None


class Stage(Resource):
    n: int
    name: str
    state: str
    max_in_flight: int | None = Field(description="how many of its steps run at once; null: all")
    total: int
    admitted: int
    ended: int
    failed: int
    cancelled_steps: int = 0


class TaskDetail(Task):
    plan: Any
    report: dict[str, Any] | None
    stages: list[Stage]
    waiting: list[str]


class Step(Resource):
    id: int
    stage: int
    flow: str
    label: str
    subject: str
    state: str
    attempt: int
    owner: str | None
    error: dict[str, Any] | None


@router.get("", response_model=Listing[Task])
def index(
    context: Context,
    part: Part,
    deployment: Word | None = None,
    state: TaskState | None = None,
    kind: Word | None = None,
    without: Annotated[Word | None, Query(description="a kind to leave out, e.g. look")] = None,
) -> Json:
    """Newest first."""
    with context.ledger.read() as tx:
        found = tasks.page(tx, part, deployment=deployment, state=state, kind=kind, without=without)
        return listing(require_names(tx, found, deployment=deployment))


@router.get("/{task}", response_model=TaskDetail)
def show(context: Context, task: TaskId) -> Json:
    """With its plan, stages and report, and the reasons why steps wait, computed now."""
    with context.ledger.read() as tx:
        return {**tasks.one(tx, task), "waiting": waiting.reasons(tx, task)}


@router.get("/{task}/steps", response_model=Listing[Step])
def steps(context: Context, task: TaskId, part: Part, state: StepState | None = None) -> Json:
    with context.ledger.read() as tx:
        tasks.state(tx, task)
        return listing(tasks.step_page(tx, task, part, state))


@router.post("/{task}/cancel", status_code=202, response_model=Task)
def cancel(context: Context, request: Request, task: TaskId, key: Key = None) -> Response:
    """Start no new step; running steps end at their next pause. A task that has ended is left as it is (409)."""

    def work() -> tuple[int, Json]:
        deployments.cancel(context, task)
        with context.ledger.read() as tx:
            return 202, tasks.one(tx, task)

    return run_once(context, request, key, None, work)
