"""The states by which lists can be filtered. What each means: `ledger/tables.py`.

Standard library only: the command line reads it too.
"""

from __future__ import annotations

from typing import Literal

NodeState = Literal["planned", "changing", "up", "failing", "dead", "missing", "stopped", "deleting"]
GroupState = Literal["intended", "live", "drifted", "missing", "deleting", "gone"]
ObjectState = Literal["intended", "live", "unknown", "kept", "deleting", "late", "gone"]
DiskState = Literal["intended", "live", "unknown", "kept", "deleting"]
TaskState = Literal["running", "cancelling", "done", "failed", "cancelled"]
StepState = Literal["queued", "ready", "running", "done", "failed", "skipped", "cancelled"]
