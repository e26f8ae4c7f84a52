"""What a Director process is given when it is started; plain data that goes through a pipe."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from tests.kill.points import Point
from tests.kill.scenario import Phase, cloud_config


@dataclass(frozen=True, slots=True)
class Order:
    """`role`: what it does, by name (see `nursery`). `since`: the newest task when its phase began.

    `action`: what happens at the target: `kill` and `stop` are signals, `cancel` cancels the task that is running.
    `options`: for the conductor. `outages`: the database fails at every use that a label makes of it.
    """

    role: str
    url: str
    folder: str
    phase: Phase
    cloud_config: str = field(default_factory=cloud_config)
    since: int = 0
    run: int = 0
    target: Point | None = None
    action: Literal["kill", "stop", "cancel"] = "kill"
    options: dict[str, Any] = field(default_factory=dict)
    outages: bool = False

    @property
    def trace(self) -> Path:
        return Path(self.folder) / f"{self.role}-{self.run}.trace"

    @property
    def result(self) -> Path:
        return Path(self.folder) / f"{self.role}-{self.run}.json"

    @property
    def log(self) -> Path:
        return Path(self.folder) / f"{self.role}-{self.run}.log"

    @property
    def struck(self) -> Path:
        """The outages that took place, one a line."""
        return Path(self.folder) / f"{self.role}-{self.run}.outages"

    def left(self) -> list[str]:
        """What the Director returned at its end: changes that another plan would make."""
        found: list[str] = json.loads(self.result.read_text())["left"]
        return found

    def wire(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def of_wire(value: dict[str, Any]) -> Order:
        target = value["target"]
        parts = {"phase": Phase(**value["phase"]), "target": Point(**target) if target else None}
        return Order(**{**value, **parts})
