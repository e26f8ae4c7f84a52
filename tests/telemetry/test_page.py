"""The page of a conductor: alive, ready, metrics; for others only with the token."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from coterie.errors import UsageError
from coterie.telemetry.page import Page


class Desk:
    def __init__(self, token: str | None) -> None:
        self.trouble: str | None = None
        self._page = Page("127.0.0.1:0", token, lambda: self.trouble, lambda: "m 1\n")
        self._page.start()
        self.close = self._page.stop

    def get(self, path: str, token: str | None = None) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        request = urllib.request.Request(f"http://127.0.0.1:{self._page.port}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk(None)
    yield made
    made.close()


def test_alive_ready_and_metrics(desk: Desk) -> None:
    assert desk.get("/livez") == (200, "ok\n")
    assert desk.get("/readyz") == (200, "ok\n")
    assert desk.get("/metrics?x=1") == (200, "m 1\n")
    assert desk.get("/v1/nodes")[0] == 404
    desk.trouble = "its heartbeat is too old"
    assert desk.get("/readyz") == (503, "its heartbeat is too old\n")
    assert desk.get("/livez")[0] == 200


def test_with_a_token_only_livez_is_open() -> None:
    desk = Desk("hush")
    try:
        assert desk.get("/livez")[0] == 200
        for path in ("/readyz", "/metrics", "/nothing"):
            assert [desk.get(path, token)[0] for token in (None, "wrong", "hus")] == [401, 401, 401]
        assert desk.get("/metrics", "hush") == (200, "m 1\n")
    finally:
        desk.close()


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "example.invalid:0"])
def test_beyond_this_machine_it_wants_a_token(address: str) -> None:
    with pytest.raises(UsageError, match="can be read by others") as refused:
        Page(address, None, lambda: None, lambda: "")
    assert "COTERIE_METRICS_TOKEN" in refused.value.remedy


def test_a_port_that_is_taken_is_told(desk: Desk) -> None:
    with pytest.raises(UsageError, match="cannot listen"):
        Page(f"127.0.0.1:{desk._page.port}", None, lambda: None, lambda: "")
