"""Envelopes: the one JSON object that answers a request, `{"result", "error", "log"}`, written and read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from coterie.cpi.contract import CpiError, OutcomeUnknown
from coterie.cpi.wire.faults import contract_error
from coterie.cpi.wire.method import Method
from coterie.cpi.wire.shapes import Mismatch
from coterie.cpi.wire.strict import dumps, inspect, parse

T = TypeVar("T")
MAX_RESPONSE = 64 * 1024 * 1024


def success(result: Any) -> bytes:
    inspect(result)
    return dumps({"result": result, "error": None, "log": ""})


def failure(error: Mapping[str, Any], log: str) -> bytes:
    return dumps({"result": None, "error": error, "log": log})


def read_response(method: Method[T], raw: bytes, version: int, heard: Callable[[str], None] = lambda log: None) -> T:
    """The result, or the contract error inside. What a BOSH Director would not accept is a broken answer.

    `heard` gets the program's own log, secrets included.
    """
    try:
        document = parse(raw, MAX_RESPONSE)
        _check(document)
        heard(document["log"])
        if document["error"] is None:
            inspect(document["result"])
            return method.answers(version).read(document["result"])
    except Mismatch as mismatch:
        raise broken_answer(method, f"its answer {mismatch}") from None
    raise contract_error(document["error"])


def broken_answer(method: Method[Any], why: str) -> CpiError:
    """Without a readable answer to a changing call, what it did is unknown."""
    if method.changes:
        return OutcomeUnknown(
            f"{method.name} may or may not have been done",
            why=why,
            remedy="look in the cloud for what it made before calling again",
        )
    return CpiError(
        f"{method.name} was not answered",
        why=why,
        remedy="run the CPI program by hand with this method: it must print exactly one JSON object",
    )


def _check(document: Any) -> None:
    if not isinstance(document, dict):
        raise Mismatch("is not a JSON object")
    for key in ("result", "error", "log"):
        if key not in document:
            raise Mismatch(f"lacks `{key}`")
    if not isinstance(document["log"], str):
        raise Mismatch("has a `log` that is not a string")
    if document["error"] is not None:
        _check_error(document["error"])


def _check_error(error: Any) -> None:
    if not isinstance(error, dict):
        raise Mismatch("has an `error` that is neither null nor an object")
    for key, wanted in (("type", str), ("message", str), ("ok_to_retry", bool)):
        if not isinstance(error.get(key), wanted):
            raise Mismatch(f"has an `error` whose `{key}` is missing or of the wrong type")
