"""The Director's identity, and its settings."""

from __future__ import annotations

import os
from typing import Any

from pydantic import BaseModel

from coterie import __version__
from coterie.director.context import Context
from coterie.director.http.reply import Json, Resource
from coterie.director.routes.noun import noun
from coterie.ledger.views import tasks
from coterie.ledger.visibility import is_limited

router = noun("director", "/v1")


class DirectorName(BaseModel):
    name: str
    uuid: str


class Info(Resource):
    version: str
    director: DirectorName
    local: bool
    pid: int
    unfinished: list[dict[str, Any]]
    resumed: list[dict[str, Any]]


class Value(BaseModel):
    name: str
    value: Any
    origin: str
    variable: str
    help: str


class SettingsFile(BaseModel):
    path: str
    found: bool


class Config(Resource):
    settings: list[Value]
    files: list[SettingsFile]


@router.get("/info", response_model=Info)
def info(context: Context) -> Json:
    """Version, identity, tasks that are not finished, and those that were resumed at the start."""
    with context.ledger.read() as tx:
        unfinished = tasks.unfinished(tx)
    return {
        "version": __version__,
        "director": {"name": context.identity.name, "uuid": context.identity.uuid},
        "local": context.local,
        "pid": os.getpid(),
        "unfinished": [{key: task[key] for key in ("id", "kind", "deployment", "state")} for task in unfinished],
        "resumed": [] if is_limited() else context.resumed,
    }


@router.get("/config", response_model=Config)
def config(context: Context) -> Json:
    """The Director's own settings and where each came from; secrets are hidden."""
    return context.settings.facts()
