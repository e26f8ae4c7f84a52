"""Finds the secrets of a request by their keys, and keeps their values out of every text that leaves us."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

HIDDEN = "<redacted>"
_SECRET_KEY = re.compile(
    r"pass(word|wd|phrase|code)?(_|$)|secret|token|credential|private|pwd|access_?key|api_?key|(^|_)key$"
    r"|connection_?string|authorization|cookie|signature"
)
_NOT_SECRET = re.compile(r"public|(^|_)(name|path|file|id|type|urls?|source|version|algorithm|ttl|length|expir\w*)$")
_IN_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s@:]*:([^/\s@]+)@", re.IGNORECASE)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SHORT = 4  # a shorter secret would black out half of every sentence: only where it stands as a word


class Redactor:
    """Made from whole documents (a context, arguments); then every text goes through `hide`."""

    def __init__(self, *documents: Any) -> None:
        found = {form for document in documents for value in secrets_in(document) for form in _forms(value)}
        # The longest first: a secret may hold another one.
        patterns = [_pattern(value) for value in sorted(found, key=lambda value: (-len(value), value))]
        self._pattern = re.compile("|".join(patterns)) if patterns else None

    def hide(self, text: str) -> str:
        return self._pattern.sub(HIDDEN, text) if self._pattern else text

    def hide_all(self, value: Any) -> Any:
        """The same document, its strings without secrets."""
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, Mapping):
            return {key: self.hide_all(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.hide_all(one) for one in value]
        return value


def secrets_in(document: Any, secret: bool = False) -> Iterator[str]:
    """Values below keys that look secret, passwords inside URLs, and both inside JSON that travels as text."""
    if isinstance(document, Mapping):
        for key, value in document.items():
            yield from secrets_in(value, secret or looks_secret(str(key)))
    elif isinstance(document, list | tuple):
        for value in document:
            yield from secrets_in(value, secret)
    elif isinstance(document, str):
        yield from _IN_URL.findall(document)
        yield from secrets_in(_inner(document))
        if secret:
            yield document
    elif secret and isinstance(document, int | float) and not isinstance(document, bool):
        yield str(document)


def looks_secret(key: str) -> bool:
    plain = _CAMEL.sub("_", key).replace("-", "_").lower()
    return bool(_SECRET_KEY.search(plain)) and not _NOT_SECRET.search(plain)


def _inner(text: str) -> Any:
    if not text.lstrip().startswith("{"):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _forms(value: str) -> Iterator[str]:
    """A secret may be quoted by what passes it on: in JSON, in a URL, or line by line."""
    from urllib.parse import quote, unquote  # only a failing call pays for it

    lines = [line.strip() for line in value.splitlines()] if "\n" in value else []
    for part in (value, *(line for line in lines if len(line) > _SHORT)):
        forms = (part, repr(part)[1:-1], json.dumps(part)[1:-1], quote(part, safe=""), unquote(part))
        yield from (form for form in forms if form.strip())


def _pattern(value: str) -> str:
    escaped = re.escape(value)
    return rf"(?<!\w){escaped}(?!\w)" if len(value) <= _SHORT else escaped
