"""Shapes of what is asked about a cloud: expectations before a deletion, a manifest's needs, the scope of a cleanup."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coterie.cpi.contract import Expected, Needs
from coterie.cpi.wire.shapes import (
    TEXT,
    Mismatch,
    Shape,
    nullable,
    or_else,
    read_fields,
    read_flag,
    read_object,
    read_texts,
    read_whole,
    same,
)
from coterie.cpi.wire.values import MARK_OR_NULL, read_kind


def read_expected(value: Any) -> Expected:
    fields = read_fields(value, optional=("mark", "created_at", "etag"))
    created_at = fields.get("created_at")
    if created_at is not None and (isinstance(created_at, bool) or not isinstance(created_at, int | float)):
        raise Mismatch("must have a `created_at` that is null or a number of seconds")
    return Expected(MARK_OR_NULL.read(fields.get("mark")), created_at, nullable(TEXT).read(fields.get("etag")))


def write_expected(value: Expected) -> Any:
    return {"mark": MARK_OR_NULL.write(value.mark), "created_at": value.created_at, "etag": value.etag}


def read_needs(value: Any) -> Needs:
    fields = read_fields(value, optional=("kinds", "policies", "azs", "counts", "groups"))
    counts = read_object(fields.get("counts") or {})
    if not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in counts.values()):
        raise Mismatch("must have `counts` that are whole numbers")
    lists = {name: tuple(read_texts(fields.get(name) or [])) for name in ("kinds", "policies", "azs")}
    groups = fields.get("groups") or []
    if not isinstance(groups, list):
        raise Mismatch("must have `groups` that are a list")
    return Needs(counts=counts, groups=tuple(read_object(one) for one in groups), **lists)


def write_needs(value: Needs) -> Any:
    lists = {"kinds": list(value.kinds), "policies": list(value.policies), "azs": list(value.azs)}
    return {**lists, "counts": dict(value.counts), "groups": [dict(one) for one in value.groups]}


def read_known(value: Any) -> dict[str, list[str]]:
    """The CIDs that the caller of `cleanup` knows, per kind."""
    return {read_kind(kind): read_texts(cids) for kind, cids in read_object(value).items()}


def read_sweep(value: Any) -> dict[str, Any]:
    """The options of `cleanup`; each may be left out, none may be misspelt. Null is left out: it is not `false`."""
    given = read_fields(value, optional=tuple(_OPTIONS))
    fields = {name: one for name, one in given.items() if one is not None}
    for name, one in fields.items():
        _OPTIONS[name](one)
    return fields


def _read_grace(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise Mismatch("must have a `grace_s` that is a number of seconds")


def _read_percent(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 100:
        raise Mismatch("must have a `cap_percent` from 0 to 100")


def _read_left_out(value: Any) -> None:
    if not isinstance(value, dict):
        raise Mismatch("must have a `left_out` like {kind: count}")
    for kind, count in value.items():
        read_kind(kind)
        read_whole(count)


def _read_kinds(value: Any) -> None:
    for kind in read_texts(value):
        read_kind(kind)


_OPTIONS: dict[str, Callable[[Any], object]] = {
    "dry_run": read_flag,
    "grace_s": _read_grace,
    "kinds": _read_kinds,
    "cap": read_whole,
    "cap_percent": _read_percent,
    "left_out": _read_left_out,
}
EXPECTED: Shape[Expected] = Shape(read_expected, write_expected)
NEEDS_OR_NULL = nullable(Shape(read_needs, write_needs))
# Null is not the empty object: who knows nothing of its own cannot have anything deleted.
KNOWN_OR_NULL = nullable(same(read_known))
SWEEP: Shape[dict[str, Any]] = or_else(same(read_sweep), dict)
