"""Seals the properties of every cloud in a cloud config's text; everything else stays where it is, line by line."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from coterie.errors import Refused
from coterie.manifest import load_cloud_config
from coterie.seal.key import PublicKey
from coterie.seal.sealed import Purpose, address, seal

KeyOf = Callable[[str], PublicKey | None]  # conductor group → its key
Known = Callable[[str, str], bool]  # conductor group, key id → whether the group has that key
Sealer = Callable[[PublicKey, Purpose, dict[str, Any]], dict[str, str]]


def seal_config(
    text: str,
    file: str,
    key_of: KeyOf,
    known: Known,
    *,
    sealer: Sealer = seal,
    drivers: Collection[str] | None = None,
) -> str:
    """`text` with nothing of the clouds' properties left readable. Refused where a group has no key to seal to.

    `drivers`: the installed ones; None leaves their names unchecked.
    """
    config = load_cloud_config(text, file, drivers=drivers).value
    wanted: dict[str, dict[str, str]] = {}
    for cloud in config.clouds:
        purpose = Purpose(cloud.name, cloud.driver, cloud.conductor_group.lower())
        where = address(cloud.properties)
        if where is not None:
            _check_sealed(purpose, where.group, where.key_id, known)
        elif cloud.properties:
            wanted[cloud.name] = sealer(_key(purpose, key_of), purpose, dict(cloud.properties))
    return _replaced(text, wanted) if wanted else text


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


def _check_sealed(purpose: Purpose, group: str, key_id: str, known: Known) -> None:
    again = "write its properties in plain into the cloud config and set it again: coterie clouds set FILE"
    if group != purpose.group:
        raise Refused(
            f"cloud {purpose.cloud} cannot go to conductor group {purpose.group!r} like this",
            why=f"its properties are sealed for group {group!r}, and nobody else can open them",
            remedy=again,
        )
    if not known(group, key_id):
        raise Refused(
            f"the properties of cloud {purpose.cloud} are sealed to key {key_id}",
            why=f"conductor group {group!r} has no such key",
            remedy=f"see `coterie conductors keys`; {again}",
        )


def _replaced(text: str, wanted: dict[str, dict[str, str]]) -> str:
    """In place if that gives the very document that is meant; anchors and merges may need it written anew."""
    meant = _plain(text)
    for cloud in meant["clouds"]:
        if cloud["name"] in wanted:
            cloud["properties"] = wanted[cloud["name"]]
    edited = _edited(text, wanted)
    return edited if _reads_as(edited, meant) else _dumped(meant)


def _edited(text: str, wanted: dict[str, dict[str, str]]) -> str:
    spans = {(node.start_mark.index, node.end_mark.index): name for name, node in _properties(text) if name in wanted}
    for (start, end), name in sorted(spans.items(), reverse=True):
        removed = text[start:end]
        rest = removed[removed.rfind("\n") + 1 :] if "\n" in removed else ""
        # As many lines as before, and the indentation of what follows: mistakes are told with the user's line numbers.
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
    except Exception:  # whatever the parser says of our edit, it is not what was meant
        return False


def _plain(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


def _dumped(value: Any) -> str:
    return json.dumps(value, indent=2, default=str) + "\n"  # JSON is YAML
