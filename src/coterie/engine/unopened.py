"""Stands in for a driver that could not be opened, so that a step which needs it fails like any other: by its flow."""

from __future__ import annotations

from typing import Any


class Unopened:
    """Whatever is asked of it ends in the error of the opening. A step that asks nothing goes on."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        raise self._error
