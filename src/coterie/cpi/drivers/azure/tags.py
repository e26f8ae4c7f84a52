"""What is written on resources and read from them: marks, users' tags, times. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from coterie.cpi.contract import CloudObject, Kind, Mark
from coterie.cpi.drivers.azure.client import Row, is_same
from coterie.cpi.kit.marking import mark_tags, metadata_tags, read_mark_tags, require_mark

POLICY = "coterie-policy"
NAME = "coterie-name"  # of a security group, as manifests call it
_LONGEST_KEY, _LONGEST_VALUE = 512, 256
_FORBIDDEN = str.maketrans(dict.fromkeys("<>%&\\?/", "_"))


def tags_of(row: Row) -> dict[str, str]:
    """Keys keep the case in which they were written, and are compared without it."""
    return {str(key): str(value) for key, value in (row.get("tags") or {}).items()}


def tag_of(row: Row, wanted: str) -> str | None:
    return next((value for key, value in tags_of(row).items() if is_same(key, wanted)), None)


def mark_of(row: Row) -> Mark | None:
    return read_mark_tags({key.lower(): value for key, value in tags_of(row).items()})


def require_marked(row: Row, mark: Mark) -> None:
    require_mark(mark_of(row), mark, str(row["id"]))


def is_ours(row: Row, director_uuid: str) -> bool:
    mark = mark_of(row)
    return mark is not None and mark.director == director_uuid


def marked(mark: Mark, **more: str) -> dict[str, str]:
    return {**mark_tags(mark), **more}


def user_tags(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Users' metadata as tags: what Azure takes in no key is written as an underscore."""
    found = metadata_tags(metadata, longest_key=_LONGEST_KEY, longest_value=_LONGEST_VALUE)
    return {key.translate(_FORBIDDEN): value for key, value in found.items()}


def merge_tags(row: Row, changes: Mapping[str, str], without: Iterable[str] = ()) -> dict[str, str]:
    """All tags: a PATCH replaces the whole map."""
    going = {key.lower() for key in (*changes, *without)}
    return {**{key: value for key, value in tags_of(row).items() if key.lower() not in going}, **changes}


def describe(kind: Kind, row: Row, users: tuple[str, ...], state: str | None) -> CloudObject:
    return CloudObject(
        kind=kind,
        cid=str(row["name"]),
        name=str(row["name"]),
        mark=mark_of(row),
        created_at=moment((row.get("properties") or {}).get("timeCreated")),
        az=next(iter(row.get("zones") or ()), None),
        in_use_by=users,
        state=state,
        tags=tags_of(row),
    )


def moment(text: str | None) -> float | None:
    return datetime.fromisoformat(text).timestamp() if text else None
