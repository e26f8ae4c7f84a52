"""Conductors killed, paused, drained or missing; the database restarted; a Director killed: the work goes on."""

from __future__ import annotations

import signal
import urllib.error
from pathlib import Path

import pytest

from tests.cluster.fleet import Cluster, cluster, until
from tests.peers.postgres import Server


def some_done(here: Cluster, task: int, count: int, director: int = 0) -> None:
    until(lambda: here.task(task, director)["steps"]["ended"] >= count, "the task does not move", 60)


def test_a_killed_conductor_hands_over_and_a_paused_one_is_fenced(tmp_path: Path, server: Server) -> None:
    with cluster(tmp_path, server, ("east",), 3) as here:
        killed, paused, _ = here.conductors.values()
        task = here.deploy(60)
        some_done(here, task, 8)
        killed.end()
        paused.send(signal.SIGSTOP)
        until(lambda: len(here.get("/v1/conductors")["items"]) == 1, "silent conductors are not struck out", 30)
        paused.send(signal.SIGCONT)  # not later: it may have been paused while it locked the simulated datacenter
        assert paused.popen is not None
        assert paused.popen.wait(20) != 0  # the fleet has given it up, and it knows
        assert here.await_task(task)["state"] == "done"
        here.check_clouds()


def test_no_conductor_in_the_group_waits_and_says_so_and_goes_on(tmp_path: Path, server: Server) -> None:
    with cluster(tmp_path, server, ("east", "west"), 1) as here:
        east = next(one for name, one in here.conductors.items() if name.startswith("east"))
        task = here.deploy(150)
        some_done(here, task, 4)
        east.end()
        why = "no live conductor in group 'east' for driver sandbox"
        until(lambda: any(why in reason for reason in here.task(task)["waiting"]), "nobody says why it waits", 30)
        groups = {one["name"]: one for one in here.get("/v1/conductors/groups")["items"]}
        assert groups["east"]["orphans"] == groups["east"]["nodes"] > 0 == groups["west"]["orphans"]
        with pytest.raises(urllib.error.HTTPError) as refused:
            here.send("PATCH", f"/v1/nodes/{here.nodes()[0]['uuid']}", {"conductor_group": "nowhere"})
        assert refused.value.code == 409
        here.add_conductor("east")
        assert here.await_task(task)["state"] == "done"
        here.check_clouds()


def test_a_drained_conductor_leaves_in_good_order(tmp_path: Path, server: Server) -> None:
    with cluster(tmp_path, server, ("east",), 2) as here:
        leaving = next(iter(here.conductors.values()))
        task = here.deploy(40)
        some_done(here, task, 6)
        assert leaving.end(signal.SIGTERM) == 0
        assert [one["name"] for one in here.get("/v1/conductors")["items"]] == [
            name for name, one in here.conductors.items() if one is not leaving
        ]
        assert here.await_task(task)["state"] == "done"
        here.check_clouds()


def test_the_database_is_restarted_and_a_director_killed(tmp_path: Path, server: Server) -> None:
    with cluster(tmp_path, server, ("east",), 2, directors=2) as here:
        task = here.deploy(60)
        some_done(here, task, 8)
        server.stop()
        server.start()
        here.directors[0].end()
        ended = here.await_task(task, director=1)
        assert ended["state"] == "done", ended["report"]
        here._ports.reverse()  # the one that is left answers the questions
        assert all(one.alive for one in here.conductors.values())
        here.check_clouds()
