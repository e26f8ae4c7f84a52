"""Looks every setting up in its four places, and remembers the one that it was found in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coterie.errors import UsageError
from coterie.redact import REDACTED, hide_credentials
from coterie.settings.known import Setting, all_settings, xdg


@dataclass(frozen=True, slots=True)
class Found:
    """One value and its origin: "default", "environment COTERIE_…", "file …", "flag --…"."""

    setting: Setting
    value: Any
    origin: str

    @property
    def shown(self) -> Any:
        if self.setting.secret and self.value is not None:
            return REDACTED
        value = str(self.value) if isinstance(self.value, Path) else self.value
        return hide_credentials(value) if isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class Settings:
    found: Mapping[str, Found]
    files: tuple[tuple[Path, bool], ...]  # looked at, and whether it is there

    def __getitem__(self, name: str) -> Any:
        return self.found[name].value

    @property
    def state(self) -> Path:
        folder: Path = self["state"]
        return folder

    @property
    def shared_state(self) -> Path:
        """The state folder of processes that are given none: one for all processes of a user."""
        folder: Path = self.found["state"].setting.default
        return folder

    def origin(self, name: str) -> str:
        return self.found[name].origin

    def facts(self) -> dict[str, Any]:
        """The JSON form, with secrets veiled."""
        return {
            "settings": [
                {
                    "name": name,
                    "value": found.shown,
                    "origin": found.origin,
                    "variable": found.setting.variable,
                    "help": found.setting.help,
                }
                for name, found in self.found.items()
            ],
            "files": [{"path": str(path), "found": there} for path, there in self.files],
        }


def load(flags: Mapping[str, Any] | None = None, env: Mapping[str, str] | None = None) -> Settings:
    """Read all settings. A value that makes no sense is refused with the place that it stands in."""
    env = os.environ if env is None else env
    file = config_file(env)
    there = file.is_file()
    written = _read_file(file) if there else {}
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    found = {s.name: _find(s, given, env, written, file) for s in all_settings(env)}
    return Settings(found, ((file, there),))


def config_file(env: Mapping[str, str]) -> Path:
    if env.get("COTERIE_CONFIG"):
        return Path(env["COTERIE_CONFIG"]).expanduser()
    return xdg(env, "XDG_CONFIG_HOME", ".config") / "coterie" / "config.toml"


def _read_file(file: Path) -> dict[str, Any]:
    import tomllib  # imported only if there is a file

    try:
        written = tomllib.loads(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(
            f"cannot read the settings file {file}", why=str(error), remedy="mend it, or point COTERIE_CONFIG elsewhere"
        ) from error
    known = {s.name for s in all_settings({})}
    unknown = sorted(set(written) - known)
    if unknown:
        raise UsageError(
            f"{file}: unknown setting {unknown[0]!r}", remedy=f"remove it, or use one of: {', '.join(sorted(known))}"
        )
    return written


def _find(
    setting: Setting, flags: Mapping[str, Any], env: Mapping[str, str], written: Mapping[str, Any], file: Path
) -> Found:
    if setting.name in flags:
        return _check(setting, flags[setting.name], f"flag {setting.flag}")
    if env.get(setting.variable):
        return _check(setting, env[setting.variable], f"environment {setting.variable}")
    if setting.name in written:
        return _check(setting, written[setting.name], f"file {file}")
    if setting.name == "color" and env.get("NO_COLOR"):
        return Found(setting, "never", "environment NO_COLOR")
    return Found(setting, setting.default, "default")


def _check(setting: Setting, value: Any, origin: str) -> Found:
    try:
        return Found(setting, setting.read(value), origin)
    except ValueError as error:
        shown = "its value" if setting.secret else hide_credentials(repr(value))
        raise UsageError(
            f"setting {setting.name} ({origin}): {shown} {error}", remedy=f"correct it there: {setting.help}"
        ) from error
