"""JSON as BOSH's callers know it: no NaN or Infinity, no doubled keys, no broken characters, bounded depth and size."""

from __future__ import annotations

import json
import math
from typing import Any

from coterie.cpi.wire.shapes import Mismatch

MAX_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 64


def loads(raw: bytes) -> Any:
    """The one JSON value of a request; Mismatch says what is wrong without repeating the text."""
    value = parse(raw, MAX_BYTES, object_pairs_hook=_pairs)
    inspect(value)
    return value


def parse(raw: bytes, max_bytes: int, **hooks: Any) -> Any:
    """The one JSON value in `raw`, however deep; as forgiving as BOSH's own readers."""
    if len(raw) > max_bytes:
        raise Mismatch(f"is larger than {max_bytes} bytes")
    try:
        return json.loads(raw.decode("utf-8"), parse_float=_number, parse_constant=_constant, **hooks)
    except UnicodeDecodeError as error:
        raise Mismatch(f"is not UTF-8 (byte {error.start})") from None
    except json.JSONDecodeError as error:
        raise Mismatch(f"is not one JSON value (line {error.lineno}, column {error.colno})") from None
    except RecursionError:
        raise Mismatch(f"is nested deeper than {MAX_DEPTH} levels") from None
    except ValueError:
        raise Mismatch("holds a number that is too long to read") from None


def dumps(value: Any) -> bytes:
    """ASCII only, so that no reader can trip over an encoding."""
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")
    except (ValueError, TypeError, RecursionError) as error:
        raise Mismatch(f"cannot be written as JSON ({type(error).__name__})") from None


def readable(text: str) -> str:
    """The text with a question mark for every half character."""
    return text.encode("utf-8", "replace").decode("utf-8")


def inspect(root: Any) -> None:
    """Mismatch for what is too deep, or holds text that no other program could read back."""
    # Without recursion, so that the depth of the input never becomes the depth of our stack.
    pending = [(root, 1)]
    while pending:
        value, depth = pending.pop()
        if depth > MAX_DEPTH:
            raise Mismatch(f"is nested deeper than {MAX_DEPTH} levels")
        if isinstance(value, dict):
            pending.extend((one, depth + 1) for pair in value.items() for one in pair)
        elif isinstance(value, list):
            pending.extend((one, depth + 1) for one in value)
        elif isinstance(value, str) and not value.isascii():
            _whole_characters(value)


def _whole_characters(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise Mismatch("holds half a character (a lone surrogate)") from None


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise Mismatch("holds a number that is too large")
    return value


def _constant(name: str) -> float:
    raise Mismatch(f"holds {name}, which is not JSON")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise Mismatch("has an object with one key twice")
    return value
