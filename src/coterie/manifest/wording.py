"""What the schema's validator found, in words for the user. Values are never repeated: they may be secrets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from coterie.manifest.hints import list_words

_KINDS = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "a mapping",
    type(None): "nothing",
}
Context = Mapping[str, Any]
Words = tuple[str, str]


def in_words(kind: str, context: Context, value: Any) -> Words:
    """What is wrong and the remedy, for an error of pydantic's `kind` about `value`."""
    if kind in _WANTED:
        return _wrong_type(_WANTED[kind], value)
    return _OTHERS.get(kind, _unforeseen)(context)


def _unforeseen(context: Context) -> Words:
    """For kinds that a later release of the validator may add."""
    return "it is not valid here", "`coterie explain` describes this field"


def _wrong_type(wanted: str, value: Any) -> Words:
    if value is None:
        return f"it is empty, but must be {wanted}", "give it a value, or remove the key"
    remedy = f"write {wanted} here"
    if wanted == "text" and isinstance(value, bool | int | float):
        remedy = "put the value in quotes"
    elif isinstance(value, str) and wanted in ("a whole number", "a number", "true or false"):
        remedy = f"write {wanted} without quotes" + (", as in true" if wanted == "true or false" else ", as in 3")
    elif wanted == "a list":
        remedy = "write one '- item' per line, or [a, b]"
    elif wanted == "a mapping":
        remedy = "write 'key: value' pairs, indented below this key"
    return f"it must be {wanted}, not {_KINDS.get(type(value), 'this')}", remedy


def _least(context: Context) -> Words:
    return f"it must be at least {context['ge']:,}", f"use {context['ge']:,} or more"


def _most(context: Context) -> Words:
    return f"it must be at most {context['le']:,}", f"use {context['le']:,} or less"


def _above(context: Context) -> Words:
    return f"it must be more than {context['gt']:,}", f"use a number above {context['gt']:,}"


def _longest(context: Context) -> Words:
    return "it is too long", f"use at most {context['max_length']:,} characters"


_WANTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
}
_OTHERS: dict[str, Callable[[Context], Words]] = {
    "refused": lambda context: (str(context["what"]), str(context["remedy"])),
    "greater_than": _above,
    "greater_than_equal": _least,
    "less_than_equal": _most,
    "string_too_short": lambda context: ("it is empty", "give it at least one character"),
    "string_too_long": _longest,
}


def no_choice(value: Any, choices: tuple[str, ...], meant: str | None) -> Words:
    question = f"did you mean '{meant}'? " if meant else ""
    shown = f"'{value}'" if isinstance(value, str) else "it"
    return f"{shown} is not one of the possible values", f"{question}use one of {', '.join(choices)}"


def unknown_key(key: str, known: tuple[str, ...], meant: str | None) -> Words:
    if key in _FROM_BOSH:
        return f"'{key}' is not a key of Coterie's documents", _FROM_BOSH[key]
    question = f"did you mean '{meant}'? " if meant else ""
    return f"the key '{key}' is unknown here", f"{question}the keys here are {list_words(known)}"


def missing(key: str, example: Any) -> Words:
    shown = f", as in {key}: {example}" if isinstance(example, str | int) else ""
    return f"'{key}' is missing", f"add {key}{shown}"


# Keys of a BOSH manifest that have another name here, or no meaning.
_FROM_BOSH = {
    "releases": "remove it: Coterie deploys machines; what runs on them comes with the stemcell, env or user_data",
    "jobs": "remove it: Coterie deploys machines; what runs on them comes with the stemcell, env or user_data",
    "addons": "remove it: what runs on the machines comes with the stemcell, env or user_data",
    "variables": "remove it, and write the values into the manifest",
    "director_uuid": "remove it: the Director is chosen with --director",
    "vm_extensions": "remove it, and put its cloud_properties into a vm type",
    "vm_resources": "remove it, and define a vm type in the cloud config",
    "compilation": "remove it: nothing is compiled",
    "migrated_from": "remove it: give new instance groups new names",
    "lifecycle": "remove it: all instance groups are services",
    "cpi": "use 'cloud': the name of an entry of clouds",
    "canary_watch_time": "use 'canary_watch_s', in seconds",
    "update_watch_time": "use 'update_watch_s', in seconds",
    "resource_pool": "use 'vm_type'",
    "persistent_disk_pool": "use 'persistent_disk_type'",
    "availability_zone": "use 'azs'",
}
