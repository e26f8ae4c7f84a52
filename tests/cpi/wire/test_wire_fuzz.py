"""Whatever comes in, exactly one valid envelope goes out."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coterie.cpi.contract import CpiError
from coterie.cpi.wire import METHODS, answer, read_response

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
)
NAMES = st.sampled_from(sorted(METHODS)) | st.text(max_size=12)
REQUESTS = st.fixed_dictionaries(
    {},
    optional={
        "method": NAMES | JSON,
        "arguments": st.lists(JSON, max_size=7) | JSON,
        "context": st.fixed_dictionaries({"director_uuid": st.just("d")}, optional={"coterie": JSON, "password": JSON})
        | JSON,
        "api_version": st.integers(0, 4) | JSON,
    },
)
QUIET = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def one_envelope(server: Any, request: bytes) -> None:
    raw = answer(request, server.open, server.new_mark)

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} in {raw!r}")

    envelope = json.loads(raw.decode("ascii"), parse_constant=refuse)
    assert envelope.keys() == {"result", "error", "log"}
    assert isinstance(envelope["log"], str)
    error = envelope["error"]
    if error is not None:
        assert envelope["result"] is None
        assert error["type"].startswith("Bosh::Clouds::")
        assert isinstance(error["message"], str)
        assert error["message"]
        assert isinstance(error["ok_to_retry"], bool)


@QUIET
@given(REQUESTS)
def test_any_json_request(server: Any, request_document: Any) -> None:
    one_envelope(server, json.dumps(request_document).encode())


@QUIET
@given(st.binary(max_size=200))
def test_any_bytes(server: Any, request_bytes: bytes) -> None:
    one_envelope(server, request_bytes)


ANSWERS = st.fixed_dictionaries(
    {"result": JSON, "error": st.none() | st.fixed_dictionaries({"type": JSON, "message": JSON, "ok_to_retry": JSON})},
    optional={"log": st.text(max_size=5) | JSON},
)


@QUIET
@given(
    st.sampled_from(sorted(METHODS)),
    ANSWERS.map(lambda document: json.dumps(document).encode()) | st.binary(max_size=99),
)
def test_any_answer_is_a_result_or_a_contract_error(name: str, raw: bytes) -> None:
    with suppress(CpiError):
        read_response(METHODS[name], raw, 2)


@pytest.mark.parametrize("seed", range(8))
def test_thousands_of_damaged_good_requests(seed: int, server: Any, samples: dict[str, list[Any]]) -> None:
    source = random.Random(seed)
    context = {"director_uuid": "d", "password": "p", "coterie": {"mark": {"director": "d", "intent": "0" * 26}}}
    good = [
        json.dumps({"method": name, "arguments": arguments, "context": context, "api_version": 3}).encode()
        for name, arguments in samples.items()
    ]
    for _ in range(2000):
        damaged = bytearray(source.choice(good))
        for _ in range(source.randint(1, 4)):
            _damage(source, damaged)
        one_envelope(server, bytes(damaged))


def _damage(source: random.Random, text: bytearray) -> None:
    at = source.randrange(len(text) + 1)
    kind = source.randrange(4)
    if kind == 0:
        del text[at : at + source.randint(1, 12)]
    elif kind == 1:
        text[at:at] = bytes(source.randrange(256) for _ in range(source.randint(1, 4)))
    elif kind == 2:
        text[at:at] = source.choice(
            [b"null", b"NaN", b"1e999", b"[" * 100, b'{"a":', b"\\u0000", b'"', b"-0", b"{}", b"[]"]
        )
    else:
        del text[at:]
