"""Entries of clouds.yaml, the file that OpenStack's own clients share, as settings; what the properties say wins."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from coterie.cpi.contract import CpiError, InvalidCall
from coterie.cpi.drivers.openstack.properties import LOGIN_TEXTS, Settings

_PLACES = ("clouds.yaml", "~/.config/openstack/clouds.yaml", "/etc/openstack/clouds.yaml")


def completed(settings: Settings) -> Settings:
    """The same settings, with what the named entry of clouds.yaml adds."""
    if settings.cloud is None:
        return settings
    path = _path(settings.clouds_file)
    entry = _merged(_entry(path, settings.cloud), _entry(path.with_name("secure.yaml"), settings.cloud))
    if not entry:
        raise InvalidCall(
            f"{path} has no cloud {settings.cloud!r}", remedy="name in properties.cloud one of its entries"
        )
    found = {key: value for key, value in _read(entry).items() if value is not None}
    unset = {one.name: one.default for one in fields(Settings)}
    return replace(settings, **{key: value for key, value in found.items() if getattr(settings, key) == unset[key]})


def _read(entry: Mapping[str, Any]) -> dict[str, Any]:
    auth = entry.get("auth") or {}
    regions = entry.get("regions") or (None,)
    told = {key: str(auth[key]) for key in LOGIN_TEXTS if auth.get(key) is not None}
    return {
        **told,
        "auth_url": auth.get("auth_url"),
        "project_name": told.get("project_name") or auth.get("tenant_name"),
        "region": entry.get("region_name") or regions[0],
        "interface": entry.get("interface"),
        "ca_cert": entry.get("cacert"),
        "insecure": True if entry.get("verify") is False else None,
    }


def _path(given: str | None) -> Path:
    places = [given] if given else [os.environ.get("OS_CLIENT_CONFIG_FILE"), *_PLACES]
    for place in places:
        if place and Path(place).expanduser().is_file():
            return Path(place).expanduser()
    raise CpiError(
        f"there is no clouds.yaml at {', '.join(str(one) for one in places if one)}",
        remedy="set properties.clouds_file to its path",
    )


def _entry(path: Path, name: str) -> Mapping[str, Any]:
    """What stands wrong in it is not repeated: it may be a secret."""
    if not path.is_file():
        return {}
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        document = YAML(typ="safe", pure=True).load(path.read_text("utf-8"))
    except (YAMLError, OSError, ValueError) as error:
        raise CpiError(f"{path} cannot be read", why=type(error).__name__, remedy="make it valid YAML") from None
    clouds = document.get("clouds") if isinstance(document, Mapping) else None
    entry = clouds.get(name) if isinstance(clouds, Mapping) else None
    return entry if isinstance(entry, Mapping) else {}


def _merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    auth = {**(first.get("auth") or {}), **(second.get("auth") or {})}
    return {**first, **second, **({"auth": auth} if auth else {})}
