"""A request to the front and its reply, operations, and how the front is set up."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from coterie.sandbox.fronts.gcp.definition import Method
from coterie.sandbox.fronts.gcp.refusals import ApiError
from coterie.sandbox.fronts.gcp.shelf import Row

REGION = "lab1"
_LONGEST_WAIT_S = 120.0


@dataclass
class Settings:
    """How the front behaves; `coterie sandbox serve --set NAME=VALUE` sets them. `operation_s`: how long operations
    take. `wait_s`: how long `wait` blocks at most. `list_lag_s`: how late lists show what is new. `throttle`: whether
    calls over the rate are refused. `policies`: how many resource policies a region takes; `firewalls`: how many
    firewall rules the project takes."""

    operation_s: float = 0.0
    wait_s: float = _LONGEST_WAIT_S
    list_lag_s: float = 0.0
    address_prefix: str = "10.0.0.0/8"
    bucket: str = "stemcells"
    policies: int = 100
    firewalls: int = 100
    throttle: bool = False


@dataclass(slots=True)
class Operation:
    """`end`: what happens when it is due; `error`: how it fails then."""

    name: str
    scope: str
    type: str
    target: str
    target_id: str
    due: float
    end: Callable[[], object] | None = None
    error: ApiError | None = None
    started: float = field(default_factory=time.time)
    ended: float | None = None


@dataclass(slots=True)
class Trick:
    """Something that goes wrong once in a method such as instances.insert: fail, refuse, throttle, lose or late."""

    what: str
    method: str


@dataclass(slots=True)
class Call:
    """A request that the definition knows. `scope`: like zones/z1; `path`: of the resource that it is about."""

    method: Method
    names: Mapping[str, str]
    query: Mapping[str, str]
    body: Row
    path: str

    @property
    def scope(self) -> str:
        for word in ("zone", "region"):
            if word in self.names:
                return f"{word}s/{self.names[word]}"
        return "global"


def moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
