"""Refusals of the services as errors of the contract."""

from __future__ import annotations

import json
from typing import Any

import pytest

from coterie.cpi.contract import (
    AuthenticationFailed,
    CpiError,
    InvalidCall,
    PrivilegeMissing,
    QuotaExceeded,
    Throttled,
    Unavailable,
)
from coterie.cpi.drivers.openstack.client import has_no_host, lost_its_host, read_refusal, translate
from coterie.cpi.kit.http import Answer


@pytest.mark.parametrize(
    ("status", "body", "kind", "retryable"),
    [
        (400, {"badRequest": {"message": "m"}}, InvalidCall, False),
        (401, {"error": {"message": "m"}}, AuthenticationFailed, False),
        (403, {"forbidden": {"message": "Quota exceeded for instances"}}, QuotaExceeded, False),
        (403, {"forbidden": {"message": "Policy does not allow"}}, PrivilegeMissing, False),
        (409, {"NeutronError": {"type": "OverQuota", "message": "m"}}, QuotaExceeded, False),
        (409, {"conflictingRequest": {"message": "busy"}}, CpiError, True),
        (413, {"overLimit": {"message": "VolumeLimitExceeded: quota"}}, QuotaExceeded, False),
        (429, {}, Throttled, True),
        (500, {"computeFault": {"message": "Unexpected API Error."}}, CpiError, True),
        (503, {}, Unavailable, True),
    ],
)
def test_refusals_become_errors_of_the_contract(
    status: int, body: dict[str, Any], kind: type[CpiError], retryable: bool
) -> None:
    error = translate(read_refusal("do it", Answer(status, {"retry-after": "7"}, json.dumps(body).encode())))
    assert type(error) is kind
    assert error.retryable is retryable
    assert error.remedy
    assert error.details == ({} if kind is QuotaExceeded else {"retry_after": 7.0})


def test_pages_of_proxies_are_not_repeated() -> None:
    assert read_refusal("do it", Answer(502, {}, b"<html>secret</html>")).text == "HTTP 502"


def test_what_nova_says_of_hosts() -> None:
    assert has_no_host("No valid host was found. There are not enough hosts available.")
    late = "Exceeded maximum number of retries. Exhausted all hosts available for retrying build failures"
    assert has_no_host(late) and lost_its_host(late)
    assert not lost_its_host("No valid host was found.")
    assert not has_no_host("Build of instance aborted: volume is gone")
