"""One request to a cloud's HTTP API: at the pace of its class, a change only under the lease, with a token that counts,
and in words of the contract where no answer comes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from coterie.cpi.contract import AuthenticationFailed
from coterie.cpi.kit.http import Answer, AnswerLost, Http, NotTaken, call_error
from coterie.cpi.kit.permit import Permit
from coterie.slotted import dataclass


def is_too_many(answer: Answer) -> bool:
    return answer.status == HTTPStatus.TOO_MANY_REQUESTS


def json_request(body: Any) -> tuple[bytes | None, dict[str, str]]:
    """The bytes and the headers of a request with this body, or with none."""
    if body is None:
        return None, {"Accept": "application/json"}
    return json.dumps(body).encode(), {"Accept": "application/json", "Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class HttpCalls:
    """`token`: a valid one, and never the one that it is given because it was refused. `cloud` and `remedy`: for errors
    without an answer. `is_throttled`: whether an answer slows down the calls of its class."""

    http: Http
    permit: Permit
    token: Callable[[str | None], str]
    cloud: str
    remedy: str
    is_throttled: Callable[[Answer], bool] = is_too_many

    def send(
        self,
        what: str,
        method: str,
        url: str,
        headers: Mapping[str, str],
        raw: bytes | None,
        *,
        pace: str,
        changes: bool,
    ) -> Answer:
        """The answer, whatever its status. A refused token is replaced once: it may have been ended meanwhile. `pace`:
        the class of calls that the cloud counts together."""

        def attempt(token: str) -> Answer:
            signed = {**headers, "Authorization": f"Bearer {token}"}
            return self._send_once(what, method, url, signed, raw, pace, changes)

        token = self.token(None)
        answer = attempt(token)
        if answer.status != HTTPStatus.UNAUTHORIZED:
            return answer
        try:
            other = self.token(token)
        except AuthenticationFailed:
            return answer  # it has the reason
        return attempt(other)

    def _send_once(
        self, what: str, method: str, url: str, headers: Mapping[str, str], raw: bytes | None, pace: str, changes: bool
    ) -> Answer:
        try:
            with self.permit.call(pace, changes=changes) as call:
                answer = self.http.request(method, url, headers, raw)
                if self.is_throttled(answer):
                    call.slow_down(answer.retry_after)
                return answer
        except (NotTaken, AnswerLost) as error:
            raise call_error(error, what=what, cloud=self.cloud, changes=changes, remedy=self.remedy) from None
