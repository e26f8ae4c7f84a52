"""The API as the vendor defines it: commands, parameters, response fields. Read from `api.json`, never bent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True, slots=True)
class Parameter:
    """`entity`: the response classes of which a uuid must be one. `admin`: only administrators may send it."""

    name: str
    type: str
    required: bool
    length: int
    items: str | None
    entity: tuple[str, ...]
    admin: bool


@dataclass(frozen=True, slots=True)
class Command:
    """`creates`: the job's answer carries the new object's id. `object_name`: the key inside the envelope."""

    name: str
    asynchronous: bool
    creates: bool
    result: str
    envelope: str
    object_name: str | None
    response: str
    admin: bool
    parameters: Mapping[str, Parameter]


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    object: str | None
    admin: bool


@cache
def commands() -> dict[str, Command]:
    """All commands, by their names in lower case: the API does not mind the case."""
    return {name.lower(): _command(value) for name, value in _document()["commands"].items()}


@cache
def fields(response: str) -> dict[str, Field]:
    found = _document()["responses"][response]["fields"]
    return {name: Field(name, one.get("object"), bool(one.get("authorized"))) for name, one in found.items()}


def has_fields(response: str | None) -> bool:
    return response in _document()["responses"]


@cache
def implicit_parameters() -> frozenset[str]:
    return frozenset(_document()["implicit_params"])


def inner_code(exception: str) -> int:
    """`cserrorcode` of one of the vendor's exception classes."""
    codes: dict[str, int] = _document()["errors"]["cserrorcode"]
    return codes[exception]


def version() -> str:
    return str(_document()["cloudstack_version"])


def _command(value: dict[str, Any]) -> Command:
    return Command(
        name=value["name"],
        asynchronous=value["async"],
        creates=value["async_create"],
        result=value["result"],
        envelope=value["envelope"],
        object_name=value["object_name"],
        response=value["response_object"],
        admin=value["admin"],
        parameters={name: _parameter(name, one) for name, one in value["params"].items()},
    )


def _parameter(name: str, value: dict[str, Any]) -> Parameter:
    return Parameter(
        name=name,
        type=value["type"],
        required=value["required"],
        length=value["length"],
        items=value.get("items"),
        entity=tuple(value.get("entity") or ()),
        admin=bool(value.get("authorized") or value.get("variant")),
    )


@cache
def _document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(files(__package__).joinpath("api.json").read_text("utf-8"))
    return found
