"""What is written on resources and read from them: marks, users' tags, times. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from coterie.cpi.contract import CloudObject, Kind, Mark
from coterie.cpi.drivers.azure.client import Row
from coterie.cpi.kit.marking import mark_tags, metadata_tags, read_mark_tags

POLICY = "coterie-policy"
NAME = "coterie-name"  # of a security group, as manifests call it
_LONGEST_KEY, _LONGEST_VALUE = 512, 256
_FORBIDDEN = str.maketrans(dict.fromkeys("<>%&\\?/", "_"))


def tags_of(row: Row) -> dict[str, str]:
    """Keys keep the case in which they were written, and are compared without it."""
    return {str(key): str(value) for key, value in (row.get("tags") or {}).items()}


def mark_of(row: Row) -> Mark | None:
    return read_mark_tags({key.lower(): value for key, value in tags_of(row).items()})


def marked(mark: Mark, **more: str) -> dict[str, str]:
    return {**mark_tags(mark), **more}


def user_tags(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Users' metadata as tags: what Azure takes in no key is written as an underscore."""
    found = metadata_tags(metadata, longest_key=_LONGEST_KEY, longest_value=_LONGEST_VALUE)
    return {key.translate(_FORBIDDEN): value for key, value in found.items()}


def merge_tags(row: Row, changes: Mapping[str, str]) -> dict[str, str]:
    """All tags: a PATCH replaces the whole map."""
    lower = {key.lower() for key in changes}
    return {**{key: value for key, value in tags_of(row).items() if key.lower() not in lower}, **changes}


def describe(kind: Kind, row: Row, **facts: Any) -> CloudObject:
    facts.setdefault("created_at", moment((row.get("properties") or {}).get("timeCreated")))
    facts.setdefault("az", next(iter(row.get("zones") or ()), None))
    facts.setdefault("mark", mark_of(row))
    return CloudObject(kind=kind, cid=str(row["name"]), name=str(row["name"]), tags=tags_of(row), **facts)


def moment(text: str | None) -> float | None:
    """Azure writes seven digits of a second."""
    if not text:
        return None
    head, _, rest = text.replace("Z", "+00:00").partition(".")
    zone = rest.lstrip("0123456789")
    return datetime.fromisoformat(head + zone if rest else head).timestamp()
