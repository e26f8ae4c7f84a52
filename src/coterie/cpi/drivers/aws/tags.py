"""Tags as EC2 writes them, the marks in them, and the filters that find them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from coterie.cpi.contract import CloudObject, InvalidCall, Kind, Mark
from coterie.cpi.drivers.aws.client import Row, filters
from coterie.cpi.kit.marking import GROUP, mark_tags, metadata_tags, read_mark_tags

POLICY = "coterie-policy"
_LONGEST_KEY, _LONGEST_VALUE = 127, 255


def tags_of(row: Row) -> dict[str, str]:
    """Of a row of any kind; users' tags may have an empty value."""
    return {str(tag["Key"]): str(tag.get("Value") or "") for tag in row.get("Tags") or ()}


def tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]


def tagged(kind: str, tags: Mapping[str, str]) -> list[dict[str, Any]]:
    """`TagSpecifications` of a creating call; `kind` is EC2's own word."""
    return [{"ResourceType": kind, "Tags": tag_list(tags)}]


def marked(kind: str, mark: Mark, **more: str) -> list[dict[str, Any]]:
    return tagged(kind, {"Name": mark.name(), **mark_tags(mark), **more})


def user_tags(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Users' metadata as tags. Keys that would change our own, or AWS's, are refused."""
    for key in metadata:
        if key.startswith("aws:"):
            raise InvalidCall(f"metadata key {key!r} is reserved", remedy="use keys that do not begin with aws:")
    found = metadata_tags(metadata, longest_key=_LONGEST_KEY, longest_value=_LONGEST_VALUE)
    return {"Name" if key == "name" else key: value for key, value in found.items()}


def of_mark(mark: Mark) -> list[dict[str, Any]]:
    return filters(tag__coterie_intent=mark.intent)


def of_director(director_uuid: str) -> list[dict[str, Any]]:
    return filters(tag__coterie_director=director_uuid)


def of_group(cid: str) -> list[dict[str, Any]]:
    return filters(**{f"tag:{GROUP}": cid})


def mark_of(row: Row) -> Mark | None:
    return read_mark_tags(tags_of(row))


def describe(kind: Kind, cid: str, row: Row, **facts: Any) -> CloudObject:
    tags = tags_of(row)
    return CloudObject(kind=kind, cid=cid, name=tags.get("Name", ""), mark=read_mark_tags(tags), tags=tags, **facts)


def moment(value: Any) -> float | None:
    return value.timestamp() if value is not None else None


def with_mark(rows: Iterable[Row], mark: Mark) -> list[Row]:
    """The filter of a cloud is never believed: some ignore one that they do not know."""
    return [row for row in rows if mark_of(row) == mark]
