"""How single properties are read: the value, or how it should have been written. The value itself is never repeated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from coterie.cpi.contract import POLICIES

GROUP_TYPES = {
    "anti-affinity": "host anti-affinity",
    "affinity": "host affinity",
    "soft-anti-affinity": "non-strict host anti-affinity",
    "soft-affinity": "non-strict host affinity",
}


@dataclass(frozen=True, slots=True)
class Wrong:
    remedy: str


def text(value: Any) -> Any:
    return value if isinstance(value, str) and value else Wrong("give a text")


def url(value: Any) -> Any:
    good = isinstance(value, str) and value.startswith(("http://", "https://"))
    return value if good else Wrong("give a URL like https://cloud.example.org/client/api")


def flag(value: Any) -> Any:
    return value if isinstance(value, bool) else Wrong("say true or false")


def seconds(value: Any) -> Any:
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0
    return float(value) if good else Wrong("give a number of seconds from 0")


def whole(least: int, most: int) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        good = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
        return value if good else Wrong(f"give a whole number from {least} to {most}")

    return read


def one_of(*words: str) -> Callable[[Any], Any]:
    return lambda value: value if value in words else Wrong(f"use one of: {', '.join(words)}")


def texts(value: Any) -> Any:
    good = isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value)
    return tuple(value) if good else Wrong("give a list of texts")


def policies(value: Any) -> Any:
    if isinstance(value, (list, tuple)) and all(one in GROUP_TYPES for one in value):
        return frozenset(value)
    return Wrong(f"list some of: {', '.join(one for one in POLICIES if one in GROUP_TYPES)}")


def mapping(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else Wrong("give an object: mbus, ntp, blobstore")
