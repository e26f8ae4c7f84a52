"""The ring: which conductor a node belongs to, why, and what would move."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query

from coterie.director.context import Context
from coterie.director.http.reply import Json, Resource, Word
from coterie.director.middleware.api_version import SINCE_GROUPS
from coterie.director.routes.noun import noun
from coterie.director.services import rings

router = noun("ring", "/v1/ring", SINCE_GROUPS)


class OneRing(Resource):
    key: str
    algorithm: str
    members: list[dict[str, Any]]
    orphans: int


class Rings(Resource):
    groups_count: bool
    rings: list[OneRing]


class RingExplanation(Resource):
    node: str
    uuid: str
    key: str
    conductor_group: str
    inherited: bool
    driver: str
    groups_count: bool
    algorithm: str
    ring: list[str]
    conductor: str | None
    why: str


class WhatIf(Resource):
    nodes: int
    moved: int
    orphaned: int
    moves: list[dict[str, Any]]


_Names = Annotated[list[Word], Query(max_length=100)]
_Described = Annotated[
    list[Annotated[str, Query(max_length=1000)]],
    Query(alias="with", max_length=100, description="NAME:GROUP:DRIVERS"),
]


@router.get("", response_model=Rings)
def show(context: Context) -> Json:
    """Every ring: its members, and how many nodes each has."""
    return rings.show(context)


@router.get("/what-if", response_model=WhatIf)
def what_if(context: Context, without: _Names = [], added: _Described = []) -> Json:  # noqa: B006 — FastAPI copies it
    """How many nodes would move, and where, if conductors left or joined."""
    return rings.what_if(context, without, added)


@router.get("/nodes/{which:path}", response_model=RingExplanation)
def explain(context: Context, which: Annotated[Word, Path(description="uuid, or deployment/group/index")]) -> Json:
    """The conductor of one node, and why it is that one."""
    return rings.explain(context, which)
