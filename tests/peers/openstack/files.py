"""Files written whole or not at all, and left alone when they already say the same."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write(path: str | Path, text: str, mode: int = 0o600) -> None:
    target = Path(path)
    if target.exists() and target.read_text() == text:
        return
    fresh = target.with_name(f"{target.name}.new")
    fresh.write_text(text)
    fresh.chmod(mode)
    fresh.rename(target)


def write_ini(path: str, sections: Mapping[str, Mapping[str, Any]]) -> None:
    blocks = [
        [f"[{name}]", *(f"{key} = {value}" for key, value in options.items()), ""] for name, options in sections.items()
    ]
    write(path, "\n".join(line for block in blocks for line in block))
