"""Refusals of the services as errors of the contract."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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
from coterie.cpi.drivers.openstack.client import Client, has_lost_host, has_no_host, read_refusal, translate
from coterie.cpi.drivers.openstack.properties import read_settings
from coterie.cpi.kit.call_limit import CallLimit
from coterie.cpi.kit.http import Answer, Http, HttpOptions
from coterie.cpi.kit.permit import Permit
from coterie.errors import LeaseLost


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
    refusal = read_refusal("do it", Answer(status, {"retry-after": "7"}, json.dumps(body).encode()))
    error = translate(refusal)
    assert type(error) is kind
    assert error.retryable is retryable
    assert refusal.retryable is retryable or kind is QuotaExceeded
    assert error.remedy
    assert error.details == ({} if kind is QuotaExceeded else {"retry_after": 7.0})


def test_pages_of_proxies_are_not_repeated() -> None:
    assert read_refusal("do it", Answer(502, {}, b"<html>secret</html>")).text == "HTTP 502"


def test_what_nova_says_of_hosts() -> None:
    assert has_no_host("No valid host was found. There are not enough hosts available.")
    late = "Exceeded maximum number of retries. Exhausted all hosts available for retrying build failures"
    assert has_no_host(late) and has_lost_host(late)
    assert not has_lost_host("No valid host was found.")
    assert not has_no_host("Build of instance aborted: volume is gone")


class Session:
    def get_auth_headers(self) -> dict[str, str]:
        return {}


class Services:
    def url(self, service: str) -> str:
        return "http://127.0.0.1:9"

    def headers(self, service: str) -> dict[str, str]:
        return {}


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    """Logged in, without a Keystone."""
    made = Client(read_settings({"auth_url": "http://127.0.0.1:9", "retries": 0}), Permit("d", CallLimit(2)))
    monkeypatch.setattr(made, "_session", Session())
    monkeypatch.setattr(made, "_services", Services(), raising=False)
    monkeypatch.setattr(made, "_http", Http(HttpOptions()), raising=False)
    return made


class Answers:
    """Sends nothing; answers with these, one after the other."""

    def __init__(self, *statuses: int) -> None:
        self.statuses, self.methods = list(statuses), list[str]()

    def request(self, method: str, url: str, headers: Any, body: Any) -> Answer:
        self.methods.append(method)
        return Answer(self.statuses.pop(0), {}, b"{}")


def test_a_tag_is_set_again_where_neutron_failed(monkeypatch: pytest.MonkeyPatch, client: Client) -> None:
    patient = read_settings({"auth_url": "http://127.0.0.1:9", "retries": 2, "poll_s": 0.01})
    monkeypatch.setattr(client, "settings", patient)
    answers = Answers(500, 503, 201)
    monkeypatch.setattr(client, "_http", answers)
    client.put("record security groups", "network", "/security-groups/x/tags/y")
    assert answers.methods == ["PUT"] * 3
    answers.statuses = [500, 500, 500]
    with pytest.raises(CpiError, match="500"):
        client.put("record security groups", "network", "/security-groups/x/tags/y")
    answers.statuses = [500, 200]
    with pytest.raises(CpiError, match="500"):
        client.send("POST", "create a port", "network", "/ports", {})


def test_parallel_calls_are_limited_across_threads(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    running, most = [0], [0]
    counting = threading.Lock()

    def request(self: Http, *arguments: Any) -> Answer:
        with counting:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.02)
        with counting:
            running[0] -= 1
        return Answer(200, {}, b"{}")

    monkeypatch.setattr(Http, "request", request)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: client.get("look", "compute", "/servers"), range(24)))
    assert most == [2]
    assert client.permit.limit.calls == 24


@pytest.mark.parametrize("act", ["get", "delete", "send"])
def test_an_answer_from_elsewhere_is_no_success(client: Client, monkeypatch: pytest.MonkeyPatch, act: str) -> None:
    moved = Answer(302, {"location": "https://login.example.org/sso?token=1"}, b"")
    monkeypatch.setattr(Http, "request", lambda self, *arguments: moved)
    calls: dict[str, Callable[[], object]] = {
        "get": lambda: client.get("look", "compute", "/servers/1"),
        "delete": lambda: client.delete("delete it", "compute", "/servers/1"),
        "send": lambda: client.send("POST", "create it", "compute", "/servers", {}),
    }
    with pytest.raises(Unavailable, match=r"redirected to login\.example\.org:"):
        calls[act]()


def test_without_a_lease_nothing_is_changed_and_questions_are_answered(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []

    def request(self: Http, method: str, *arguments: Any) -> Answer:
        sent.append(method)
        return Answer(200, {}, b"{}")

    def refuse() -> None:
        raise LeaseLost("it is over")

    monkeypatch.setattr(Http, "request", request)
    monkeypatch.setattr(client, "permit", Permit("d", CallLimit(2), refuse))
    with pytest.raises(LeaseLost):
        client.send("POST", "create it", "compute", "/servers", {})
    client.get("look", "compute", "/servers")
    assert sent == ["GET"]


def test_a_request_takes_one_slot_and_names_this_program(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    limit, sent = CallLimit(1), []

    def request(self: Http, method: str, url: str, headers: dict[str, str], body: bytes | None) -> Answer:
        sent.append((url, headers["User-Agent"]))
        return Answer(200, {}, b"{}")

    monkeypatch.setattr(Http, "request", request)
    monkeypatch.setattr(client, "permit", Permit("d", limit))
    client.get("look", "compute", "/servers", marker=None, name="a b")
    assert (limit.calls, sent) == (1, [("http://127.0.0.1:9/servers?name=a+b", "coterie")])
