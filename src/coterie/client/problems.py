"""Answers of the API that are problems, turned back into typed errors with the exit code that belongs to each."""

from __future__ import annotations

import json
from typing import Any

from coterie.errors import CoterieError

_BY_CODE = {
    "usage": 2,
    "invalid_document": 2,
    "invalid_request": 2,
    "refused": 4,
    "not_found": 5,
    "conflict": 6,
    "stale_plan": 6,
    "unauthenticated": 8,
    "too_many_attempts": 8,
    "forbidden": 4,
    "quota_exceeded": 1,
    "group_missing": 1,
}
_BY_STATUS = {
    400: 2,
    401: 8,
    403: 8,
    404: 5,
    405: 2,
    409: 6,
    412: 6,
    413: 2,
    415: 2,
    422: 2,
}


class ApiProblem(CoterieError):
    """A problem in the Director's answer."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        super().__init__(
            problem.get("what") or problem.get("detail") or problem.get("title") or f"the Director answered {status}",
            why=problem.get("why") or "",
            remedy=problem.get("remedy") or "",
            retryable=bool(problem.get("retryable")),
            details=problem.get("details") or {},
        )
        self.status = status
        self.code = problem.get("code") or f"http_{status}"
        self.exit_code = exit_code(status, problem.get("code"))
        self.problem = problem

    @property
    def is_passing(self) -> bool:
        """Whether the Director, or the proxy before it, is only out of reach of something for now: a restart."""
        return self.status in (502, 503, 504) and (self.retryable or self.code == f"http_{self.status}")


def exit_code(status: int, code: str | None) -> int:
    if code is None and status in (502, 503, 504):
        return 7  # a proxy answered in the Director's place
    # If the Director reports that something else is unreachable, the Director itself is reachable.
    return _BY_CODE.get(code or "", _BY_STATUS.get(status, 1))


def problem_of(status: int, body: bytes) -> ApiProblem:
    try:
        problem = json.loads(body)
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        problem = {"what": f"the answer ({status}) is not one of a Director", "remedy": "check the URL of the Director"}
    return ApiProblem(status, problem)
