"""Plans: what a deploy or a delete would do. Making one changes no cloud and no record."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Depends, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import PlainTextResponse, Response
from pydantic import Field

from coterie.director.context import AppContext, Context
from coterie.director.http.problem import AnsweredProblem
from coterie.director.http.reply import Json, Resource, SafeJson, tag
from coterie.director.routes.noun import noun
from coterie.director.services import deployments
from coterie.director.services.deployments import PlanBody
from coterie.director.services.large_plans import hold_slot, is_apart, plan_apart

router = noun("plans", "/v1/plans")


class Change(Resource):
    action: str
    kind: str
    subject: str
    reason: str
    destructive: bool


class Plan(Resource):
    id: str
    deployment: str
    changes: list[Change]
    counts: dict[str, int] = Field(description="changes by action")
    destructive: bool
    notes: list[str]
    offers: list[dict[str, Any]] = Field(default=[], description="kept disks that new nodes could take")
    text: str = Field(default="", description="as the command line shows it, if `text` was given")


@router.post("", response_model=Plan, dependencies=[Depends(hold_slot)])
async def make(
    context: Context,
    request: Request,
    body: PlanBody,
    format: Annotated[Literal["json", "text"], Query(description="text: as the command line shows it")] = "json",
    text: Annotated[
        Literal["none", "short", "detail"], Query(description="add the rendered text to the JSON")
    ] = "none",
) -> Response:
    """Refresh the facts, then plan. The ETag is the plan's id: a deploy that names it is refused once it is stale."""
    detail = text == "detail"
    if is_apart(context, body):
        made = await plan_apart(context, request, body, detail)
        return await run_in_threadpool(_answer, made, format, text)
    return await run_in_threadpool(lambda: _answer(_make(context, body, detail), format, text))


def _make(context: AppContext, body: PlanBody, detail: bool) -> Json:
    plan = deployments.plan(context, body)
    return {"id": plan.id, "plan": plan.to_json(), "text": deployments.render_text(plan, detail)}


def _answer(made: Json, format: str, text: str) -> Response:
    if "problem" in made:
        raise AnsweredProblem(made["problem"])
    headers = {"ETag": tag(made["id"])}
    if format == "text":
        return PlainTextResponse(made["text"], headers=headers)
    return SafeJson(made["plan"] if text == "none" else {**made["plan"], "text": made["text"]}, headers=headers)
