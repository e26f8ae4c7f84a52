"""The verb `check`: configuration, ledger, core process, then what the driver says of its cloud; each with a remedy."""

from __future__ import annotations

import json
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from coterie.bosh.config import Config
from coterie.bosh.core.service import Office
from coterie.cpi.contract import CheckItem
from coterie.cpi.wire import Redactor
from coterie.errors import CoterieError

_NOBODY = "00000000-0000-0000-0000-000000000000"


def check(config: str, *, json_form: bool = False) -> int:
    """0 when everything is in order, 1 when something must be mended."""
    office = Office(config)
    try:
        items = list(_items(office))
    finally:
        office.close()
    if json_form:
        print(json.dumps([item.wire() for item in items], indent=2))
    else:
        for item in items:
            print(_line(item))
    return int(not all(item.ok for item in items))


def _items(office: Office) -> Iterator[CheckItem]:
    try:
        config = office.config
    except CoterieError as error:
        yield _failed("configuration", error)
        return
    yield CheckItem("configuration", True, f"{config.path}: driver {config.driver}, cloud {config.cloud}")
    yield _guarded(config)
    yield _ledger(office)
    yield _core(config)
    hidden = Redactor(config.properties)
    try:
        found = office.open_cpi({"director_uuid": _NOBODY}).check(None)
    except CoterieError as error:
        yield _failed("cloud", error)
        return
    yield from (CheckItem(**hidden.hide_all(item.wire())) for item in found)


def _guarded(config: Config) -> CheckItem:
    mode = Path(config.path).stat().st_mode
    if mode & (stat.S_IROTH | stat.S_IWOTH | stat.S_IWGRP):
        return CheckItem("file permissions", False, f"{config.path} is open to others", f"chmod 640 {config.path}")
    return CheckItem("file permissions", True, "the configuration is closed to others")


def _ledger(office: Office) -> CheckItem:
    try:
        with office.book(office.config).ledger.read():
            return CheckItem("ledger", True, "it can be opened and written")
    except CoterieError as error:
        return _failed("ledger", error)


def _core(config: Config) -> CheckItem:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        try:
            link.connect(config.socket)
        except OSError:
            return CheckItem("core process", True, "it does not run; every call opens what it needs, which is slower")
    return CheckItem("core process", True, f"it answers on {config.socket}")


def _failed(what: str, error: CoterieError) -> CheckItem:
    return CheckItem(what, False, str(error), error.remedy)


def _line(item: CheckItem) -> str:
    told = f"{'ok ' if item.ok else 'BAD'} {item.what:<18} {item.detail}"
    return told if item.ok or not item.remedy else f"{told}\n    {'':<18} to mend it: {item.remedy}"
