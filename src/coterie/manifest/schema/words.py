"""Kinds of text and numbers that fields are made of. Each refusal comes with its remedy."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, Field, PlainValidator, Strict, WithJsonSchema
from pydantic_core import PydanticCustomError

T = TypeVar("T")
NAME_LIMIT = 63
CLOUD_NAME_LIMIT = 255
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_CONDUCTOR_GROUP = re.compile(r"[a-zA-Z0-9_.-]*")
_GROUP_OF = re.compile(rf"({_NAME.pattern}/)?{_NAME.pattern}")
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]*")
_LARGEST_DISK = 1_073_741_824
_PERCENT = re.compile(r"([1-9][0-9]?|100)%")


@dataclass(frozen=True, slots=True)
class TypeWords:
    """How the reference names a kind of value."""

    words: str


def refuse(what: str, remedy: str) -> PydanticCustomError:
    """A refusal whose words reach the user unchanged."""
    return PydanticCustomError("refused", "{what}", {"what": what, "remedy": remedy})


def _name(value: str) -> str:
    if not value or len(value) > NAME_LIMIT:
        raise refuse(f"the name has {len(value)} characters", f"use 1 to {NAME_LIMIT} characters")
    if not _NAME.fullmatch(value):
        raise refuse(
            f"the name '{value}' has characters that a name cannot have",
            "use letters, digits, '_', '.' and '-', beginning with a letter or digit",
        )
    return value


def _cloud_name(value: str) -> str:
    if not value or len(value) > CLOUD_NAME_LIMIT:
        raise refuse(f"the name has {len(value)} characters", f"use 1 to {CLOUD_NAME_LIMIT} characters")
    if not value.isprintable() or value != value.strip():
        raise refuse("the name has unprintable characters or blanks at its ends", "remove them")
    return value


def _conductor_group(value: str) -> str:
    if len(value) > CLOUD_NAME_LIMIT:
        raise refuse(f"the conductor group has {len(value)} characters", f"use at most {CLOUD_NAME_LIMIT}")
    if not _CONDUCTOR_GROUP.fullmatch(value):
        raise refuse("the conductor group has characters that it cannot have", "use letters, digits, '_', '.' and '-'")
    return value


def _group_of(value: str) -> str:
    if not _GROUP_OF.fullmatch(value) or any(len(name) > NAME_LIMIT for name in value.split("/")):
        raise refuse(f"'{value}' names no instance group", "write its name, or DEPLOYMENT/NAME")
    return value


def _version(value: str) -> str:
    if not _VERSION.fullmatch(value) or len(value) > NAME_LIMIT:
        raise refuse(f"'{value}' is not a version", 'write a version such as "1.2", or "latest"')
    return value


def _some(value: tuple[T, ...]) -> tuple[T, ...]:
    if not value:
        raise refuse("the list is empty", "give at least one entry")
    return value


def _in_flight(value: Any) -> int | str:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    if isinstance(value, str) and _PERCENT.fullmatch(value):
        return value
    raise refuse("it is neither a whole number of at least 1 nor a percentage", 'write a number such as 2, or "20%"')


# Not `min_length`: pydantic counts only the valid entries, and would call a list with one bad entry too short.
Some = AfterValidator(_some)
Text = Annotated[str, Strict()]
Name = Annotated[
    str,
    Strict(),
    AfterValidator(_name),
    WithJsonSchema({"type": "string", "pattern": f"^{_NAME.pattern}$", "maxLength": NAME_LIMIT}),
]
GroupOf = Annotated[
    str,
    Strict(),
    AfterValidator(_group_of),
    WithJsonSchema({"type": "string", "pattern": f"^{_GROUP_OF.pattern}$"}),
]
CloudName = Annotated[str, Strict(), AfterValidator(_cloud_name)]
ConductorGroup = Annotated[str, Strict(), AfterValidator(_conductor_group)]
Version = Annotated[str, Strict(), AfterValidator(_version)]
Whole = Annotated[int, Strict()]
Flag = Annotated[bool, Strict()]
Seconds = Annotated[float, Strict(), Field(gt=0, le=86_400)]
Mebibytes = Annotated[int, Strict(), Field(ge=0, le=_LARGEST_DISK)]
DiskSize = Annotated[int, Strict(), Field(ge=1, le=_LARGEST_DISK)]
InFlight = Annotated[
    int | str,
    PlainValidator(_in_flight),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": f"^{_PERCENT.pattern}$"}]}
    ),
    TypeWords("whole number or percentage"),
]
TagKey = Annotated[str, Strict(), Field(min_length=1, max_length=128)]
TagValue = Annotated[str, Strict(), Field(max_length=256)]
Policy = Literal["soft-anti-affinity", "anti-affinity", "affinity", "soft-affinity", "host-affinity"]
Properties = dict[str, Any]
