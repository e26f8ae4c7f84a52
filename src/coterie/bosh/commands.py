"""The commands of `coterie-cpi` for people and services, and their arguments."""

from __future__ import annotations

import argparse
import json
import logging
import socket
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from coterie import __version__
from coterie.bosh.config import Config
from coterie.bosh.core.server_groups import policy_of
from coterie.bosh.core.service import CpiService
from coterie.bosh.main import DEFAULT_CONFIG, default_config
from coterie.cpi.contract import CheckItem, Needs
from coterie.cpi.wire.faults import sentence
from coterie.errors import CoterieError
from coterie.redact import Redactor
from coterie.slotted import replace


def run(words: Sequence[str]) -> int:
    """Run a command and return its exit code; an error is printed as a sentence with its remedy."""
    given = _parser().parse_args(words)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    try:
        return _run_command(given)
    except CoterieError as error:
        sys.stderr.write(f"coterie-cpi: {sentence(error)}\n")
        return error.exit_code


def _run_command(given: argparse.Namespace) -> int:
    if given.verb == "version":
        print(__version__)
        return 0
    if given.verb == "serve":
        from coterie.bosh.core.serve import serve

        serve(given.config)
        return 0
    if given.verb == "check":
        return check(given.config, json_form=given.output == "json")
    if given.verb == "launcher":
        from coterie.bosh.launcher import write

        return write(given.config, given.file)
    from coterie.bosh.cleanup_command import cleanup

    return cleanup(given)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="coterie-cpi",
        description="Without a verb: answer the CPI request on stdin, as a BOSH Director runs it.",
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    for name, words in _HELP.items():
        verb = verbs.add_parser(name, help=words, description=words)
        if name != "version":
            verb.add_argument(
                "--config", default=default_config(), help=f"configuration file (default {DEFAULT_CONFIG})"
            )
        _options(name, verb)
    return parser


_HELP = {
    "serve": "run the core process: sessions, registry and publishing server, kept warm",
    "check": "verify the configuration, the ledger and the cloud; say what to mend",
    "cleanup": "list what is ours and unused in the cloud; delete it with --apply",
    "launcher": "write the program that a BOSH Director runs, with the paths of this installation in it",
    "version": "print the release",
}


def _options(name: str, verb: argparse.ArgumentParser) -> None:
    if name in ("check", "cleanup"):
        verb.add_argument("-o", "--output", choices=("table", "json"), default="table")
    if name == "launcher":
        verb.add_argument("file", help="where to write it, for example /usr/local/bin/cpi")
    if name == "cleanup":
        verb.add_argument("--director-uuid", help="whose objects; without it, the uuids and clouds of the ledger")
        verb.add_argument("--cloud", metavar="NAME", help="the one of this name under `clouds:` (default: `cloud:`)")
        verb.add_argument("--all", action="store_true", help="every uuid and cloud of the ledger, one after the other")
        verb.add_argument("--known", metavar="FILE", help='JSON of what BOSH knows: {"vm": [cid, …], "disk": […], …}')
        verb.add_argument("--apply", action="store_true", help="delete; without it nothing is changed")
        verb.add_argument(
            "--grace",
            type=float,
            default=86400.0,
            metavar="SECONDS",
            help="spare what is younger, and what no run found so long ago",
        )
        verb.add_argument("--cap", type=int, default=20, help="delete no more than this many of a kind")
        verb.add_argument("--cap-percent", type=float, default=25.0, help="delete no larger share of a kind")
        verb.add_argument(
            "--left-out",
            action="append",
            metavar="KIND=COUNT",
            default=[],
            help="believe a list of known objects that lacks so many living ones; may be repeated",
        )
        verb.add_argument("--kind", action="append", help="only this kind; may be repeated")


_NO_DIRECTOR = "00000000-0000-0000-0000-000000000000"


def check(config: str, *, json_form: bool = False) -> int:
    """0 when everything is in order, 1 when something must be mended."""
    service = CpiService(config)
    try:
        items = list(_items(service))
    finally:
        service.close()
    if json_form:
        print(json.dumps([item.wire() for item in items], indent=2))
    else:
        for item in items:
            print(_line(item))
    return int(not all(item.ok for item in items))


def _items(service: CpiService) -> Iterator[CheckItem]:
    try:
        config = service.config
    except CoterieError as error:
        yield _failed_item("configuration", error)
        return
    yield CheckItem("configuration", True, f"{config.path}: driver {config.driver}, cloud {config.cloud}")
    yield _file_permissions(config)
    yield _ledger_item(service)
    yield _core_item(config)
    hidden = Redactor(config.properties)
    try:
        cpi = service.open_cpi({"director_uuid": _NO_DIRECTOR})
        policy = policy_of(config.groups, cpi.capabilities())
        needs = Needs(policies=(policy,)) if policy and cpi.capabilities().group_privilege else None
        found = cpi.check(needs)
    except CoterieError as error:
        yield _failed_item("cloud", error)
        return
    yield from (CheckItem(**hidden.hide_all(_for_bosh(item).wire())) for item in found)


def _for_bosh(item: CheckItem) -> CheckItem:
    """A Director recreates machines under their addresses, so a cloud that keeps those for a day will not do."""
    if not (item.facts or {}).get("keeps_addresses"):
        return item
    detail = f"{item.detail}; a Director that recreates a machine asks for the same address at once"
    return replace(item, ok=False, detail=detail)


def _file_permissions(config: Config) -> CheckItem:
    mode = Path(config.path).stat().st_mode
    if mode & (stat.S_IROTH | stat.S_IWOTH | stat.S_IWGRP):
        return CheckItem("file permissions", False, f"{config.path} is open to others", f"chmod 640 {config.path}")
    return CheckItem("file permissions", True, "the configuration is closed to others")


def _ledger_item(service: CpiService) -> CheckItem:
    try:
        with service.local_ledger(service.config).ledger.read():
            return CheckItem("ledger", True, "it can be opened and written")
    except CoterieError as error:
        return _failed_item("ledger", error)


def _core_item(config: Config) -> CheckItem:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        try:
            link.connect(config.socket)
        except OSError:
            return CheckItem("core process", True, "it does not run; every call opens what it needs, which is slower")
    return CheckItem("core process", True, f"it answers on {config.socket}")


def _failed_item(what: str, error: CoterieError) -> CheckItem:
    return CheckItem(what, False, str(error), error.remedy)


def _line(item: CheckItem) -> str:
    line = f"{'ok ' if item.ok else 'BAD'} {item.what:<18} {item.detail}"
    return line if item.ok or not item.remedy else f"{line}\n    {'':<18} to mend it: {item.remedy}"
