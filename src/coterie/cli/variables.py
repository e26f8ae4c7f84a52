"""Where the values of a manifest's variables come from: options, files, the environment, a store."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import wraps
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol

import click

from coterie.cli.frame.documents import read
from coterie.cli.frame.session import Session
from coterie.errors import UsageError

Json = dict[str, Any]
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")


class Store(Protocol):
    """A source of variables that a package may bring: an entry point of group `coterie.vars_stores`, whose name stands
    before the colon of the setting `vars_store`; it is opened with what stands behind it."""

    def find(self, name: str) -> Any:
        """The value; KeyError if the store does not have it."""


class DirectoryStore:
    """A file for each variable, as service managers and agents of secret stores write them: NAME holds a text, NAME.yml
    a YAML value. Files that others may read are refused."""

    def __init__(self, place: str) -> None:
        self._folder = Path(place).expanduser()
        if not self._folder.is_dir():
            raise UsageError(f"there is no folder {self._folder}", remedy="correct the setting vars_store")

    def find(self, name: str) -> Any:
        from coterie.seal.keys import require_private

        for path, is_yaml in ((self._folder / name, False), (self._folder / f"{name}.yml", True)):
            if path.is_file():
                require_private(path)
                return _yaml(str(path)) if is_yaml else _line(str(path))
        raise KeyError(name)


class Variables:
    """The sources in their order: the first that has a name gives its value."""

    def __init__(
        self, given: Mapping[str, str], files: Mapping[str, str], documents: tuple[str, ...], store: str | None
    ) -> None:
        self._given = dict(given)
        self._files = dict(files)
        self._documents = documents
        self._store_name = store
        self._read: Json | None = None
        self._store: Store | None = None

    def resolve(self, request: Json) -> Json:
        """The request with the values in its manifest."""
        if "((" not in request["manifest"]:
            return request
        from coterie.manifest.variables import resolve_variables  # a heavy import

        return {**request, "manifest": resolve_variables(request["manifest"], request["manifest_file"], self.find)}

    def find(self, name: str) -> Any:
        first, *keys = name.split(".")
        value = self._find(first)
        for key in keys:
            if not isinstance(value, Mapping) or key not in value:
                raise KeyError(name)
            value = value[key]
        return value

    def _find(self, name: str) -> Any:
        if name in self._given:
            return self._given[name]
        if name in self._files:
            self._given[name] = _line(self._files[name])
            return self._given[name]
        if self._read is None:  # of two files, the later one counts
            self._read = {key: value for path in self._documents for key, value in _mapping(path).items()}
        if name in self._read:
            return self._read[name]
        variable = f"COTERIE_VAR_{name.replace('-', '_')}"
        if variable in os.environ:
            return os.environ[variable]
        if self._store_name is None:
            raise KeyError(name)
        if self._store is None:
            self._store = _open_store(self._store_name)
        return self._store.find(name)


def takes_variables(command: Callable[..., int]) -> Callable[..., int]:
    """Give a verb the options for variables; it gets them as `variables`."""

    @click.option("--var", "given", multiple=True, metavar="NAME=VALUE", help="A variable; visible to other users.")
    @click.option("--var-file", "files", multiple=True, metavar="NAME=FILE", help="A variable whose value is a file.")
    @click.option("--vars-file", "documents", multiple=True, metavar="FILE", help="Variables as a YAML mapping.")
    @wraps(command)
    def run(session: Session, *, given: Any, files: Any, documents: Any, **others: Any) -> int:
        store = session.settings["vars_store"]
        variables = Variables(_pairs(given, "--var"), _pairs(files, "--var-file"), documents, store)
        return command(session, variables=variables, **others)

    return run


def _pairs(given: tuple[str, ...], option: str) -> dict[str, str]:
    found = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not _NAME.fullmatch(name):
            raise UsageError(f"{option} needs NAME=…", remedy=f"for example {option} password=…")
        found[name] = value
    return found


def _open_store(setting: str) -> Store:
    kind, _, place = setting.partition(":")
    for point in entry_points(group="coterie.vars_stores", name=kind):
        opened: Store = point.load()(place)
        return opened
    known = ", ".join(sorted(point.name for point in entry_points(group="coterie.vars_stores")))
    raise UsageError(
        f"no store of variables is named {kind!r}", remedy=f"correct the setting vars_store; known: {known}"
    )


def _line(path: str) -> str:
    """The text of a file; the line break at its end, which editors add, does not count."""
    return read(path).removesuffix("\n")


def _mapping(path: str) -> Json:
    found = _yaml(path)
    if not isinstance(found, dict):
        raise UsageError(f"{path} is no mapping", remedy="write one variable per line, as `name: value`")
    return found


def _yaml(path: str) -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return YAML(typ="safe", pure=True).load(read(path))
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)  # not the error's own words: they quote the text
        where = f"{path}:{mark.line + 1}" if mark else path
        raise UsageError(f"{where} is not YAML", remedy="check the indentation, quotes and brackets there") from None
