"""python3 -m tests.peers.incus needs | install | up | down | VERB MEMBER | run COMMAND…"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tests.peers.incus.cluster import MEMBERS, Cluster
from tests.peers.incus.packages import install, missing, runs_machines

_MACHINES = "with what virtual machines need"


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.peers.incus", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb, text in (
        ("up", "install what is missing, and start"),
        ("down", "stop, and leave nothing"),
        ("needs", "print what is missing"),
        ("install", "install that"),
        ("demo", "a deployment, from nothing to nothing"),
    ):
        verbs.add_parser(verb, help=text)
    verbs.choices["up"].add_argument("--machines", action="store_true", help=_MACHINES)
    for verb in ("crash", "boot", "cut", "heal"):
        verbs.add_parser(verb).add_argument("member", choices=MEMBERS)
    run = verbs.add_parser("run", help="up, the command, and down what was not up")
    run.add_argument("--clusters", type=int, default=1, help="one for each worker of a test run")
    run.add_argument("--machines", action="store_true", help=_MACHINES)
    run.add_argument("command", nargs=argparse.REMAINDER)
    words = parser.parse_args()
    cluster = Cluster()
    if words.verb == "demo":
        from tests.peers.incus.demo import play

        play(cluster)
    elif words.verb == "needs":
        print(missing() or "nothing is missing")
        if not runs_machines():
            print("for virtual machines: python3 -m tests.peers.incus install")
    elif words.verb == "install":
        install(machines=True)
    elif words.verb == "up":
        bring_up([cluster], machines=words.machines)
    elif words.verb == "down":
        cluster.stop()
    elif words.verb == "run":
        sys.exit(
            run_with([Cluster(number) for number in range(words.clusters)], words.command, machines=words.machines)
        )
    else:
        getattr(cluster, words.verb)(words.member)


def bring_up(clusters: Sequence[Cluster], *, machines: bool) -> None:
    if os.getuid() != 0:
        raise SystemExit("a cluster in namespaces needs root")
    install(machines=machines)
    began = time.monotonic()
    with ThreadPoolExecutor(max(1, len(clusters))) as pool:
        list(pool.map(Cluster.start, clusters))
    for cluster in clusters:
        print(f"three members answer after {time.monotonic() - began:.1f} s: {cluster.socket()}", flush=True)


def run_with(clusters: Sequence[Cluster], command: list[str], *, machines: bool) -> int:
    own = [one for one in clusters if not one.runs()]
    try:
        bring_up(own, machines=machines)
        return subprocess.call(command)
    finally:
        for cluster in own:
            cluster.stop()


main()
