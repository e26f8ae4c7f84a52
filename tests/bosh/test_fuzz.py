"""Whatever comes in on stdin, exactly one valid envelope goes out: by the program's code path, by the real process."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from coterie.bosh.client.in_process import respond
from coterie.cpi.wire import METHODS
from tests.bosh.program import DIRECTOR, Shop

ROUNDS = 5000
# Every name that a BOSH Director has a class for; anything else is an UnknownError to it.
KNOWN = {
    f"Bosh::Clouds::{name}"
    for name in (
        *("VMCreationFailed", "VMNotFound", "DiskNotFound", "DiskNotAttached", "NetworkNotFound", "NoDiskSpace"),
        *("NotImplemented", "NotSupported", "CloudError", "CpiError"),
    )
}
WORDS: list[Any] = [
    None,
    True,
    0,
    -1,
    2**70,
    1.5,
    "",
    "x",
    "i-1",
    "é\u0000",
    [],
    {},
    [[]],
    {"a": 1},
    {"bosh": {"group": 7}},
]


def requests(seed: int, count: int) -> list[bytes]:
    source = random.Random(seed)
    return [_one(source) for _ in range(count)]


def _one(source: random.Random) -> bytes:
    kind = source.randrange(4)
    if kind == 0:
        return source.randbytes(source.randrange(200))
    document = _document(source)
    text = json.dumps(document).encode()
    if kind == 1:
        return text
    damaged = bytearray(text)
    for _ in range(source.randint(1, 4)):
        at = source.randrange(len(damaged) + 1)
        if source.random() < 0.5:
            del damaged[at : at + source.randint(1, 9)]
        else:
            damaged[at:at] = source.choice([b"NaN", b'"', b"{", b"[" * 90, b"1e999", b"\xff", b"\\ud800", b"null"])
    return bytes(damaged)


def _document(source: random.Random) -> Any:
    # Calls that create or sweep would fill the sandbox with what the fuzz happens to ask for: their arguments are junk.
    arguments = [source.choice(WORDS) for _ in range(source.randrange(7))]
    document: dict[str, Any] = {
        "method": source.choice([*METHODS, *METHODS, "info", "destroy", "", 7, None]),
        "arguments": source.choice([arguments, arguments, None, {}, "x"]),
        "context": source.choice([{"director_uuid": DIRECTOR}, {"director_uuid": DIRECTOR, "vm": []}, {}, None, "x"]),
        "api_version": source.choice([1, 2, 3, 4, None, "2", -1]),
    }
    if source.random() < 0.1:
        del document[source.choice(list(document))]
    return document


def one_envelope(raw: bytes, request: bytes) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} in the answer to {request!r}")

    envelope = json.loads(raw.decode("utf-8"), parse_constant=refuse)
    assert envelope.keys() == {"result", "error", "log"}, request
    assert isinstance(envelope["log"], str)
    error = envelope["error"]
    if error is not None:
        assert error["type"] in KNOWN, request
        assert isinstance(error["message"], str) and error["message"]
        assert isinstance(error["ok_to_retry"], bool)
        assert "did not foresee" not in error["message"], (request, error)


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    return Shop(tmp_path_factory.mktemp("f"))


@pytest.mark.parametrize("seed", range(5))
def test_thousands_of_malformed_requests(seed: int, fuzzed: Shop) -> None:
    for request in requests(seed, ROUNDS // 5):
        one_envelope(respond(request, str(fuzzed.config)), request)


def test_malformed_requests_to_the_real_program(fuzzed: Shop) -> None:
    for request in [b"", b"\x00" * 100, b"[" * 100_000, b'{"method":"info"', *requests(99, 4)]:
        done = fuzzed.run(request)
        assert done.returncode == 0
        one_envelope(done.stdout, request)


@pytest.mark.full
@pytest.mark.timeout(900)
def test_thousands_of_malformed_requests_to_the_real_program(fuzzed: Shop) -> None:
    with fuzzed.core():
        for request in requests(7, ROUNDS):
            done = fuzzed.run(request)
            assert (done.returncode, done.stderr) == (0, b""), request
            one_envelope(done.stdout, request)


def test_a_huge_request(fuzzed: Shop) -> None:
    request = b'{"method":"has_vm","arguments":["' + b"x" * (17 * 1024 * 1024) + b'"],"context":{"director_uuid":"d"}}'
    raw = respond(request, str(fuzzed.config))
    one_envelope(raw, b"huge")
    assert b"larger than" in raw


def test_a_broken_installation_still_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*_: object) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr("coterie.bosh.core.service.CpiService.answer", explode)
    one_envelope(respond(b"{}", str(tmp_path / "none")), b"{}")
