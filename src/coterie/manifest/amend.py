"""Small changes to the text of a cloud config, in place: comments, order and everything else stay as they were written.

The result is compared with the intended config; a text that cannot be changed safely is refused. No I/O.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from coterie.errors import NotFound, Refused
from coterie.manifest.load import load_cloud_config
from coterie.manifest.schema import CloudConfig

_FILE = "cloud-config"


def set_conductor_group(text: str, cloud: str, group: str) -> str:
    """The same config with another conductor group for one cloud. One of its other groups changes places with it."""
    before = load_cloud_config(text, _FILE).value
    present = next((one for one in before.clouds if one.name == cloud), None)
    if present is None:
        raise NotFound(f"no cloud {cloud!r} in the cloud config", remedy="list them with `coterie clouds`")
    changed: dict[str, Any] = {"conductor_group": group}
    others = present.conductor_groups[1:]
    if group.lower() in others:
        others = tuple(present.conductor_groups[0] if one == group.lower() else one for one in others)
        changed["other_conductor_groups"] = others
    wanted = [{**one, **changed} if one["name"] == cloud else one for one in _clouds(before)]
    for field, value in changed.items():
        entry = next(one for one in _entries(text) if _scalar(_value(one, "name")) == cloud)
        text = _write_field(text, entry, field, json.dumps(value))
    return _require_meant(text, before, wanted)


def add_cloud(text: str, cloud: Mapping[str, Any]) -> str:
    """The same config with one more cloud."""
    line = json.dumps(dict(cloud), ensure_ascii=False)
    before = load_cloud_config(text, _FILE).value
    clouds = _value(_root(text), "clouds")
    if not isinstance(clouds, SequenceNode):
        raise _unsafe()
    at = clouds.start_mark.index
    if clouds.flow_style:
        rest = ", " if clouds.value else ""
        changed = f"{text[: at + 1]}{line}{rest}{text[at + 1 :]}"
    else:
        changed = f"{text[:at]}- {line}\n{' ' * clouds.start_mark.column}{text[at:]}"
    try:
        wanted = [CloudConfig.model_validate({**before.model_dump(), "clouds": [cloud]}).clouds[0].model_dump()]
    except ValidationError as error:
        load_cloud_config(changed, _FILE)  # raises, with every mistake and its line
        raise _unsafe() from error
    return _require_meant(changed, before, wanted + _clouds(before))


def _write_field(text: str, entry: MappingNode, field: str, value: str) -> str:
    present = _value(entry, field)
    if present is not None:
        return text[: present.start_mark.index] + value + text[present.end_mark.index :]
    name = _value(entry, "name")
    if name is None:
        raise _unsafe()
    glue = ", " if entry.flow_style else "\n" + " " * entry.value[0][0].start_mark.column
    return f'{text[: name.end_mark.index]}{glue}"{field}": {value}{text[name.end_mark.index :]}'


def _require_meant(text: str, before: CloudConfig, wanted: list[dict[str, Any]]) -> str:
    try:
        after = load_cloud_config(text, _FILE).value.model_dump()
    except Exception as error:  # any error: the changed text is not valid, although the original was
        raise _unsafe() from error
    if after != {**before.model_dump(), "clouds": tuple(wanted)}:
        raise _unsafe()
    return text


def _clouds(config: CloudConfig) -> list[dict[str, Any]]:
    return [cloud.model_dump() for cloud in config.clouds]


def _entries(text: str) -> list[MappingNode]:
    clouds = _value(_root(text), "clouds")
    return [one for one in clouds.value if isinstance(one, MappingNode)] if isinstance(clouds, SequenceNode) else []


def _root(text: str) -> Node | None:
    root: Node | None = YAML(typ="safe", pure=True).compose(text)
    return root


def _value(node: Node | None, key: str) -> Node | None:
    if not isinstance(node, MappingNode):
        return None
    return next((value for name, value in node.value if _scalar(name) == key), None)


def _scalar(node: Node | None) -> str | None:
    return str(node.value) if isinstance(node, ScalarNode) else None


def _unsafe() -> Refused:
    return Refused(
        "this cloud config cannot be changed in place",
        why="it is written with anchors, merges or in another way that one line cannot change",
        remedy="change the file, and set it as a whole: coterie clouds set FILE",
    )
