"""What all nouns of the API have in common."""

from __future__ import annotations

from fastapi import APIRouter, Depends
from fastapi.params import Depends as Dependency
from fastapi.security import HTTPBearer

from coterie.director.http.reply import PROBLEMS, SafeJson
from coterie.director.http.request_body import StrictRoute
from coterie.director.middleware.api_version import DOCUMENTED

# For the document only: the access middleware decides before any route runs.
_BEARER = Depends(HTTPBearer(auto_error=False, description="An API token, or a JSON web token"))


def noun(tag: str, prefix: str = "", *more: Dependency) -> APIRouter:
    """A complete router: an application copies its routes without analysing them again."""
    return APIRouter(
        tags=[tag],
        prefix=prefix,
        responses=PROBLEMS,
        dependencies=[_BEARER, DOCUMENTED, *more],
        default_response_class=SafeJson,
        redirect_slashes=False,
        route_class=StrictRoute,
    )
