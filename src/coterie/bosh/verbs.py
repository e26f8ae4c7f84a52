"""The verbs of `coterie-cpi` and their arguments; each is done by its own room."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

from coterie import __version__
from coterie.bosh.main import DEFAULT_CONFIG, _config
from coterie.cpi.wire.faults import sentence
from coterie.errors import CoterieError


def run(words: Sequence[str]) -> int:
    """The exit code of the verb; an error is told in a sentence with its remedy."""
    given = _parser().parse_args(words)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    try:
        return _do(given)
    except CoterieError as error:
        sys.stderr.write(f"coterie-cpi: {sentence(error)}\n")
        return error.exit_code


def _do(given: argparse.Namespace) -> int:
    if given.verb == "version":
        print(__version__)
        return 0
    if given.verb == "serve":
        from coterie.bosh.core.serve import serve

        serve(given.config)
        return 0
    if given.verb == "check":
        from coterie.bosh.check_command import check

        return check(given.config, json_form=given.output == "json")
    if given.verb == "launcher":
        from coterie.bosh.launcher import write

        return write(given.config, given.file)
    from coterie.bosh.cleanup_command import tidy

    return tidy(given)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="coterie-cpi",
        description="Without a verb: answer the CPI request on stdin, as a BOSH Director runs it.",
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    for name, words in _HELP.items():
        verb = verbs.add_parser(name, help=words, description=words)
        if name != "version":
            verb.add_argument("--config", default=_config(), help=f"configuration file (default {DEFAULT_CONFIG})")
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
        verb.add_argument("--director-uuid", required=True, help="whose objects: `bosh env` prints the uuid")
        verb.add_argument("--known", metavar="FILE", help='JSON of what BOSH knows: {"vm": [cid, …], "disk": […], …}')
        verb.add_argument("--apply", action="store_true", help="delete; without it nothing is changed")
        verb.add_argument("--grace", type=float, default=86400.0, metavar="SECONDS", help="spare what is younger")
        verb.add_argument("--cap", type=int, default=20, help="delete no more than this many of a kind")
        verb.add_argument("--kind", action="append", help="only this kind; may be repeated")
