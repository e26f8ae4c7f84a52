"""Keeps secrets out of every answer: values whose key looks secret, and credentials inside URLs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from coterie.errors import InvalidDocument
from coterie.settings import REDACTED, hide_credentials

_SECRET = re.compile(
    r"pass(word|wd|phrase|code)?$|pwd$|secret|token$|credential|private_?key|(access|api|account|shared|ssh)_?key"
    r"|connection_?string|authorization|cookie|user_?data$",  # user data holds the secrets of a machine
    re.IGNORECASE,
)
_HARMLESS = re.compile(r"public|(^|_)(name|path|file|type)$", re.IGNORECASE)


def redact(value: Any) -> Any:
    """The same JSON value without secrets."""
    if isinstance(value, Mapping):
        return {key: _hide(one) if looks_secret(str(key)) else redact(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [redact(one) for one in value]
    return hide_credentials(value)


def looks_secret(key: str) -> bool:
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key).replace("-", "_")
    return bool(_SECRET.search(plain)) and not _HARMLESS.search(plain)


def _hide(value: Any) -> Any:
    # None and flags are no secrets, and it helps to see that a value is unset.
    return value if value is None or isinstance(value, bool) else REDACTED


def hide_secrets(text: str) -> str:
    """A YAML text with the values of secret-looking keys replaced; all else, comments too, stays as it was given."""
    for start, end in sorted(_secret_spans(text), reverse=True):
        tail = "\n" if text[start:end].endswith("\n") else ""
        text = f'{text[:start]}"{REDACTED}"{tail}{text[end:]}'
    return text


def refuse_redacted(text: str, file: str) -> None:
    """A text whose secrets were hidden must not replace the one that has them."""
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


def _secret_spans(text: str) -> set[tuple[int, int]]:
    try:
        return set(_find_secrets(YAML(typ="safe", pure=True).compose(text), set()))
    except (YAMLError, RecursionError):
        # A text that is not YAML was never accepted; hide all of it.
        return {(0, len(text))}


def _find_secrets(node: Node | None, seen: set[int]) -> Iterator[tuple[int, int]]:
    if node is None or id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, SequenceNode):
        for item in node.value:
            yield from _find_secrets(item, seen)
    if isinstance(node, MappingNode):
        for key, value in node.value:
            if isinstance(key, ScalarNode) and looks_secret(str(key.value)):
                yield _span(value)
            else:
                yield from _find_secrets(value, seen)


def _span(node: Any) -> tuple[int, int]:
    return node.start_mark.index, node.end_mark.index
