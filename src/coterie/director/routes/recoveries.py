"""Recoveries: the records of a deployment written again from its clouds, after the ledger was lost or is old."""

from __future__ import annotations

from fastapi import Depends, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from coterie.director.access import caller
from coterie.director.context import AppContext, Context
from coterie.director.http.idempotency import Key, run_once
from coterie.director.http.reply import Json, Resource
from coterie.director.routes.noun import noun
from coterie.director.services.clouds import seal_given_config
from coterie.director.services.large_plans import hold_slot
from coterie.requests import recover
from coterie.requests.request import PlanRequest

router = noun("recoveries", "/v1/recoveries")


class DocumentsBody(BaseModel):
    """The manifest of the deployment, and the cloud config if none is set yet."""

    model_config = ConfigDict(extra="forbid")
    manifest: str = Field(max_length=4 * 2**20, description="YAML")
    manifest_file: str = Field("manifest", max_length=1000)
    cloud_config: str | None = Field(None, max_length=4 * 2**20, description="YAML; null: the one that is set")
    config_file: str = Field("cloud-config", max_length=1000)


class RecoveryBody(DocumentsBody):
    """The same, and the recovery that was looked at."""

    plan: str = Field(max_length=255)


class Item(Resource):
    kind: str
    name: str
    cloud: str
    cid: str
    why: str
    taken: bool


class Recovery(Resource):
    id: str
    deployment: str
    known: int
    items: list[Item]


@router.post("/plan", response_model=Recovery, dependencies=[Depends(hold_slot)])
def plan(context: Context, body: DocumentsBody) -> Json:
    """What the clouds hold of the deployment with the mark of this Director, and which of it can be taken."""
    return recover.plan_recovery(context.ledger, _request(context, body)).wire()


@router.post("", response_model=Recovery, dependencies=[Depends(hold_slot)])
def apply(context: Context, request: Request, body: RecoveryBody, key: Key = None) -> Response:
    """Write the records, if the clouds still show what was looked at (else 412). Changes no cloud."""

    def work() -> tuple[int, Json]:
        wanted = _request(context, body)
        return 200, recover.apply_recovery(context.ledger, wanted, body.plan, caller.current().identity).wire()

    return run_once(context, request, key, body.model_dump(), work)


def _request(context: AppContext, body: DocumentsBody) -> PlanRequest:
    return PlanRequest(
        manifest=body.manifest,
        manifest_file=body.manifest_file,
        cloud_config=seal_given_config(context, body.cloud_config, body.config_file),
        config_file=body.config_file,
        auto_anti_affinity=context.settings["auto_anti_affinity"],
    )
