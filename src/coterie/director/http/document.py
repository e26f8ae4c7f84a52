"""A YAML text as it may be shown: secret values replaced in place, everything else (comments too) as it was given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from coterie.director.http.redact import looks_secret
from coterie.errors import InvalidDocument
from coterie.settings import REDACTED


def shown(text: str) -> str:
    """`text` without the values of keys that look secret."""
    for start, end in sorted(_spans(text), reverse=True):
        tail = "\n" if text[start:end].endswith("\n") else ""
        text = f'{text[:start]}"{REDACTED}"{tail}{text[end:]}'
    return text


def refuse_redacted(text: str, file: str) -> None:
    """A text that was shown with its secrets hidden must not replace the one that has them."""
    lines = [number for number, line in enumerate(text.splitlines(), 1) if f'"{REDACTED}"' in line]
    if not lines:
        return
    mistakes = [
        {"file": file, "line": n, "column": 1, "field": "", "what": "a hidden value", "remedy": "put the real value in"}
        for n in lines
    ]
    raise InvalidDocument(
        f"{file}:{lines[0]}: a value here was hidden when the document was read",
        why=f"{REDACTED} is what is shown instead of a secret",
        remedy="put the real value in",
        details={"mistakes": mistakes},
    )


def _spans(text: str) -> set[tuple[int, int]]:
    try:
        return set(_secrets(YAML(typ="safe", pure=True).compose(text), set()))
    except (YAMLError, RecursionError):
        # What cannot be read was never accepted; of such a text nothing is shown.
        return {(0, len(text))}


def _secrets(node: Node | None, seen: set[int]) -> Iterator[tuple[int, int]]:
    if node is None or id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, SequenceNode):
        for item in node.value:
            yield from _secrets(item, seen)
    if isinstance(node, MappingNode):
        for key, value in node.value:
            if isinstance(key, ScalarNode) and looks_secret(str(key.value)):
                yield _span(value)
            else:
                yield from _secrets(value, seen)


def _span(node: Any) -> tuple[int, int]:
    return node.start_mark.index, node.end_mark.index
