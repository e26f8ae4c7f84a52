"""Keeps secrets out of every answer: values whose key looks secret, and credentials inside URLs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from coterie.settings import REDACTED, veiled

_SECRET = re.compile(
    r"pass(word|wd|phrase|code)?$|pwd$|secret|token$|credential|private_?key|(access|api|account|shared|ssh)_?key"
    r"|connection_?string|authorization|cookie|user_?data$",  # user data is made of what a machine must not tell
    re.IGNORECASE,
)
_HARMLESS = re.compile(r"public|(^|_)(name|path|file|type)$", re.IGNORECASE)


def redact(value: Any) -> Any:
    """The same JSON value without secrets."""
    if isinstance(value, Mapping):
        return {key: _hidden(one) if looks_secret(str(key)) else redact(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [redact(one) for one in value]
    return veiled(value)


def looks_secret(key: str) -> bool:
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key).replace("-", "_")
    return bool(_SECRET.search(plain)) and not _HARMLESS.search(plain)


def _hidden(value: Any) -> Any:
    # None and flags are no secrets, and seeing that one is unset helps.
    return value if value is None or isinstance(value, bool) else REDACTED
