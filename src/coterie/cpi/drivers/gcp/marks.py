"""What is written on resources and read from them: marks in labels or in descriptions, users' labels, times. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote, unquote

from coterie.cpi.contract import CloudObject, Kind, Mark, read_keep_words
from coterie.cpi.kit.marking import DIRECTOR, INTENT, mark_tags, metadata_tags, read_mark_tags

Row = dict[str, Any]
TAGS = "coterie-tags"  # the item of an instance's metadata with what is no label
OF_VM = "coterie-vm"  # on the disks that come with a VM
_LENGTH = 63
_FOLDED = re.compile(r"[^a-z0-9_-]")


def labels_of(row: Row) -> dict[str, str]:
    return {str(key): str(value) for key, value in (row.get("labels") or {}).items()}


def describe_mark(mark: Mark, **more: str) -> str:
    """For what has no labels: words of a description, in the request that creates it."""
    return write_words({DIRECTOR: mark.director, INTENT: mark.intent, **more})


def write_words(words: Mapping[str, str]) -> str:
    return " ".join(f"{key}={quote(value, safe=':,')}" for key, value in words.items())


def words_of(row: Row) -> dict[str, str]:
    pairs = (word.partition("=") for word in str(row.get("description") or "").split())
    return {key: unquote(value) for key, _, value in pairs}


def mark_of(row: Row) -> Mark | None:
    return read_mark_tags(labels_of(row)) or read_mark_tags(words_of(row))


def is_ours(row: Row, director_uuid: str) -> bool:
    mark = mark_of(row)
    return mark is not None and mark.director == director_uuid


def whole_tags(row: Row) -> dict[str, str]:
    """What users wrote on an instance and no label can hold as it is."""
    items = (row.get("metadata") or {}).get("items") or ()
    text = next((one.get("value") for one in items if one["key"] == TAGS), None)
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        return {}
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def user_labels(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Users' metadata as labels, which are in lower case and short: what Google does not take becomes an underscore."""
    keys = {key: _FOLDED.sub("_", key.lower()).lstrip("_-0123456789")[:_LENGTH] for key in metadata}
    found = metadata_tags({keys[key]: value for key, value in metadata.items() if keys[key]})
    return {key: fold(value) for key, value in found.items()}


def fold(value: str) -> str:
    """As the value of a label; one that is too long ends in its digest."""
    folded = _FOLDED.sub("_", value.lower())
    if len(folded) <= _LENGTH:
        return folded
    return f"{folded[: _LENGTH - 9]}-{hashlib.sha256(value.encode()).hexdigest()[:8]}"


def marked(mark: Mark, **more: str) -> dict[str, str]:
    return {**mark_tags(mark), **more}


def describe(kind: Kind, cid: str, row: Row, **facts: Any) -> CloudObject:
    """`etag`: the id, which is never given again, though names are."""
    tags = {**labels_of(row), **whole_tags(row)}
    if "labels" not in row:
        tags = read_keep_words(str(row.get("description") or "").split())
    return CloudObject(
        kind=kind,
        cid=cid,
        name=str(row["name"]),
        mark=mark_of(row),
        az=zone_of(row),
        created_at=moment(row.get("creationTimestamp")),
        etag=str(row["id"]) if row.get("id") else None,
        tags=tags,
        **facts,
    )


def moment(text: str | None) -> float | None:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() if text else None


def zone_of(row: Row) -> str | None:
    return name_of(row["zone"]) if row.get("zone") else None


def name_of(link: str) -> str:
    return link.rsplit("/", 1)[-1]


def cid_of(row: Row) -> str:
    """Of what is in a zone."""
    return f"{zone_of(row)}/{row['name']}"
