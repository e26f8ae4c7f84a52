"""How single properties are read: the value, or a ValueError that says how it should have been written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import SplitResult, urlsplit

from coterie.cpi.contract.forms import Form, Reader
from coterie.slotted import fields

T = TypeVar("T")


def text(value: Any) -> str:
    if isinstance(value, str) and value:
        return value
    raise ValueError("give a text")


def texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, (list, tuple)) and all(isinstance(one, str) and one for one in value):
        return tuple(value)
    raise ValueError("give a list of texts")


def url(value: Any) -> str:
    where = url_parts(value)
    if where.scheme in ("http", "https") and where.hostname:
        return str(value).rstrip("/")
    raise ValueError("give a URL like https://cloud.example.org:5000/v3")


def proxy_url(value: Any) -> str:
    where = url_parts(value)
    if where.scheme == "http" and where.hostname:
        return str(value).rstrip("/")
    raise ValueError("give a URL like http://user:password@proxy.example.org:3128; it also serves https:// URLs")


def url_parts(value: Any) -> SplitResult:
    """Empty for what is no URL: the parser's own words repeat it, and it may hold a password."""
    try:
        return urlsplit(value if isinstance(value, str) else "")
    except ValueError:
        return urlsplit("")


def flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError("say true or false")


def seconds(value: Any) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0:
        return float(value)
    raise ValueError("give a number of seconds from 0")


def whole(least: int, most: int | None = None) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if (
            isinstance(value, int)
            and not isinstance(value, bool)
            and least <= value
            and (most is None or value <= most)
        ):
            return value
        raise ValueError(f"give a whole number from {least}" + ("" if most is None else f" to {most}"))

    return read


size = whole(1)


def one_of(*words: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value in words:
            return str(value)
        raise ValueError(f"use one of: {', '.join(words)}")

    return read


def some_of(*words: str) -> Callable[[Any], frozenset[str]]:
    def read(value: Any) -> frozenset[str]:
        if isinstance(value, (list, tuple)) and all(one in words for one in value):
            return frozenset(value)
        raise ValueError(f"list some of: {', '.join(words)}")

    return read


def mapping(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return {str(key): one for key, one in value.items()}
    raise ValueError("give an object")


def pairs(value: Any) -> dict[str, str]:
    return {key: str(one) for key, one in mapping(value).items()}


def urls(value: Any) -> dict[str, str]:
    return {key: url(one) for key, one in mapping(value).items()}


def nested(form: Form, make: Callable[..., T]) -> Reader:
    """What a form of its own reads, and `make` makes of it. Its mistakes are told without the values, which may be
    secrets in the wrong place."""

    def read(value: Any) -> T:
        given = mapping(value)
        if mistakes := form.mistakes(given):
            raise ValueError("; ".join(f"{one.key}: {one.remedy}" for one in mistakes))
        return make(**form.read(given, ""))

    return read


def readers_of(spec: type, by_type: Mapping[str, Reader] | None = None, /, **special: Reader) -> dict[str, Reader]:
    """A reader for each field of a dataclass: the `special` one of its name, that of a property which every cloud has,
    or by the field's type. `by_type`: those of further types. The annotations must be texts, as `from __future__ import
    annotations` makes them."""
    by_name, types = {**_BY_NAME, **special}, {**_BY_TYPE, **(by_type or {})}
    return {one.name: by_name.get(one.name) or types[str(one.type).removesuffix(" | None")] for one in fields(spec)}


_BY_NAME: Mapping[str, Reader] = {
    "endpoint": url,
    "metadata_url": url,
    "proxy_url": proxy_url,
    "retries": whole(0, 100),
    "max_parallel_calls": whole(1, 1000),
}

_BY_TYPE: Mapping[str, Reader] = {
    "str": text,
    "bool": flag,
    "float": seconds,
    "tuple[str, ...]": texts,
    "Mapping[str, Any]": mapping,
    "Mapping[str, str]": pairs,
}
