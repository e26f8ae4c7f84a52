"""Readers of single values: each gives the typed value, or a ValueError that says what it must be."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

REDACTED = "<redacted>"
_SWITCH = {"true": True, "yes": True, "1": True, "on": True, "false": False, "no": False, "0": False, "off": False}


def text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("must be a text that is not empty")
    return value.strip()


def path(value: Any) -> Path:
    # Not resolve(): a folder that is reached through a symlink keeps the name that the user gave it.
    return Path(os.path.abspath(Path(text(str(value))).expanduser()))  # noqa: PTH100 - resolve() would follow it


def url(value: Any) -> str:
    told = text(value).rstrip("/")
    if not re.fullmatch(r"https?://[^/\s@]+(/\S*)?|unix:/\S+", told):
        raise ValueError("must be http://HOST:PORT, https://HOST or unix:/PATH")
    return told


def database(value: Any) -> str:
    told = text(value)
    if not told.startswith(("sqlite:///", "postgresql://", "postgresql+psycopg://")):
        raise ValueError("must begin with sqlite:/// or postgresql://")
    return told


def address(value: Any) -> str:
    told = text(value)
    host, _, port = told.rpartition(":")
    if not host or not re.fullmatch(r"\d{1,5}", port) or int(port) > 65535:
        raise ValueError("must be HOST:PORT")
    return told


def choice(*words: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in words:
            raise ValueError(f"must be one of {', '.join(words)}")
        return str(value)

    return read


def integer(low: int, high: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if isinstance(value, bool) or not re.fullmatch(r"\d{1,9}", str(value)) or not low <= int(value) <= high:
            raise ValueError(f"must be a whole number from {low} to {high}")
        return int(value)

    return read


def number(value: Any) -> float:
    if isinstance(value, bool) or not re.fullmatch(r"\d{1,9}(\.\d{1,9})?", str(value)):
        raise ValueError("must be a number that is not negative")
    return float(value)


def between(low: float, high: float) -> Callable[[Any], float]:
    def read(value: Any) -> float:
        told = number(value)
        if not low <= told <= high:
            raise ValueError(f"must be a number from {low:g} to {high:g}")
        return told

    return read


def names(value: Any) -> tuple[str, ...]:
    """A list, or words with commas between them."""
    found = value if isinstance(value, list | tuple) else str(value).split(",")
    told = tuple(dict.fromkeys(str(one).strip() for one in found))
    if not told or not all(re.fullmatch(r"[A-Za-z0-9_.-]{1,255}", one) for one in told):
        raise ValueError("must be names with commas between them")
    return told


def group(value: Any) -> str:
    # The rule is the ring's (`coterie.ring.members`); settings import nothing of ours but errors.
    if not isinstance(value, str) or len(value) > 255 or not re.fullmatch(r"[A-Za-z0-9_.-]*", value):
        raise ValueError("must be at most 255 letters, digits, '_', '.' and '-'")
    return value.lower()


def release(value: Any) -> str:
    told = text(str(value))
    if not re.fullmatch(r"\d{1,6}(\.\d{1,6}){1,3}", told):
        raise ValueError("must be a release such as 0.9")
    return told


def flag(value: Any) -> bool:
    if str(value).lower() not in _SWITCH:
        raise ValueError("must be true or false")
    return _SWITCH[str(value).lower()]


def veiled(value: Any) -> Any:
    """A value as it may be shown: a URL without the credentials inside it."""
    if not isinstance(value, str):
        return value
    return re.sub(r"(?<=password=)[^&\s]+|(?<=://)[^/@\s]+(?=@)", REDACTED, value)
