"""Answers requests: opens the configuration, the drivers and the local ledger on first use, and keeps them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from coterie.bosh.config import Config, load
from coterie.bosh.core.call_context import Caller, override_config, read_caller
from coterie.bosh.recording.marks import new_mark
from coterie.bosh.recording.recording_cpi import RecordingCpi
from coterie.cpi.contract import EVERY_SOURCE, Cpi, Json, OutcomeUnknown, Runtime
from coterie.cpi.load import forms_of, open_cloud
from coterie.cpi.wire import METHODS, Method, answer
from coterie.cpi.wire.envelope import failure
from coterie.cpi.wire.faults import wire_error
from coterie.cpi.wire.shapes import Mismatch
from coterie.cpi.wire.strict import loads
from coterie.redact import Redactor

if TYPE_CHECKING:
    from coterie.bosh.recording.local_ledger import LocalLedger


_OPEN_DRIVERS = 64
_FAILURE = b'{"result":null,"error":{'


class CpiService:
    """`core`: this process outlives the call, so it can serve the registry to machines."""

    def __init__(self, config: str, *, core: bool = False) -> None:
        self._path = config
        self._config: Config | None = None
        self._core = core
        self._ledgers: dict[str, LocalLedger] = {}
        self._drivers: dict[str, Cpi] = {}
        self._lock = threading.RLock()

    def answer(self, request: bytes, deliver: Callable[[bytes], object] | None = None) -> bytes:
        """One envelope, without the secrets of the request and of the configuration. `deliver` hands it to the caller;
        what it names counts as known to the caller once that returns."""
        envelope, confirm = self.answer_unconfirmed(request)
        if deliver:
            deliver(envelope)
        if confirm:
            confirm()
        return envelope

    def answer_unconfirmed(self, request: bytes) -> tuple[bytes, Callable[[], None] | None]:
        """The envelope, and what is to be called when the caller has it; None where nothing was created, or where an
        error tells the caller no id of it."""
        opened: list[RecordingCpi] = []

        def open_cpi(context: Json) -> Cpi:
            opened.append(self._open(context))
            return cast(Cpi, opened[-1])

        envelope = answer(request, open_cpi, new_mark, _cleanup)
        created = [] if envelope.startswith(_FAILURE) else [cpi for cpi in opened if cpi.context.created]
        return self._redact(envelope), (lambda: _confirm(created)) if created else None

    @property
    def config(self) -> Config:
        with self._lock:
            if self._config is None:
                self._config = load(self._path)
            return self._config

    def open_cpi(self, context: Json) -> Cpi:
        return cast(Cpi, self._open(context))

    def _open(self, context: Json) -> RecordingCpi:
        config, caller = override_config(self.config, context), read_caller(context)
        local_ledger = self.local_ledger(config)
        driver = self._driver(config, caller, local_ledger)
        return RecordingCpi(driver, local_ledger, config, caller, core=self._core)

    def local_ledger(self, config: Config) -> LocalLedger:
        from coterie.bosh.recording.local_ledger import LocalLedger

        with self._lock:
            if config.ledger not in self._ledgers:
                self._ledgers[config.ledger] = LocalLedger(config.ledger, config.lease_s)
            return self._ledgers[config.ledger]

    def close(self) -> None:
        for local_ledger in self._ledgers.values():
            local_ledger.close()

    def _driver(self, config: Config, caller: Caller, local_ledger: LocalLedger) -> Cpi:
        key = json.dumps(
            [config.driver, config.cloud, config.properties, caller.director_uuid], sort_keys=True, default=str
        )
        with self._lock:
            if key not in self._drivers:
                if len(self._drivers) >= _OPEN_DRIVERS:
                    self._drivers.clear()
                runtime = Runtime(
                    caller.director_uuid,
                    local_ledger.coordinator,
                    exec_paths=config.exec_paths,
                    credential_sources=(EVERY_SOURCE,),  # its configuration and its callers are this machine's own
                    parts=local_ledger.part_records(config.cloud),
                )
                self._drivers[key] = open_cloud(config.driver, config.cloud, _driver_properties(config), runtime)
            return self._drivers[key]

    def _redact(self, envelope: bytes) -> bytes:
        if not envelope.startswith(_FAILURE) or self._config is None:
            return envelope
        document = json.loads(envelope)
        error, hidden = document["error"], Redactor(_secrets(self._config)).hide_all(document["error"])
        hidden["type"] = error["type"]
        if "coterie" in error:
            hidden["coterie"]["code"] = error["coterie"]["code"]
        return json.dumps({**document, "error": hidden}).encode()


def _confirm(created: list[RecordingCpi]) -> None:
    """The answer is out, so nothing may fail any more: without the note, what was created counts as undelivered."""
    with suppress(Exception):
        for cpi in created:
            cpi.confirm_delivery()


def _driver_properties(config: Config) -> Json:
    """With our publishing server, for a driver whose properties include where to publish images."""
    server, form = config.publish_server, forms_of(config.driver).get("cloud")
    if server is None or form is None:
        return config.properties
    offered = {"publish_url": server.url, "publish_user": server.user, "publish_password": server.password}
    return {**{name: value for name, value in offered.items() if name in form.readers}, **config.properties}


def _secrets(config: Config) -> list[Any]:
    server, registry = config.publish_server, config.registry
    passwords = [{"password": one.password} for one in (server, registry) if one]
    return [config.properties, *config.clouds.values(), *passwords, {"url": config.ledger}]


def _cleanup(cpi: Cpi, director_uuid: str, known: Any, options: Json) -> Json:
    from coterie.bosh.recording.cleanup import cleanup

    return cleanup(cast(RecordingCpi, cpi).context, director_uuid, known, options)


def refuse_repeat(request: bytes) -> bytes | None:
    """An error envelope, if doing the request again could create a second object; None if it may be repeated.

    For a request over which a core process died, so that nothing says how far it came.
    """
    try:
        document = loads(request)
    except Mismatch:
        return None
    method = METHODS.get(str(document.get("method"))) if isinstance(document, dict) else None
    if method is None or _repeatable(method):
        return None
    lost = OutcomeUnknown(
        f"{method.name} may or may not have been done",
        why="the core process died while it worked on it",
        remedy="call again; what the lost call created is found by its mark and removed by `coterie-cpi cleanup`",
        retryable=False,
    )
    return failure(wire_error(lost, method.name), "")


def _repeatable(method: Method[object]) -> bool:
    # A second create_vm finds the first by its agent_id; the other marked creates would create a second object.
    return method.marks is None or method.name == "create_vm"
