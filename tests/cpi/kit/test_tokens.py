"""Tokens that are kept, renewed in time, and never used again once they were refused."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from coterie.cpi.contract import AuthenticationFailed
from coterie.cpi.kit.tokens import Tokens


class Login:
    """Gives another token each time, or the same."""

    def __init__(self, life_s: float = 3600.0, *, same: bool = False) -> None:
        self.asked = 0
        self._life_s = life_s
        self._same = same

    def __call__(self) -> tuple[str, float]:
        self.asked += 1
        return "old" if self._same else f"token {self.asked}", time.time() + self._life_s


def test_a_token_is_kept_until_shortly_before_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, login, now = Tokens(), Login(3600.0), time.time()
    assert [kept.get("a", login) for _ in range(2)] == ["token 1"] * 2
    monkeypatch.setattr("coterie.cpi.kit.tokens.time.time", lambda: now + 3400.0)
    assert kept.get("a", login) == "token 2"


def test_a_token_of_little_life_is_used_for_half_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, login, now = Tokens(), Login(100.0), time.time()
    assert [kept.get("a", login) for _ in range(2)] == ["token 1"] * 2
    monkeypatch.setattr("coterie.cpi.kit.tokens.time.time", lambda: now + 60.0)
    assert kept.get("a", login) == "token 2"


def test_a_refused_token_is_replaced_for_its_key_alone() -> None:
    kept, login = Tokens(), Login()
    first, other = kept.get("a", login), kept.get("b", login)
    assert kept.get("a", login, refused=first) == "token 3"
    assert kept.get("b", login) == other


def test_a_refused_token_that_comes_again_and_again_ends_in_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coterie.cpi.kit.tokens.time.sleep", lambda seconds: None)
    kept, login = Tokens(), Login(same=True)
    with pytest.raises(AuthenticationFailed):
        kept.get("a", login, refused=kept.get("a", login))


def test_a_token_that_counts_waits_for_no_other_of_the_same_login() -> None:
    kept, go = Tokens(), threading.Event()
    first = kept.get("a", Login())

    def hang() -> tuple[str, float]:
        assert go.wait(20)
        return "late", time.time() + 3600.0

    with ThreadPoolExecutor(2) as pool:
        hanging = pool.submit(kept.get, "a", hang, first)
        try:
            assert pool.submit(kept.get, "a", Login()).result(10) == first
        finally:
            go.set()
        assert hanging.result(10) == "late"


def test_a_login_that_hangs_keeps_no_other_waiting() -> None:
    kept, go = Tokens(), threading.Event()

    def hang() -> tuple[str, float]:
        assert go.wait(20)
        return "late", time.time() + 3600.0

    with ThreadPoolExecutor(2) as pool:
        hanging = pool.submit(kept.get, "a", hang)
        try:
            assert pool.submit(kept.get, "b", Login()).result(10) == "token 1"
        finally:
            go.set()
        assert hanging.result(10) == "late"
