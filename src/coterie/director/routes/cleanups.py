"""Cleanups: objects left behind in clouds, the proof that they are ours, and their removal."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Path, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from coterie.director.context import Context
from coterie.director.http.idempotency import Key, run_once
from coterie.director.http.reply import Accepted, Json, Listing, Part, Resource, Word, listing
from coterie.director.routes.noun import noun
from coterie.director.services import cleanups
from coterie.ledger.views.cleanups import mark_page, page

router = noun("cleanups", "/v1/cleanups")
Id = Annotated[int, Path(ge=1, le=2**53)]
Words = Annotated[list[Word] | None, Field(max_length=1000)]
Globs = Annotated[list[Annotated[str, Field(max_length=255)]] | None, Field(max_length=1000)]
Seconds = Annotated[float | None, Field(ge=0, le=10 * 366 * 86400)]


class SurveyBody(BaseModel):
    """Which objects, and how carefully; fields that are left out take this Director's settings."""

    model_config = ConfigDict(extra="forbid")
    kinds: Words = None
    not_kinds: Words = None
    names: Globs = None
    not_names: Globs = None
    clouds: Words = None
    not_clouds: Words = None
    azs: Words = None
    not_azs: Words = None
    grace_s: Seconds = None
    older_than_s: Seconds = None
    undo_s: Seconds = None
    disks: Literal["keep", "snapshot"] | None = None
    keep_stemcells: int | None = Field(None, ge=0, le=1_000_000)
    cap: int | None = Field(None, ge=0, le=1_000_000)
    cap_percent: float | None = Field(None, ge=0, le=100)
    rate: float | None = Field(None, gt=0, le=10_000)
    expires_s: Seconds = None
    hours: str | None = Field(None, max_length=5, pattern=r"^([0-9]{1,2}-[0-9]{1,2})?$")


class ApplyBody(BaseModel):
    """The plan that was reviewed."""

    model_config = ConfigDict(extra="forbid")
    plan: str = Field(max_length=255)
    items: list[dict[str, Any]] | None = Field(
        None, max_length=1_000_000, description="those that were confirmed; another plan's are refused"
    )


class UndoBody(BaseModel):
    """Disks to save, by CID or intent; none: all that are in their undo window."""

    model_config = ConfigDict(extra="forbid")
    names: list[Word] = Field(default_factory=list, max_length=10_000)


class SurveyStarted(Accepted):
    cleanup: int


class Cleanup(Resource):
    id: int
    state: str
    options: dict[str, Any]
    requested_by: str | None
    survey_task: int | None
    sweep_task: int | None
    created_at: str


class CleanupDetail(Cleanup):
    surveys: list[Any]
    outcomes: dict[str, int]
    plan: Any


class Finding(Resource):
    id: int
    cloud: str
    kind: str
    cid: str | None
    verdict: str
    action: str
    reason: str
    outcome: str | None


class Mark(Resource):
    cloud: str
    kind: str
    cid: str
    since: str
    doomed: bool = Field(description="in its undo window")
    pinned: bool = Field(description="saved by undo")


class Undone(BaseModel):
    saved: list[dict[str, Any]]


@router.get("", response_model=Listing[Cleanup])
def index(context: Context, part: Part) -> Json:
    """Newest first."""
    with context.ledger.read() as tx:
        return listing(page(tx, part))


@router.post("", status_code=202, response_model=SurveyStarted)
def begin(context: Context, request: Request, body: SurveyBody, key: Key = None) -> Response:
    """Survey the clouds. Deletes nothing: the resulting plan has to be applied."""
    return run_once(
        context, request, key, body.model_dump(), lambda: (202, dict(cleanups.survey(context, body.model_dump())))
    )


@router.get("/marks", response_model=Listing[Mark])
def marks(context: Context, part: Part) -> Json:
    """Objects that were seen unused, since when, and whether undo has saved them."""
    with context.ledger.read() as tx:
        return listing(mark_page(tx, part))


@router.post("/undo", response_model=Undone)
def undo(context: Context, request: Request, body: UndoBody, key: Key = None) -> Response:
    """Save disks from their undo window: no cleanup deletes them any more."""
    return run_once(
        context, request, key, body.model_dump(), lambda: (200, {"saved": cleanups.undo(context, body.names)})
    )


@router.get("/{cleanup}", response_model=CleanupDetail)
def show(context: Context, cleanup: Id) -> Json:
    """With its surveys, its plan (once the survey has ended) and the outcomes."""
    return cleanups.show(context.ledger, cleanup)


@router.get("/{cleanup}/findings", response_model=Listing[Finding])
def findings(
    context: Context,
    cleanup: Id,
    part: Part,
    verdict: Word | None = None,
    kind: Word | None = None,
    cloud: Word | None = None,
    outcome: Word | None = None,
) -> Json:
    """Everything that is neither in use nor foreign, with the reason and the evidence."""
    wanted = {"verdict": verdict, "kind": kind, "cloud": cloud, "outcome": outcome}
    return listing(cleanups.findings(context.ledger, cleanup, part, **wanted))


@router.post("/{cleanup}/apply", status_code=202, response_model=Accepted)
def apply(context: Context, request: Request, cleanup: Id, body: ApplyBody, key: Key = None) -> Response:
    """Carry the plan out if it is still the same (else 412); each object is read again before it is deleted."""
    return run_once(
        context,
        request,
        key,
        body.model_dump(),
        lambda: (202, {"task_id": cleanups.apply(context, cleanup, body.plan, body.items)}),
    )
