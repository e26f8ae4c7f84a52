"""python3 -m tests.peers.openstack up [--fresh] [--install-only] | down [--purge] | run COMMAND…"""

from __future__ import annotations

import argparse
import subprocess
import sys

from tests.peers.openstack.down import bring_down
from tests.peers.openstack.layout import Layout
from tests.peers.openstack.processes import Processes
from tests.peers.openstack.up import bring_up


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.peers.openstack", description=Layout.__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    up = verbs.add_parser("up", help="install, initialise and start what is not there yet")
    up.add_argument("--fresh", action="store_true", help="throw the folder away first")
    up.add_argument("--install-only", action="store_true")
    down = verbs.add_parser("down", help="stop what was started")
    down.add_argument("--purge", action="store_true", help="remove the folder too")
    run = verbs.add_parser("run", help="up, the command, and down unless it was up before")
    run.add_argument("command", nargs=argparse.REMAINDER)
    words = parser.parse_args()
    if words.verb == "up":
        bring_up(words.fresh, words.install_only)
    elif words.verb == "down":
        bring_down(Layout(), words.purge)
    else:
        sys.exit(run_with(words.command))


def run_with(command: list[str]) -> int:
    ran_before = bool(Processes(Layout()).leader("keystone"))
    try:
        bring_up()
        return subprocess.call(command)
    finally:
        if not ran_before:
            bring_down(Layout())


main()
