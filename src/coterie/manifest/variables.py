"""Variables: `((name))` and `((name.key))` below `env` and `user_data` of a manifest, replaced in its text.

They may stand nowhere else, since everything below these two is secret, and so is the value of a variable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from coterie.manifest.document import Mistake, invalid

Find = Callable[[str], Any]  # the value of a variable; KeyError: no source has it
_REFERENCE = re.compile(r"(?<!\$)\(\(([A-Za-z0-9_][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*)\)\)")
_PLACES = ("env", "user_data")


def resolve_variables(text: str, file: str, find: Find) -> str:
    """The text with the values in place; its lines keep their numbers. One error names all that are missing."""
    if not _REFERENCE.search(text):
        return text
    try:
        root = YAML(typ="safe", pure=True).compose(text)
    except (YAMLError, RecursionError):
        return text  # reading the manifest reports what is wrong with it
    references = list(_references(root, "", False, set()))
    mistakes, edits = [], []
    for node, field, allowed in references:
        found = [] if allowed else [_misplaced(file, node, field)]
        missing = [_missing(file, node, field, name) for name in _names(node) if allowed and not _has(find, name)]
        mistakes += found + missing
        if not found and not missing:
            edits.append((node.start_mark.index, node.end_mark.index, _written(node.value, find)))
    if mistakes:
        raise invalid(mistakes)
    for start, end, value in sorted(edits, reverse=True):
        text = _put(text, start, end, value)
    return text


def _references(
    node: Node | None, field: str, allowed: bool, seen: set[tuple[int, bool]]
) -> Iterator[tuple[ScalarNode, str, bool]]:
    if node is None or (id(node), allowed) in seen:
        return
    seen.add((id(node), allowed))
    if isinstance(node, MappingNode):
        for key, value in node.value:
            name = str(key.value)
            inside = allowed or (name in _PLACES and field.startswith("instance_groups["))
            yield from _references(value, f"{field}.{name}" if field else name, inside, seen)
    elif isinstance(node, SequenceNode):
        for index, item in enumerate(node.value):
            yield from _references(item, f"{field}[{index}]", allowed, seen)
    elif isinstance(node, ScalarNode) and _REFERENCE.search(node.value):
        yield node, field, allowed


def _names(node: ScalarNode) -> list[str]:
    return list(dict.fromkeys(_REFERENCE.findall(node.value)))


def _has(find: Find, name: str) -> bool:
    try:
        find(name)
    except KeyError:
        return False
    return True


def _written(value: str, find: Find) -> str:
    """As JSON, which is YAML: a value of any type for a reference alone, text for one inside a text."""
    alone = _REFERENCE.fullmatch(value)
    return json.dumps(find(alone[1]) if alone else _REFERENCE.sub(lambda match: _word(find(match[1])), value))


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _put(text: str, start: int, end: int, value: str) -> str:
    removed = text[start:end]
    anchor = re.match(r"&\S+\s+", removed)
    rest = removed[removed.rfind("\n") + 1 :] if "\n" in removed else ""
    # Keep the number of lines and the indentation: mistakes are reported with the user's line numbers.
    tail = "\n" * removed.count("\n") + (rest if not rest.strip() else "")
    return f"{text[:start]}{anchor[0] if anchor else ''}{value}{tail}{text[end:]}"


def _missing(file: str, node: ScalarNode, field: str, name: str) -> Mistake:
    remedy = f"give it: --var {name.partition('.')[0]}=VALUE, --vars-file FILE, or another source of variables"
    return _mistake(file, node, field, f"the variable (({name})) has no value", remedy)


def _misplaced(file: str, node: ScalarNode, field: str) -> Mistake:
    remedy = "write the value itself; variables are secret, and only what is below env and user_data is kept so"
    return _mistake(file, node, field, "a variable may not stand here", remedy)


def _mistake(file: str, node: ScalarNode, field: str, what: str, remedy: str) -> Mistake:
    mark = node.start_mark
    return Mistake(file, mark.line + 1, mark.column + 1, field, what, remedy)
