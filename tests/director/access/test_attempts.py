"""The limit on failed log-ins: per address, for a minute, in bounded memory, and not for valid credentials."""

from __future__ import annotations

import pytest

from coterie.director.access import attempts
from coterie.director.access.attempts import Attempts
from coterie.errors import TooManyAttempts
from coterie.ledger.store import Ledger
from coterie.ledger.tables import events
from tests.director.access.conftest import Make
from tests.director.asgi import Client


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def fail(made: Attempts, peer: str, times: int) -> None:
    for n in range(times):
        made.check(peer, f"wrong{n}")
        made.count_failure(peer, f"wrong{n}")


def test_the_eleventh_attempt_is_refused_unchecked_for_a_minute(clock: Clock) -> None:
    made = Attempts(clock)
    fail(made, "127.0.0.9", 10)
    with pytest.raises(TooManyAttempts) as refused:
        made.check("127.0.0.9", "right")
    assert refused.value.details["retry_after"] == 60
    made.check("127.0.0.8", "right")
    clock.now += 60.5
    made.check("127.0.0.9", "right")


def test_valid_credentials_are_not_locked_out_by_failures_of_the_same_address(clock: Clock) -> None:
    made = Attempts(clock)
    made.remember_success("right")
    fail(made, "127.0.0.9", 10)
    made.check("127.0.0.9", "right")
    made.count_failure("127.0.0.9", "right")  # it was revoked meanwhile
    with pytest.raises(TooManyAttempts):
        made.check("127.0.0.9", "right")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:127.0.0.9", "127.0.0.9", True),
        ("127.0.0.9", "127.0.0.10", False),
    ],
)
def test_of_ipv6_the_network_counts(clock: Clock, one: str, other: str, same: bool) -> None:
    made = Attempts(clock)
    fail(made, one, 10)
    if not same:
        made.check(other, "right")
        return
    with pytest.raises(TooManyAttempts):
        made.check(other, "right")


def test_memory_is_bounded(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "_ADDRESSES", 100)
    monkeypatch.setattr(attempts, "_KNOWN", 100)
    made = Attempts(clock)
    for n in range(500):
        made.count_failure(f"127.0.{n // 250}.{n % 250}", "x")
        made.remember_success(str(n))
        made.count_failure("127.9.9.9", "x")
    assert (len(made._failures), len(made._known)) == (100, 100)
    assert len(made._failures["127.9.9.9"]) == 10


def test_the_limit_covers_the_api_and_a_flood_does_not_fill_the_ledger(
    locked: Client, person: Make, ledger: Ledger
) -> None:
    admin = person("admin")
    assert admin.get("/v1/nodes").status == 200
    for n in range(15):
        reply = locked.send("POST", "/v1/cleanups", {}, {"authorization": f"Bearer cot_wrong{n}_x"})
    assert (reply.status, reply.json["code"]) == (429, "too_many_attempts")
    assert 0 < int(reply.headers["retry-after"]) <= 60
    for _ in range(20):
        assert locked.send("POST", "/v1/cleanups", {}).status == 401
    with ledger.read() as tx:
        assert len(tx.execute(events.select().where(events.c.kind == "audit")).all()) == 10
    assert admin.get("/v1/nodes").status == 200
