"""What a field of the manifest or the cloud config means."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Path

from coterie.director.reply import PROBLEMS, Json, Resource
from coterie.manifest.explain import explain

router = APIRouter(tags=["explain"], prefix="/v1/explain", responses=PROBLEMS)


class Explanation(Resource):
    path: str
    type: str
    description: str


@router.get("/{path:path}", response_model=Explanation)
def show(path: Annotated[str, Path(max_length=500, examples=["instance_groups.placement.policy"])]) -> Json:
    return asdict(explain(path))
