"""Cleanups: what was left behind, which of it is provably ours, and its removal."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Path, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from coterie.director.context import Here
from coterie.director.http.idempotency import Key, once
from coterie.director.http.reply import Accepted, Json, Listing, Part, Resource, Word, listing
from coterie.director.routes.noun import noun
from coterie.director.services import cleanups as cleaning
from coterie.ledger.views import cleanups

router = noun("cleanups", "/v1/cleanups")
Id = Annotated[int, Path(ge=1, le=2**53)]
Words = Annotated[list[Word] | None, Field(max_length=1000)]
Globs = Annotated[list[Annotated[str, Field(max_length=255)]] | None, Field(max_length=1000)]
Seconds = Annotated[float | None, Field(ge=0, le=10 * 366 * 86400)]


class Wish(BaseModel):
    """Which objects, and how carefully; what is left out is as this Director is configured."""

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


class Agreed(BaseModel):
    """The plan that was looked at."""

    model_config = ConfigDict(extra="forbid")
    plan: str = Field(max_length=255)


class Saved(BaseModel):
    """Disks to save, by CID or intent; none: all that are in their undo window."""

    model_config = ConfigDict(extra="forbid")
    names: list[Word] = Field(default_factory=list, max_length=10_000)


class Begun(Accepted):
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
    pinned: bool


class Undone(BaseModel):
    saved: list[dict[str, Any]]


@router.get("", response_model=Listing[Cleanup])
def index(office: Here, part: Part) -> Json:
    """Newest first."""
    with office.ledger.read() as tx:
        return listing(cleanups.page(tx, part))


@router.post("", status_code=202, response_model=Begun)
def begin(office: Here, request: Request, wish: Wish, key: Key = None) -> Response:
    """Survey the clouds. Deletes nothing: the plan that comes of it has to be applied."""
    return once(
        office, request, key, wish.model_dump(), lambda: (202, dict(cleaning.survey(office, wish.model_dump())))
    )


@router.get("/marks", response_model=Listing[Mark])
def marks(office: Here, part: Part) -> Json:
    """Objects that were seen unused, since when, and whether undo has saved them."""
    with office.ledger.read() as tx:
        return listing(cleanups.mark_page(tx, part))


@router.post("/undo", response_model=Undone)
def undo(office: Here, request: Request, saved: Saved, key: Key = None) -> Response:
    """Save disks from their undo window: no cleanup deletes them any more."""
    return once(office, request, key, saved.model_dump(), lambda: (200, {"saved": cleaning.undo(office, saved.names)}))


@router.get("/{cleanup}", response_model=CleanupDetail)
def show(office: Here, cleanup: Id) -> Json:
    """With its surveys, its plan (once the survey has ended) and what became of it."""
    return cleaning.show(office.ledger, cleanup)


@router.get("/{cleanup}/findings", response_model=Listing[Finding])
def findings(
    office: Here,
    cleanup: Id,
    part: Part,
    verdict: Word | None = None,
    kind: Word | None = None,
    cloud: Word | None = None,
    outcome: Word | None = None,
) -> Json:
    """Everything that is neither in use nor foreign, with the reason and the evidence."""
    wanted = {"verdict": verdict, "kind": kind, "cloud": cloud, "outcome": outcome}
    return listing(cleaning.findings(office.ledger, cleanup, part, **wanted))


@router.post("/{cleanup}/apply", status_code=202, response_model=Accepted)
def apply(office: Here, request: Request, cleanup: Id, agreed: Agreed, key: Key = None) -> Response:
    """Do what the plan says, if it is still the plan (else 412); each object is read again before it goes."""
    return once(
        office,
        request,
        key,
        agreed.model_dump(),
        lambda: (202, {"task_id": cleaning.apply(office, cleanup, agreed.plan)}),
    )
