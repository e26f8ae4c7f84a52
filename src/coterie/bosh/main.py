"""The command `coterie-cpi`: without a verb it answers the request on stdin; the verbs are for people and services."""

from __future__ import annotations

import sys

DEFAULT_CONFIG = "/var/vcap/jobs/coterie_cpi/config/cpi.json"
_VERBS = ("serve", "check", "cleanup", "launcher", "version", "-h", "--help")


def main() -> None:
    words = sys.argv[1:]
    if words and words[0] in _VERBS:
        from coterie.bosh.commands import run

        sys.exit(run(words))
    if words and (len(words) != 2 or words[0] != "--config"):
        sys.stderr.write("usage: coterie-cpi [--config FILE] < REQUEST, or coterie-cpi VERB; see coterie-cpi --help\n")
        sys.exit(2)
    _answer(words[1] if words else default_config())


def _answer(config: str) -> None:
    from coterie.bosh.client.client import main as client
    from coterie.bosh.client.in_process import core_of

    client(config, core_of(config))


def default_config() -> str:
    import os

    return os.environ.get("COTERIE_CPI_CONFIG") or DEFAULT_CONFIG


if __name__ == "__main__":
    main()
