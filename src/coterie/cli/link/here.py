"""Facts about this machine for a doctor's report: versions, files, the end of the log. Reads only."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from coterie import __version__
from coterie.settings import veiled

_PACKAGES = ("click", "rich", "ruamel.yaml", "pydantic", "sqlalchemy", "alembic", "psycopg", "fastapi", "uvicorn")
_LOG_LINES = 50


def versions() -> dict[str, str]:
    found = {"coterie": __version__, "python": sys.version.split()[0], "platform": platform.platform()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "missing"
    return found


def files(folder: Path) -> list[dict[str, Any]]:
    try:
        return [{"name": one.name, "size": one.lstat().st_size} for one in sorted(folder.iterdir())]
    except OSError:
        return []


def tail(log: Path) -> list[str]:
    try:
        with log.open("rb") as source:
            source.seek(max(0, log.stat().st_size - 64 * 1024))
            lines = source.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    return [veiled(line) for line in lines[-_LOG_LINES:]]
