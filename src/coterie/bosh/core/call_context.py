"""What one call works with: the driver, the local ledger, the caller, and the configuration for its request."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from coterie.bosh.config import Config
from coterie.bosh.recording.local_ledger import LocalLedger
from coterie.bosh.recording.marks import director_id
from coterie.cpi.contract import Cpi, InvalidCall, Kind, Mark
from coterie.slotted import dataclass, field, replace

if TYPE_CHECKING:
    from coterie.ledger.file import FileLedger
    from coterie.ledger.store import Ledger

# Keys of a context that are no properties of a cpi-config entry.
_CALLERS = ("director_uuid", "request_id", "vm", "coterie", "cloud", "driver")
# What tells one cloud from another. A new password or time-out does not make it another cloud.
_IDENTITY = (
    *("endpoint", "url", "auth_url", "host", "account", "state", "region", "project", "project_id", "tenant"),
    *("domain", "datacenter", "subscription_id", "resource_group", "path"),
)


@dataclass(frozen=True, slots=True)
class Caller:
    """The Director that calls, and the API version of the stemcell that the call is about."""

    director_uuid: str
    stemcell_version: int | None


def read_caller(context: dict[str, Any]) -> Caller:
    vm = context.get("vm")
    stemcell = vm.get("stemcell") if isinstance(vm, dict) else None
    version = stemcell.get("api_version") if isinstance(stemcell, dict) else None
    plain = isinstance(version, int) and not isinstance(version, bool)
    return Caller(director_id(context.get("director_uuid")), version if plain else None)


def new_holder() -> str:
    """The name of one call in leases; no two calls share one, not even in one process."""
    return f"{os.getpid()}-{secrets.token_hex(8)}"


@dataclass(frozen=True, slots=True)
class CallContext:
    """`core`: this process outlives the call. `holder`: the name of this call in leases. `created`: what the answer of
    this call names, for the record that the caller received it."""

    driver: Cpi
    local_ledger: LocalLedger
    config: Config
    caller: Caller
    core: bool = False
    holder: str = field(default_factory=new_holder)
    created: list[tuple[Kind, str]] = field(default_factory=list)

    @property
    def cloud(self) -> str:
        return self.config.cloud

    @property
    def director(self) -> str:
        return self.caller.director_uuid

    @property
    def ledger(self) -> FileLedger | Ledger:
        return self.local_ledger.ledger

    @property
    def full_ledger(self) -> Ledger:
        return self.local_ledger.full_ledger

    @property
    def lease_s(self) -> float:
        return self.local_ledger.lease_s

    def mark(self, intent: str) -> Mark:
        return Mark(self.director, intent)

    def claim_key(self, kind: Kind, intent: str, agent_id: str | None = None) -> str:
        """The key under which the work on this object is claimed; machines are claimed by agent, not by intent."""
        if kind == "vm" and agent_id:
            return f"vm/{self.cloud}/{self.director}/{agent_id}"
        return f"intent/{intent}"

    @contextmanager
    def keep_claim(self, key: str) -> Iterator[None]:
        """Renew the claim on `key`, which was taken already, until the block ends; then release it."""
        from coterie.ledger.work import leases

        def renew() -> None:
            with self.ledger.write() as tx:
                leases.renew(tx, key, self.holder, self.lease_s)

        try:
            with keep_renewing(self.lease_s, renew, self.ledger.failures):
                yield
        finally:
            with self.ledger.write() as tx:
                leases.release(tx, key, self.holder)


def override_config(config: Config, context: dict[str, Any]) -> Config:
    """The configuration for this request: properties in its context override the file's, and may mean another cloud."""
    given = {key: value for key, value in context.items() if key not in _CALLERS}
    driver, cloud = context.get("driver", config.driver), context.get("cloud")
    for name, value in (("driver", driver), ("cloud", cloud)):
        if value is not None and (not isinstance(value, str) or not value):
            raise InvalidCall(f"`context.{name}` must be a non-empty text", remedy="correct it in the cpi-config")
    if not given and cloud is None and driver == config.driver:
        return config
    # The properties in the file are meant for the driver that it names.
    properties = {**config.properties, **given} if driver == config.driver else given
    named = cloud or _cloud_name(config, driver, given)
    return replace(config, driver=driver, cloud=named, properties=properties)


def _cloud_name(config: Config, driver: str, given: dict[str, Any]) -> str:
    stem = config.cloud if driver == config.driver else driver
    different = {key: given[key] for key in _IDENTITY if key in given and given[key] != config.properties.get(key)}
    if not different:
        return stem
    return f"{stem}-{hashlib.sha256(json.dumps(different, sort_keys=True).encode()).hexdigest()[:8]}"


@contextmanager
def keep_renewing(lease_s: float, renew: Callable[[], None], failures: type[Exception]) -> Iterator[None]:
    """Call `renew` three times per lease until the block ends. A process that dies stops, and its lease ends.

    `failures`: of the database, which may be away for a moment.
    """
    done = threading.Event()

    def keep() -> None:
        while not done.wait(lease_s / 3):
            try:
                renew()
            except failures:
                continue  # the next round may still be in time

    keeper = threading.Thread(target=keep, daemon=True)
    keeper.start()
    try:
        yield
    finally:
        done.set()
        keeper.join()
