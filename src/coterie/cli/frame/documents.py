"""Documents that the user names on the command line: read whole, bounded, with an error that names the file."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from coterie.errors import UsageError

_LARGEST = 4 * 2**20


def read(path: str) -> str:
    """The text of a file, or of standard input for `-`."""
    try:
        raw = sys.stdin.buffer.read(_LARGEST + 1) if path == "-" else _bytes(Path(path))
        return raw.decode("utf-8")
    except OSError as error:
        raise UsageError(f"cannot read {path}", why=error.strerror or str(error), remedy="check its name") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8", why=str(error), remedy="save it as UTF-8") from error


def write_private(path: str, text: str) -> None:
    """For what may hold secrets: readable by its owner only."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            os.fchmod(handle, 0o600)
            out.write(text)
    except OSError as error:
        raise UsageError(f"cannot write {path}", why=error.strerror or str(error), remedy="check its name") from error


def _bytes(path: Path) -> bytes:
    with path.open("rb") as source:
        raw = source.read(_LARGEST + 1)
    if len(raw) > _LARGEST:
        raise UsageError(f"{path} is larger than {_LARGEST >> 20} MiB", remedy="is it the right file?")
    return raw
