"""python3 -m tests.peers.incus up | down | crash MEMBER | boot MEMBER | cut MEMBER | heal MEMBER | run COMMAND…"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

from tests.peers.incus import folder
from tests.peers.incus.cluster import MEMBERS, Cluster
from tests.peers.incus.packages import install, missing


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.peers.incus", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb, text in (
        ("up", "install what is missing, and start"),
        ("down", "stop, and leave nothing"),
        ("needs", "print what is missing"),
        ("demo", "a deployment, from nothing to nothing"),
    ):
        verbs.add_parser(verb, help=text)
    for verb in ("crash", "boot", "cut", "heal"):
        verbs.add_parser(verb).add_argument("member", choices=MEMBERS)
    verbs.add_parser("run", help="up, the command, and down unless it was up").add_argument(
        "command", nargs=argparse.REMAINDER
    )
    words = parser.parse_args()
    cluster = Cluster(folder())
    if words.verb == "demo":
        from tests.peers.incus.demo import play

        play(cluster)
    elif words.verb == "needs":
        print(missing() or "nothing is missing")
    elif words.verb == "up":
        bring_up(cluster)
    elif words.verb == "down":
        cluster.stop()
    elif words.verb == "run":
        sys.exit(run_with(cluster, words.command))
    else:
        getattr(cluster, words.verb)(words.member)


def bring_up(cluster: Cluster) -> None:
    if os.getuid() != 0:
        raise SystemExit("a cluster in namespaces needs root")
    install()
    began = time.monotonic()
    cluster.start()
    print(f"three members answer after {time.monotonic() - began:.1f} s: {cluster.socket()}", flush=True)


def run_with(cluster: Cluster, command: list[str]) -> int:
    ran_before = cluster.runs()
    try:
        if not ran_before:
            bring_up(cluster)
        return subprocess.call(command)
    finally:
        if not ran_before:
            cluster.stop()


main()
