"""Looks at the schema from outside: which fields a part has, of what type, with which example.

What `explain`, the reference and the salvaging of half-broken documents have in common.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from coterie.manifest.schema.part import Part
from coterie.manifest.schema.words import TypeWords

_WORDS = {str: "text", int: "whole number", float: "number", bool: "true or false", dict: "mapping", Any: "anything"}


@dataclass(frozen=True, slots=True)
class FieldView:
    """One field. `part`: what its value, or each item of its value, consists of."""

    name: str
    kind: str
    required: bool
    default: Any
    description: str
    choices: tuple[str, ...]
    example: Any
    part: type[Part] | None
    list_words: bool


def fields_of(part: type[Part]) -> Iterator[FieldView]:
    return (view(part, name) for name in part.model_fields)


@cache
def view(part: type[Part], name: str) -> FieldView:
    info = part.model_fields[name]
    inner, list_words = _item(info.annotation)
    below = inner if isinstance(inner, type) and issubclass(inner, Part) else None
    return FieldView(
        name=name,
        kind=_field_type(info),
        required=info.is_required(),
        default=None if info.is_required() else _default(info),
        description=info.description or "",
        choices=tuple(str(choice) for choice in get_args(inner)) if get_origin(inner) is Literal else (),
        example=_example(info, below, list_words),
        part=below,
        list_words=list_words,
    )


def part_at(part: type[Part], steps: Iterable[str | int]) -> type[Part] | None:
    """What the value at these steps from `part` consists of; None where it is no part."""
    found: type[Part] | None = part
    for step in steps:
        if isinstance(step, str):
            found = view(found, step).part if found and step in found.model_fields else None
    return found


def sample(part: type[Part]) -> dict[str, Any]:
    """The smallest valid value of a part, made of the fields' own examples."""
    return {field.name: field.example for field in fields_of(part) if field.required}


def _field_type(info: FieldInfo) -> str:
    told = [entry.words for entry in info.metadata if isinstance(entry, TypeWords)]
    return told[0] if told else type_words(info.annotation)


def type_words(annotation: Any) -> str:
    """The type in plain words."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        told = [entry.words for entry in args[1:] if isinstance(entry, TypeWords)]
        return told[0] if told else type_words(args[0])
    if origin in (Union, UnionType):
        return " or ".join(type_words(arg) for arg in args if arg is not NoneType)
    if origin is tuple:
        return f"list of {type_words(args[0])}"
    if origin is dict:
        return "mapping" if args[1] is Any else f"mapping of {type_words(args[1])}"
    if origin is Literal:
        return "one of the choices" if len(args) > 1 else str(args[0])
    return _WORDS.get(annotation, "mapping")


def _item(annotation: Any) -> tuple[Any, bool]:
    """What a value, or each item of a list, is; and whether it is a list."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _item(args[0])
    if origin in (Union, UnionType):
        return _item(next(arg for arg in args if arg is not NoneType))
    if origin is tuple:
        return _item(args[0])[0], True
    return annotation, False


def _default(info: FieldInfo) -> Any:
    made = info.get_default(call_default_factory=True, validated_data={})
    if isinstance(made, Part):
        return made.model_dump(mode="json", exclude_none=True)
    return list(made) if isinstance(made, tuple) else made


def _example(info: FieldInfo, below: type[Part] | None, list_words: bool) -> Any:
    if info.examples:
        return info.examples[0]
    if below is None:
        return None
    return [sample(below)] if list_words else sample(below)
