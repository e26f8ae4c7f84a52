"""Saved plans: what was wished, and the plan that was looked at; applied only if planning still gives the same."""

from __future__ import annotations

import json
from typing import Any

from coterie.cli.frame.documents import read, write_private
from coterie.errors import UsageError

_FORM = 1


def save(path: str, wish: dict[str, Any], plan: dict[str, Any]) -> None:
    # The manifest inside may hold secrets.
    write_private(path, json.dumps({"coterie_plan": _FORM, "wish": wish, "plan": plan}, indent=2) + "\n")


def load(path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The wish and the plan."""
    try:
        saved = json.loads(read(path))
        if saved["coterie_plan"] == _FORM:
            return dict(saved["wish"]), dict(saved["plan"])
    except (ValueError, KeyError, TypeError) as error:
        raise _no_plan(path, str(error)) from error
    raise _no_plan(path, f"it has form {saved['coterie_plan']}, this release reads {_FORM}")


def _no_plan(path: str, why: str) -> UsageError:
    return UsageError(f"{path} is no saved plan", why=why, remedy="make one: coterie plan MANIFEST --save FILE")
