"""Shapes: how one value looks in JSON and in Python. Only plain values here; those of the contract are in `values`.

A shape says what it wants, never what it got: the value may be a secret.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from coterie.slotted import dataclass

T = TypeVar("T")
MAX_TEXT = 8192
MAX_WHOLE = 2**53 - 1  # what every JSON reader can hold exactly


class Mismatch(Exception):
    """The value does not have its shape. Never leaves the wire: it becomes InvalidCall or a broken answer."""


@dataclass(frozen=True, slots=True)
class Shape(Generic[T]):
    """`read` takes JSON and raises Mismatch; `write` gives JSON and raises Mismatch for what may not go out."""

    read: Callable[[Any], T]
    write: Callable[[T], Any]


def same(read: Callable[[Any], T]) -> Shape[T]:
    """For values that look the same on both sides."""
    return Shape(read, read)


def nullable(shape: Shape[T]) -> Shape[T | None]:
    return Shape(
        lambda value: None if value is None else shape.read(value),
        lambda value: None if value is None else shape.write(value),
    )


def or_else(shape: Shape[T], default: Callable[[], T]) -> Shape[T]:
    """Callers send null where they mean nothing; drivers get the empty value."""
    return Shape(lambda value: default() if value is None else shape.read(value), shape.write)


def read_text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise Mismatch(f"must be a non-empty string, not {json_type(value)}")
    if len(value) > MAX_TEXT:
        raise Mismatch(f"must have at most {MAX_TEXT} characters, not {len(value)}")
    return value


def read_path(value: Any) -> str:
    """A light stemcell has no file."""
    return value if value == "" else read_text(value)


def read_whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise Mismatch(f"must be a whole number, not {json_type(value)}")
    if not 1 <= value <= MAX_WHOLE:
        raise Mismatch(f"must be between 1 and {MAX_WHOLE}")
    return value


def read_flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Mismatch(f"must be true or false, not {json_type(value)}")
    return value


def read_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise Mismatch(f"must be an object, not {json_type(value)}")
    return dict(value)


def read_fields(
    value: Any, required: tuple[str, ...] = (), optional: tuple[str, ...] = (), others: bool = False
) -> dict[str, Any]:
    """An object with these keys; others only where they may be ignored."""
    fields = read_object(value)
    for name in required:
        if fields.get(name) is None:
            raise Mismatch(f"must have `{name}`")
    unknown = sorted(set(fields) - {*required, *optional})
    if unknown and not others:
        raise Mismatch(f"has an unknown key {unknown[0][:64]!r} (known: {', '.join((*required, *optional))})")
    return fields


def read_array(value: Any) -> list[Any]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise Mismatch(f"must be an array, not {json_type(value)}")
    return list(value)


def read_texts(value: Any) -> list[str]:
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) and one for one in value):
        raise Mismatch("must be an array of non-empty strings")
    return list(value)


def read_labels(value: Any) -> dict[str, str]:
    """Metadata: clouds keep strings, BOSH sends a number here and there; what is null is left out."""
    return {name: _label(name, one) for name, one in read_object(value).items() if one is not None}


def _label(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise Mismatch(f"must hold plain values, but {name[:64]!r} is {json_type(value)}")


def read_null(value: Any) -> None:
    """BOSH ignores the result of these methods, whatever it is."""


def json_type(value: Any) -> str:
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", type(None): "null"}
    if isinstance(value, str) and not value:
        return "an empty string"
    return names.get(type(value), "an object" if isinstance(value, Mapping) else "an array")


TEXT = same(read_text)
PATH = same(read_path)
WHOLE = same(read_whole)
FLAG = same(read_flag)
OBJECT = same(read_object)
OBJECT_OR_NULL: Shape[dict[str, Any]] = or_else(OBJECT, dict)
TEXTS = same(read_texts)
TEXTS_OR_NULL: Shape[list[str]] = or_else(TEXTS, list)
LABELS = same(read_labels)
NULL = same(read_null)
