"""The JSON Schema of the manifest or the cloud config, for editors and for checks in CI.

It says what one field can say about itself; `coterie validate` also checks what fields say about each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.cpi.contract import Form, Forms, Place
from coterie.manifest.properties import describe
from coterie.manifest.schema import SEALED, CloudConfig, Deployment, Part

Json = dict[str, Any]
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TYPES: dict[str, Place] = {"Az": "vm", "VmType": "vm", "DiskType": "disk", "Network": "network", "Subnet": "network"}


def manifest_schema() -> Json:
    return _schema(Deployment, "Coterie manifest")


def cloud_config_schema(forms: Mapping[str, Forms]) -> Json:
    """`forms`: by driver; their keys are offered, and for `clouds` no others are accepted."""
    schema = _schema(CloudConfig, "Coterie cloud config")
    parts = schema["$defs"]
    parts["Cloud"]["allOf"] = [
        {
            "if": {"properties": {"driver": {"const": driver}}, "required": ["driver"]},
            "then": {"properties": {"properties": _cloud_properties(places["cloud"])}},
        }
        for driver, places in sorted(forms.items())
        if "cloud" in places
    ]
    for name, place in _TYPES.items():
        by_driver = {driver: places[place] for driver, places in sorted(forms.items()) if place in places}
        parts[name]["properties"]["cloud_properties"]["properties"] = _keys_of_all(by_driver)
    return schema


def _schema(part: type[Part], title: str) -> Json:
    schema: Json = _without_titles(part.model_json_schema())
    return {"$schema": _DIALECT, "title": title, **schema}


def _without_titles(value: Any) -> Any:
    """pydantic derives a title from each name, which editors would show instead of the description."""
    if isinstance(value, list):
        return [_without_titles(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        key: {name: _without_titles(one) for name, one in below.items()}
        if key in ("properties", "$defs")
        else _without_titles(below)
        for key, below in value.items()
        if key != "title" or not isinstance(below, str)
    }


def _cloud_properties(form: Form) -> Json:
    keys = {key: {"description": describe(form, key)} for key in form.readers}
    return {
        "properties": {**keys, SEALED: {"description": "The other keys, readable for conductors only."}},
        "additionalProperties": False,
        "anyOf": [{"required": sorted(form.needed)}, {"required": [SEALED]}],
        "examples": [dict(form.example)],
    }


def _keys_of_all(forms: Mapping[str, Form]) -> Json:
    """A vm type does not name its driver: the keys of all, each with the words of every driver that has it."""
    keys = sorted({key for form in forms.values() for key in form.readers})
    return {
        key: {"description": " ".join(f"{d}: {describe(f, key)}" for d, f in forms.items() if key in f.readers)}
        for key in keys
    }
