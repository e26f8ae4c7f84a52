"""Errors as RFC 9457 problems. An unexpected exception is reported without its internals."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException

from coterie.cpi.contract import CpiError
from coterie.errors import CoterieError, Unreachable
from coterie.ledger.errors import Unavailable
from coterie.redact import hide

log = logging.getLogger(__name__)
MEDIA_TYPE = "application/problem+json"


class Mistake(BaseModel):
    """One mistake in a document or a request."""

    file: str | None = None
    line: int | None = None
    column: int | None = None
    field: str
    what: str
    remedy: str = ""


class Problem(BaseModel):
    """RFC 9457, with what we add: a code for programs, a remedy for people, and whether to try again."""

    model_config = ConfigDict(extra="allow")
    type: str
    title: str
    status: int
    detail: str
    instance: str | None = None
    code: str
    what: str
    why: str = ""
    remedy: str = ""
    retryable: bool = False
    task_id: int | None = None
    mistakes: list[Mistake] | None = None
    details: dict[str, Any] | None = None


class Failure(CoterieError):
    """An error of HTTP itself (no such path, wrong method, body too large), or an unexpected one."""

    def __init__(self, status: int, code: str, what: str, remedy: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(what, remedy=remedy)
        self.status, self.code, self.headers = status, code, headers or {}


class AnsweredProblem(Exception):
    """A problem that another process of ours has described already."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__(body["what"])
        self.body = body


def install(app: FastAPI) -> None:
    app.add_exception_handler(CoterieError, _on_coterie_error)
    app.add_exception_handler(RequestValidationError, _on_invalid_request)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(Unavailable, _on_silent_ledger)
    app.add_exception_handler(AnsweredProblem, _on_answered_problem)


def response(error: CoterieError, path: str | None = None) -> Response:
    body = hide(body_of(error, path))
    headers = getattr(error, "headers", None)
    return JSONResponse(body, body["status"], media_type=MEDIA_TYPE, headers=headers)


def body_of(error: CoterieError, path: str | None = None) -> dict[str, Any]:
    details = dict(error.details)
    mistakes, task = details.pop("mistakes", None), details.pop("task_id", None)
    why = "" if mistakes else error.why  # each mistake appears once, where programs can read it
    return {
        "type": f"urn:coterie:problem:{error.code}",
        "title": error.code.replace("_", " ").capitalize(),
        "status": _status(error),
        "detail": f"{error.what}: {why}" if why else error.what,
        "instance": path,
        "code": error.code,
        "what": error.what,
        "why": why,
        "remedy": error.remedy,
        "retryable": error.retryable,
        "task_id": task,
        "mistakes": mistakes,
        "details": details or None,
    }


def unexpected_failure() -> Failure:
    return Failure(500, "internal", "the Director failed unexpectedly", "see its log: `coterie doctor`")


def _status(error: CoterieError) -> int:
    # A cloud that refuses *our* credentials must not look like a Director that refuses the caller's.
    if isinstance(error, CpiError) and error.status in (401, 403):
        return 502
    return error.status


def _on_coterie_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, CoterieError)  # registered for this class only
    if error.status >= 500:
        log.warning("%s %s: %s", request.method, request.url.path, error)
    return response(error, request.url.path)


def _on_answered_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, AnsweredProblem)  # registered for this class only
    return JSONResponse(hide(error.body), error.body["status"], media_type=MEDIA_TYPE)


def _on_silent_ledger(request: Request, error: Exception) -> Response:
    log.error("%s %s: the ledger does not answer: %s", request.method, request.url.path, error)
    remedy = "try again in a moment; if it stays so, see the log of the Director"
    return response(Unreachable("the ledger does not answer", remedy=remedy), request.url.path)


def _on_invalid_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # registered for this class only
    mistakes = [
        {"field": ".".join(str(part) for part in one["loc"]), "what": str(one["msg"]), "remedy": ""}
        for one in error.errors()
    ]
    first = mistakes[0]
    failure = Failure(
        422, "invalid_request", f"{first['field']}: {first['what']}", "correct the request as /openapi.json says"
    )
    failure.details["mistakes"] = mistakes
    return response(failure, request.url.path)


def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # registered for this class only
    path = request.url.path
    known = {
        404: ("not_found", f"there is nothing at {path}", "see /openapi.json for what there is"),
        413: ("too_large", str(error.detail), "send less; a stemcell goes to POST /v1/stemcells as application/gzip"),
        422: ("invalid_request", str(error.detail), "correct the request as /openapi.json says"),
        405: ("method_not_allowed", f"{request.method} does not work on {path}", "see the Allow header"),
    }
    words = known.get(error.status_code, ("bad_request", str(error.detail), "correct the request"))
    return response(Failure(error.status_code, *words, headers=dict(error.headers or {})), path)
