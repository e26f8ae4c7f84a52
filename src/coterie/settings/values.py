"""Readers of single values: each gives the typed value, or a ValueError that describes what it must be."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

from coterie import __version__
from coterie.ring.hash import PROBED, ironic_settings

_SWITCH = {"true": True, "yes": True, "1": True, "on": True, "false": False, "no": False, "0": False, "off": False}


def text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("must be a text that is not empty")
    return value.strip()


def uuid(value: Any) -> str:
    try:
        return str(UUID(text(value)))
    except ValueError as error:
        raise ValueError("must be a uuid") from error


def path(value: Any) -> Path:
    # Not resolve(): a folder that is reached through a symlink keeps the name that the user gave it.
    return Path(os.path.abspath(Path(text(str(value))).expanduser()))  # noqa: PTH100 - resolve() would follow it


def paths(value: Any) -> tuple[str, ...]:
    """A list, or full paths with commas between them. As given: real paths are compared when one is used."""
    found = value if isinstance(value, list | tuple) else str(value).split(",")
    given = tuple(dict.fromkeys(str(Path(text(str(one))).expanduser()) for one in found))
    if not all(Path(one).is_absolute() for one in given):
        raise ValueError("must be full paths with commas between them")
    return given


def sources(value: Any) -> tuple[str, ...]:
    """A list, or words and full paths with commas between them."""
    found = value if isinstance(value, list | tuple) else str(value).split(",")
    given = tuple(dict.fromkeys(text(str(one)) for one in found))
    if not all(re.fullmatch(r"environment|instance|profile:\S+|/.+|\*", one) for one in given):
        raise ValueError("must be some of environment, instance, profile:NAME, full paths of files, or *")
    return given


def url(value: Any) -> str:
    given = text(value).rstrip("/")
    if not re.fullmatch(r"https?://[^/\s@]+(/\S*)?|unix:/\S+", given):
        raise ValueError("must be http://HOST:PORT, https://HOST or unix:/PATH")
    return given


def web(value: Any) -> str:
    given = text(value).rstrip("/")
    if not re.fullmatch(r"https?://[^/\s@]+(/\S*)?", given):
        raise ValueError("must be https://HOST/PATH")
    return given


def pairs(value: Any) -> dict[str, str]:
    """A table, or KEY=VALUE with commas between them."""
    found = value if isinstance(value, dict) else dict(_pair(one) for one in str(value).split(","))
    if not found or not all(isinstance(word, str) and word for pair in found.items() for word in pair):
        raise ValueError("must be NAME=NAME with commas between them")
    return found


def roles(value: Any) -> dict[str, str]:
    found = pairs(value)
    if not set(found.values()) <= {"admin", "operator", "viewer"}:
        raise ValueError("must be GROUP=ROLE with commas between them, each ROLE admin, operator or viewer")
    return found


def algorithms(value: Any) -> tuple[str, ...]:
    # Only with public keys: a secret shared with the issuer would let every holder make tokens.
    known = {f"{family}{bits}" for family in ("RS", "ES", "PS") for bits in (256, 384, 512)} | {"EdDSA"}
    found = names(value)
    if not set(found) <= known:
        raise ValueError(f"must be some of {', '.join(sorted(known))}")
    return found


def _pair(text: str) -> tuple[str, str]:
    key, _, value = text.rpartition("=")
    return key.strip(), value.strip()


def database(value: Any) -> str:
    given = text(value)
    if not given.startswith(("sqlite:///", "postgresql://", "postgresql+psycopg://")):
        raise ValueError("must begin with sqlite:/// or postgresql://")
    return given


def address(value: Any) -> str:
    given = text(value)
    host, _, port = given.rpartition(":")
    if not host or not re.fullmatch(r"\d{1,5}", port) or int(port) > 65535:
        raise ValueError("must be HOST:PORT")
    return given


def choice(*words: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in words:
            raise ValueError(f"must be one of {', '.join(words)}")
        return str(value)

    return read


def ring(value: Any) -> str:
    if value != PROBED:
        ironic_settings(str(value))
    return str(value)


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
        given = number(value)
        if not low <= given <= high:
            raise ValueError(f"must be a number from {low:g} to {high:g}")
        return given

    return read


def names(value: Any) -> tuple[str, ...]:
    """A list, or words with commas between them."""
    found = value if isinstance(value, list | tuple) else str(value).split(",")
    given = tuple(dict.fromkeys(str(one).strip() for one in found))
    if not given or not all(re.fullmatch(r"[A-Za-z0-9_.-]{1,255}", one) for one in given):
        raise ValueError("must be names with commas between them")
    return given


def networks(value: Any) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    found = value if isinstance(value, list | tuple) else str(value).split(",")
    try:
        return tuple(ipaddress.ip_network(str(one).strip(), strict=False) for one in found)
    except ValueError as error:
        raise ValueError("must be addresses or networks with commas between them, such as 10.0.0.0/8") from error


def group(value: Any) -> str:
    # The rule is the ring's (`coterie.ring.members`); settings import nothing of ours but errors.
    if not isinstance(value, str) or len(value) > 255 or not re.fullmatch(r"[A-Za-z0-9_.-]*", value):
        raise ValueError("must be at most 255 letters, digits, '_', '.' and '-'")
    return value.lower()


def release(value: Any) -> str:
    given = text(str(value))
    if not re.fullmatch(r"\d{1,6}(\.\d{1,6}){1,3}", given):
        raise ValueError("must be a release such as 0.9")
    if _parts(given) > _parts(__version__):
        raise ValueError(f"must be a release that this one, {__version__}, knows")
    return given


def _parts(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", release)[:2])


def flag(value: Any) -> bool:
    if str(value).lower() not in _SWITCH:
        raise ValueError("must be true or false")
    return _SWITCH[str(value).lower()]
