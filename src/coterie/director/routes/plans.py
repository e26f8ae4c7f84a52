"""Plans: what a deploy or a delete would do. Making one changes no cloud and no record."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query
from fastapi.responses import PlainTextResponse, Response

from coterie.director.context import Context
from coterie.director.http.reply import Json, Resource, SafeJson, tag
from coterie.director.routes.noun import noun
from coterie.director.services import deployments
from coterie.director.services.deployments import PlanBody

router = noun("plans", "/v1/plans")


class Change(Resource):
    action: str
    kind: str
    subject: str
    reason: str
    destructive: bool


class Plan(Resource):
    id: str
    changes: list[Change]


@router.post("", response_model=Plan)
def make(
    context: Context,
    body: PlanBody,
    format: Annotated[Literal["json", "text"], Query(description="text: as the command line shows it")] = "json",
    text: Annotated[
        Literal["none", "short", "detail"], Query(description="add the rendered text to the JSON")
    ] = "none",
) -> Response:
    """Refresh the facts, then plan. The ETag is the plan's id: a deploy that names it is refused once it is stale."""
    plan = deployments.plan(context, body)
    headers = {"ETag": tag(plan.id)}
    if format == "text":
        return PlainTextResponse(deployments.render_text(plan, text == "detail"), headers=headers)
    answer: Json = plan.to_json()
    if text != "none":
        answer = {**answer, "text": deployments.render_text(plan, text == "detail")}
    return SafeJson(answer, headers=headers)
