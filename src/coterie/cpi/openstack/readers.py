"""How single properties are read: the value, or a ValueError that says how it should have been written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from coterie.cpi.contract import POLICIES

GROUP_POLICIES = tuple(policy for policy in POLICIES if policy != "host-affinity")


def url(value: Any) -> str:
    if isinstance(value, str) and urlsplit(value).scheme in ("http", "https") and urlsplit(value).hostname:
        return value.rstrip("/")
    raise ValueError("give a URL like https://cloud.example.org:5000/v3")


def flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError("say true or false")


def seconds(value: Any) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0:
        return float(value)
    raise ValueError("give a number of seconds from 0")


def whole(least: int, most: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        raise ValueError(f"give a whole number from {least} to {most}")

    return read


def one_of(*words: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value in words:
            return str(value)
        raise ValueError(f"use one of: {', '.join(words)}")

    return read


def texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, (list, tuple)) and all(isinstance(one, str) and one for one in value):
        return tuple(value)
    raise ValueError("give a list of texts")


def policies(value: Any) -> frozenset[str]:
    if isinstance(value, (list, tuple)) and all(one in GROUP_POLICIES for one in value):
        return frozenset(value)
    raise ValueError(f"list some of: {', '.join(GROUP_POLICIES)}")


def mapping(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return {str(key): one for key, one in value.items()}
    raise ValueError("give an object")


def pairs(value: Any) -> dict[str, str]:
    return {key: str(one) for key, one in mapping(value).items()}


def urls(value: Any) -> dict[str, str]:
    return {key: url(one) for key, one in mapping(value).items()}
