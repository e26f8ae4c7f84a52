"""Seals the properties of every cloud in a cloud config's text; everything else stays where it is, line by line."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from coterie.errors import Refused
from coterie.manifest import FormsOf, load_cloud_config
from coterie.seal.key import PublicKey
from coterie.seal.sealed import Purpose, address, seal

KeyOf = Callable[[str], PublicKey | None]  # conductor group → its key
Known = Callable[[str, str], bool]  # conductor group, key id → whether its conductors have that key
Sealer = Callable[[PublicKey, Purpose, dict[str, Any]], dict[str, str]]


def seal_config(
    text: str,
    file: str,
    key_of: KeyOf,
    known: Known,
    *,
    sealer: Sealer = seal,
    drivers: Collection[str] | None = None,
    forms_of: FormsOf | None = None,
) -> str:
    """`text` with nothing of the clouds' properties left readable. Refused where a group has no key to seal to.

    `drivers`, `forms_of`: as for `load_cloud_config`.
    """
    config = load_cloud_config(text, file, drivers=drivers, forms_of=forms_of).value
    wanted: dict[str, dict[str, Any]] = {}
    for cloud in config.clouds:
        purpose = Purpose(cloud.name, cloud.driver, cloud.conductor_group.lower())
        made = seal_properties(purpose, dict(cloud.properties), key_of, known, sealer)
        if made != cloud.properties:
            wanted[cloud.name] = made
    return _replace(text, wanted) if wanted else text


def seal_properties(
    purpose: Purpose, properties: dict[str, Any], key_of: KeyOf, known: Known, sealer: Sealer = seal
) -> dict[str, Any]:
    """The same for one cloud. What is sealed already stays so, if its group can open it."""
    where = address(properties)
    if where is None:
        return dict(sealer(_key(purpose, key_of), purpose, properties)) if properties else properties
    if not known(purpose.group, where.key_id):
        raise Refused(
            f"conductor group {purpose.group!r} could not open the properties of cloud {purpose.cloud}",
            why=f"they were sealed for group {where.group!r}, to key {where.key_id}, which this group does not have",
            remedy="write its properties in plain into the cloud config and set it again: coterie clouds set FILE",
        )
    return properties


def _key(purpose: Purpose, key_of: KeyOf) -> PublicKey:
    found = key_of(purpose.group)
    if found is None:
        raise Refused(
            f"the properties of cloud {purpose.cloud} cannot be sealed",
            why=f"conductor group {purpose.group!r} has no key yet",
            remedy="start a conductor of that group, which makes one (coterie conductor --group NAME), or publish "
            "one: coterie conductors keys publish",
        )
    return found


def _replace(text: str, wanted: dict[str, dict[str, Any]]) -> str:
    """In place if that gives the intended document; with anchors and merges it may have to be written anew."""
    meant = _plain(text)
    for cloud in meant["clouds"]:
        if cloud["name"] in wanted:
            cloud["properties"] = wanted[cloud["name"]]
    edited = _edit(text, wanted)
    return edited if _reads_as(edited, meant) else _dump(meant)


def _edit(text: str, wanted: dict[str, dict[str, Any]]) -> str:
    spans = {(node.start_mark.index, node.end_mark.index): name for name, node in _properties(text) if name in wanted}
    for (start, end), name in sorted(spans.items(), reverse=True):
        removed = text[start:end]
        rest = removed[removed.rfind("\n") + 1 :] if "\n" in removed else ""
        # Keep the number of lines and the indentation: mistakes are reported with the user's line numbers.
        tail = "\n" * removed.count("\n") + (rest if not rest.strip() else " " * 8)
        text = text[:start] + json.dumps(wanted[name]) + tail + text[end:]
    return text


def _properties(text: str) -> list[tuple[str, Any]]:
    root = _fields(YAML(typ="safe", pure=True).compose(text))
    clouds = root.get("clouds")
    found = [_fields(one) for one in clouds.value] if isinstance(clouds, SequenceNode) else []
    return [(one["name"].value, one["properties"]) for one in found if "name" in one and "properties" in one]


def _fields(node: Node | None) -> dict[str, Any]:
    return {str(key.value): value for key, value in node.value} if isinstance(node, MappingNode) else {}


def _reads_as(text: str, meant: Any) -> bool:
    try:
        return bool(_plain(text) == meant)
    except Exception:  # any parser error: the edit is not the intended document
        return False


def _plain(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


def _dump(value: Any) -> str:
    return json.dumps(value, indent=2, default=str) + "\n"  # JSON is YAML
