"""Seals the properties of every cloud in a cloud config's text; everything else stays where it is, line by line."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from coterie.errors import Refused
from coterie.manifest import SEALED, FormsOf, load_cloud_config
from coterie.seal.key import PublicKey
from coterie.seal.sealed import Address, Purpose, boxes, join, seal

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
        purposes = [Purpose(cloud.name, cloud.driver, group) for group in cloud.conductor_groups]
        made = _seal_properties(purposes, dict(cloud.properties), key_of, known, sealer)
        if made != cloud.properties:
            wanted[cloud.name] = made
    return _replace(text, wanted) if wanted else text


def _seal_properties(
    purposes: list[Purpose], properties: dict[str, Any], key_of: KeyOf, known: Known, sealer: Sealer
) -> dict[str, Any]:
    """A box for each group of one cloud. What is sealed already stays so, if each of its groups can open a box; boxes
    that none of them can open are left out."""
    sealed = boxes(properties)
    if not sealed:
        return join([sealer(_key(one, key_of), one, properties) for one in purposes]) if properties else properties
    kept: dict[str, None] = {}
    for purpose in purposes:
        found = [text for where, text in sealed.items() if known(purpose.group, where.key_id)]
        if not found:
            raise _unopenable(purpose, list(sealed))
        kept |= dict.fromkeys(found)
    return properties if len(kept) == len(sealed) else join([{SEALED: text} for text in kept])


def _unopenable(purpose: Purpose, sealed: list[Address]) -> Refused:
    to = " and ".join(f"key {where.key_id} of group {where.group!r}" for where in sealed)
    return Refused(
        f"conductor group {purpose.group!r} could not open the properties of cloud {purpose.cloud}",
        why=f"they are sealed to {to}, which this group does not have",
        remedy=f"write the properties of cloud {purpose.cloud} in plain into the cloud config and set it again, which "
        "seals them to all of its groups: coterie clouds set FILE",
    )


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


def replace_sealed(text: str, cloud: str, properties: dict[str, Any]) -> str:
    """The same config with these sealed properties for one cloud."""
    return _replace(text, {cloud: properties})


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
