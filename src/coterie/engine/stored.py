"""How a step's parameters and its progress are kept in its row: one flat JSON object with a version.

Version 1 has the keys that release 0.1.0 wrote without a version. So a task of that release goes on after an upgrade,
and while conductors of both releases are at work each can take the other's steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, TypeVar, cast

from coterie.errors import CoterieError

VERSION = 1
Kept = TypeVar("Kept")


class StepTooNew(CoterieError):
    """A newer release wrote the step; a conductor of that release can run it."""


def as_key(key: str, form: type | None = None) -> Mapping[str, Any]:
    """Metadata of a field that is stored under another name; `form`: its type, with `wire` and `of_wire`."""
    return {"key": key, "form": form}


def in_form(form: type) -> Mapping[str, Any]:
    """Metadata of a field whose type has `wire` and `of_wire`."""
    return {"form": form}


def in_place(part: type) -> Mapping[str, Any]:
    """Metadata of a field that is a dataclass itself, whose keys are stored among those of the whole."""
    return {"part": part}


OMIT_NONE: Mapping[str, Any] = {"omit_none": True}  # metadata of a field whose key is absent while it is None


def store(params: object, progress: object) -> dict[str, Any]:
    return {"version": VERSION, **_keys(params), **_keys(progress)}


def keys_of(kept: type) -> list[str]:
    """The keys that parameters of this type are stored under, with the version."""
    return ["version", *_names(kept)]


def _names(kept: type) -> list[str]:
    found: list[str] = []
    for one in fields(cast(Any, kept)):
        found += _names(one.metadata["part"]) if "part" in one.metadata else [one.metadata.get("key", one.name)]
    return found


def read(kept: type[Kept], data: Mapping[str, Any]) -> Kept:
    """Keys that `kept` does not have are left to others; a missing one takes the field's default."""
    version = data.get("version", VERSION)
    if version > VERSION:
        raise StepTooNew(
            f"the step is stored in version {version}",
            why=f"this release reads versions up to {VERSION}",
            remedy="upgrade this conductor; one of the newer release goes on with the step meanwhile",
        )
    return _read(kept, data)


def _keys(kept: object) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in fields(cast(Any, kept)):
        value, about = getattr(kept, one.name), one.metadata
        if "part" in about:
            found.update(_keys(value))
        elif value is not None or not about.get("omit_none"):
            form = about.get("form")
            found[about.get("key", one.name)] = value.wire() if form and value is not None else value
    return found


def _read(kept: type[Kept], data: Mapping[str, Any]) -> Kept:
    values: dict[str, Any] = {}
    for one in fields(cast(Any, kept)):
        about = one.metadata
        key = about.get("key", one.name)
        if "part" in about:
            values[one.name] = _read(about["part"], data)
        elif key in data:
            form, value = about.get("form"), data[key]
            values[one.name] = form.of_wire(value) if form and value is not None else value
        elif one.default is MISSING and one.default_factory is MISSING:
            raise KeyError(key)
    return kept(**values)
