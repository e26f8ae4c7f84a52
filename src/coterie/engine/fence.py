"""The second layer of the fence: no call leaves for a cloud once our lease may have ended, nor for a cloud that is not
the one that our objects are in."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from coterie.clock import running_on
from coterie.cpi.contract import Capabilities, CheckItem
from coterie.engine.compute_slot import SLOT, SlowCalls
from coterie.errors import CoterieError, LeaseLost
from coterie.ledger.errors import is_outage
from coterie.redact import Redactor, hide_in_error
from coterie.telemetry import trace

_ENV = 5  # its place among the arguments of create_vm
_HARMLESS = frozenset({"info", "ping", "check", "identity", "calculate_vm_cloud_properties"})  # of any account
Observer = Callable[[str, float, BaseException | None], None]


class Lease:
    """Our right to work, by `running_on`; renewed by each accepted heartbeat.

    The clock is read *before* the heartbeat is sent, so that the lease here ends no later than in the database.
    """

    def __init__(self, ttl_s: float, clock: Callable[[], float] = running_on) -> None:
        self._ttl_s = ttl_s
        self._clock = clock
        self._until = clock() + ttl_s
        self._lost = False

    def moment(self) -> float:
        return self._clock()

    def renew(self, since: float) -> None:
        self._until = since + self._ttl_s

    def lose(self) -> None:
        self._lost = True

    @property
    def held(self) -> bool:
        return not self._lost and self._clock() < self._until

    @property
    def ended_for(self) -> float:
        """Seconds since it ran out; 0 while it holds."""
        return max(0.0, self._clock() - self._until)

    def require(self) -> None:
        if not self.held:
            raise LeaseLost("this process no longer holds its lease", why="its heartbeat is too old or was refused")


class FencedCpi:
    """A driver behind the fence; every call is checked, timed and reported to the observer. What leaves as a text has
    no value of `secrets`, the properties of the cloud, in it."""

    def __init__(
        self,
        cpi: Any,
        lease: Lease,
        observe: Observer | None = None,
        about: Mapping[str, str] | None = None,
        secrets: Mapping[str, Any] | None = None,
        require_pin: Callable[[], None] = lambda: None,
    ) -> None:
        self._cpi = cpi
        self._require_pin = require_pin
        self._lease = lease
        self._observe = observe
        self._about = dict(about or {})
        self._secrets = dict(secrets or {})
        self._slow_calls = SlowCalls()

    @cached_property
    def capabilities(self) -> Callable[[], Capabilities]:
        """Static facts, asked for once."""
        known: Capabilities = self._cpi.capabilities()
        return lambda: known

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._cpi, name)
        if not callable(method):
            return method
        fenced = self._fence(name, method)
        self.__dict__[name] = fenced
        return fenced

    def _fence(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            self._lease.require()
            if name not in _HARMLESS:
                self._require_pin()
            if self._slow_calls.is_slow(name):
                SLOT.release()
            started = time.monotonic()
            problem: BaseException | None = None
            try:
                with trace.span(f"cpi {name}", self._about):
                    return self._call(name, method, arguments, keywords)
            except BaseException as error:
                problem = error
                raise
            finally:
                took_s = time.monotonic() - started
                self._slow_calls.note(name, took_s)
                if self._observe is not None:
                    self._observe(name, took_s, problem)

        return call

    def _call(self, name: str, method: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        try:
            answer = method(*arguments, **keywords)
        except CoterieError as error:
            if error.__cause__ is not None and is_outage(error.__cause__):
                raise error.__cause__ from None  # the driver uses our database: this says nothing of the cloud
            env = arguments[_ENV] if name == "create_vm" and len(arguments) > _ENV else keywords.get("env")
            hide_in_error(error, self._redactor(env))
            raise
        return [self._hide_in_item(item) for item in answer] if name == "check" else answer

    def _hide_in_item(self, item: CheckItem) -> CheckItem:
        redactor = self._redactor(None)
        return replace(item, detail=redactor.hide(item.detail), remedy=redactor.hide(item.remedy))

    def _redactor(self, env: Any) -> Redactor:
        return Redactor(secret=[self._secrets, env], public=self._about.values())
