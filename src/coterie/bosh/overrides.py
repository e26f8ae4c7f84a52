"""What one request says about its cloud: properties in its context override the file's, and may mean another cloud."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any

from coterie.bosh.config import Config
from coterie.cpi.contract import InvalidCall

# Keys of a context that are no properties of a cpi-config entry.
_CALLERS = ("director_uuid", "request_id", "vm", "coterie", "cloud", "driver")
# What tells one cloud from another. A new password or time-out does not make it another cloud.
_IDENTITY = (
    *("endpoint", "url", "auth_url", "host", "account", "state", "region", "project", "project_id", "tenant"),
    *("domain", "datacenter", "subscription_id", "resource_group", "path"),
)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, and for which stemcell."""

    director_uuid: str
    stemcell_version: int | None


def caller(context: dict[str, Any]) -> Caller:
    vm = context.get("vm")
    stemcell = vm.get("stemcell") if isinstance(vm, dict) else None
    version = stemcell.get("api_version") if isinstance(stemcell, dict) else None
    plain = isinstance(version, int) and not isinstance(version, bool)
    return Caller(str(context.get("director_uuid") or ""), version if plain else None)


def with_context(config: Config, context: dict[str, Any]) -> Config:
    """The configuration for this request."""
    given = {key: value for key, value in context.items() if key not in _CALLERS}
    driver, cloud = context.get("driver", config.driver), context.get("cloud")
    for name, value in (("driver", driver), ("cloud", cloud)):
        if value is not None and (not isinstance(value, str) or not value):
            raise InvalidCall(f"`context.{name}` must be a non-empty text", remedy="correct it in the cpi-config")
    if not given and cloud is None and driver == config.driver:
        return config
    # Another driver knows nothing of the properties in the file.
    properties = {**config.properties, **given} if driver == config.driver else given
    named = cloud or _name(config, driver, given)
    return replace(config, driver=driver, cloud=named, properties=properties)


def _name(config: Config, driver: str, given: dict[str, Any]) -> str:
    stem = config.cloud if driver == config.driver else driver
    told = {key: given[key] for key in _IDENTITY if key in given and given[key] != config.properties.get(key)}
    if not told:
        return stem
    return f"{stem}-{hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:8]}"
