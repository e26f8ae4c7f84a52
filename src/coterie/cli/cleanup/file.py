"""Saved plans of cleanups: the plan as it was shown, sealed with its hash, so that no edited one is applied."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from coterie.cli.frame.documents import read, write_private
from coterie.errors import StalePlan, UsageError

_FORM = 1


def save(path: str, plan: dict[str, Any]) -> None:
    sealed = {"coterie_cleanup": _FORM, "sha256": _seal(plan), "plan": plan}
    write_private(path, json.dumps(sealed, indent=2) + "\n")


def load(path: str) -> dict[str, Any]:
    try:
        saved = json.loads(read(path))
        form, seal, plan = saved["coterie_cleanup"], saved["sha256"], dict(saved["plan"])
    except (ValueError, KeyError, TypeError) as error:
        raise _no_plan(path, str(error)) from error
    if form != _FORM:
        raise _no_plan(path, f"it has form {form}, this release reads {_FORM}")
    if seal != _seal(plan):
        raise StalePlan(
            f"{path} was changed after it was saved",
            why="its hash is not that of its content",
            remedy="make a new one: coterie cleanup --save FILE; to leave objects out, use its filters",
        )
    return plan


def _seal(plan: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()


def _no_plan(path: str, why: str) -> UsageError:
    return UsageError(f"{path} is no saved cleanup", why=why, remedy="make one: coterie cleanup --save FILE")
