"""What a field of the manifest or the cloud config means."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import Path

from coterie.cpi.load import forms_of
from coterie.director.http.reply import Json, OwnJson, Resource
from coterie.director.routes.noun import noun
from coterie.manifest.explain import explain

router = noun("explain", "/v1/explain")


class Explanation(Resource):
    path: str
    type: str
    description: str


@router.get("/{path:path}", response_model=Explanation, response_class=OwnJson)
def show(path: Annotated[str, Path(max_length=500, examples=["instance_groups.placement.policy"])]) -> Json:
    return asdict(explain(path, forms_of))
