"""What a Director process is told when it is started; plain data that goes through a pipe."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.kill.points import Point


@dataclass(frozen=True, slots=True)
class Order:
    """`role`: what it does, by name (see `nursery`). `since`: the newest task when its phase began."""

    role: str
    url: str
    folder: str
    cloud_config: str
    phase: str = ""
    since: int = 0
    run: int = 0
    target: Point | None = None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def trace(self) -> Path:
        return Path(self.folder) / f"{self.role}-{self.run}.trace"

    @property
    def result(self) -> Path:
        return Path(self.folder) / f"{self.role}-{self.run}.json"

    @property
    def log(self) -> Path:
        return Path(self.folder) / f"{self.role}-{self.run}.log"

    def left(self) -> list[str]:
        """What the Director told at its end: changes that another plan would make."""
        found: list[str] = json.loads(self.result.read_text())["left"]
        return found

    def wire(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def of_wire(value: dict[str, Any]) -> Order:
        target = value["target"]
        return Order(**{**value, "target": Point(**target) if target else None})
