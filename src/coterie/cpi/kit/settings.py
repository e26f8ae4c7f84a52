"""Properties that every cloud behind HTTP has, by the same names: how it is reached, and how patiently."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.cpi.kit.http import HttpOptions
from coterie.slotted import dataclass, field


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """The first fields of a driver's settings, which may give some of them another default. `state_timeout`: how long
    an operation of the cloud may take; `poll_s`: between two looks at it; `settle_s`: how late a lost object may turn
    up; `keep`: names of what cleanup never deletes; `agent`: for the settings of agents."""

    endpoint: str | None = None
    ca_cert: str | None = None
    proxy_url: str | None = field(default=None, repr=False)
    connect_timeout: float = 10.0
    request_timeout: float = 60.0
    retries: int = 5
    state_timeout: float = 900.0
    poll_s: float = 2.0
    settle_s: float = 60.0
    max_parallel_calls: int = 16
    keep: tuple[str, ...] = ()
    agent: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def http_options(self) -> HttpOptions:
        return HttpOptions(self.connect_timeout, self.request_timeout, self.ca_cert, False, self.proxy_url)
