"""Conductors killed, paused, drained or missing; the database restarted; a Director killed: the work goes on."""

from __future__ import annotations

import signal
import urllib.error
from pathlib import Path

import pytest

from tests.cluster.fleet import Cluster, cluster, page, until
from tests.peers.postgres import Server
from tests.telemetry.collector import collecting
from tests.telemetry.exposition import read


def some_done(here: Cluster, task: int, count: int, director: int = 0) -> None:
    until(lambda: here.task(task, director)["steps"]["ended"] >= count, "the task does not move", 60)


def test_a_killed_conductor_hands_over_and_a_paused_one_is_fenced(tmp_path: Path, server: Server) -> None:
    with cluster(tmp_path, server, ("east",), 3) as here:
        killed, paused, _ = here.conductors.values()
        task = here.deploy(60)
        some_done(here, task, 8)
        killed.end()
        paused.send(signal.SIGSTOP)
        until(lambda: len(here.get("/v1/conductors")["items"]) == 1, "silent conductors are not struck out", 60)
        paused.send(signal.SIGCONT)  # not later: it may have been paused while it locked the simulated datacenter
        assert paused.popen is not None
        assert paused.popen.wait(60) != 0  # the fleet has given it up, and it knows
        assert here.await_task(task)["state"] == "done"
        here.check_clouds()


def test_no_conductor_in_the_group_waits_and_says_so_and_goes_on(tmp_path: Path, server: Server) -> None:
    with cluster(tmp_path, server, ("east", "west"), 1) as here:
        east = next(one for name, one in here.conductors.items() if name.startswith("east"))
        task = here.deploy(150)
        some_done(here, task, 4)
        east.end()
        why = "no live conductor in group 'east' for driver sandbox"
        until(
            lambda: any(why in reason for reason in here.task(task)["waiting"]),
            "no reason is shown for its waiting",
            60,
        )
        told = here.cli("tasks", "show", str(task))
        assert why in told.communicate(timeout=60)[0]
        unserved = 'coterie_steps_unserved{conductor_group="east",driver="sandbox",why="no_conductor_in_group"}'
        assert here.metrics()[unserved] > 0 == here.metrics()['coterie_conductors{conductor_group="east"}']
        groups = {one["name"]: one for one in here.get("/v1/conductors/groups")["items"]}
        assert groups["east"]["orphans"] == groups["east"]["nodes"] > 0 == groups["west"]["orphans"]
        with pytest.raises(urllib.error.HTTPError) as refused:
            here.send("PATCH", f"/v1/nodes/{here.nodes()[0]['uuid']}", {"conductor_group": "nowhere"})
        assert refused.value.code == 409
        uuid = here.nodes()[0]["uuid"]
        moving = here.cli("nodes", "set", uuid, "--conductor-group", "nowhere")
        assert "no live conductor in group 'nowhere'" in moving.communicate(timeout=60)[1]
        assert moving.returncode == 6
        words = ("nodes", "create", "--cloud", "west", "--cid", "vm-1", "--conductor-group", "nowhere")
        creating = here.cli(*words)
        assert "no live conductor in group 'nowhere'" in creating.communicate(timeout=60)[1]
        assert creating.returncode == 6
        here.add_conductor("east")
        assert here.await_task(task)["state"] == "done"
        here.check_clouds()


def test_a_drained_conductor_leaves_in_good_order(tmp_path: Path, server: Server) -> None:
    with collecting() as traces, cluster(tmp_path, server, ("east",), 2, COTERIE_OTLP_ENDPOINT=traces.url) as here:
        leaving, staying = here.conductors.values()
        task = here.deploy(40)
        creates = 'coterie_cpi_call_seconds_count{driver="sandbox",method="create_vm"}'
        until(lambda: read(page(leaving.port, "/metrics")[1]).get(creates, 0) > 0, "it creates no VM", 60)
        assert page(leaving.port, "/readyz") == (200, "ok\n")
        counted = read(page(leaving.port, "/metrics")[1])
        assert counted['coterie_heartbeats_total{outcome="accepted"}'] > 0
        assert leaving.end(signal.SIGTERM) == 0
        made = {span.trace for span in traces.spans if span.name == "step node.create.create_vm"}
        assert len(made) == 1, "what was traced is sent before the end, and one task is one trace"
        assert [one["name"] for one in here.get("/v1/conductors")["items"]] == [
            name for name, one in here.conductors.items() if one is not leaving
        ]
        assert here.await_task(task)["state"] == "done"
        here.check_clouds()
        assert read(page(staying.port, "/metrics")[1])["coterie_ring_changes_total"] > 0
        assert here.directors[0].end(signal.SIGTERM) == 0
        assert {span.service for span in traces.spans} == {"coterie-director", "coterie-conductor"}


def test_the_database_is_restarted_and_a_director_killed(tmp_path: Path, server: Server) -> None:
    with cluster(tmp_path, server, ("east",), 2, directors=2) as here:
        task = here.deploy(60)
        some_done(here, task, 8)
        watching = here.cli("tasks", "watch", str(task), "--timeout", "5")
        server.stop()
        server.start()
        here.directors[0].end()
        assert watching.wait(90) in (7, 9), watching.communicate()[1]  # its Director is gone, the task is not
        again = here.cli("tasks", "watch", str(task), director=1)
        assert f"Task {task} (deploy dep): done" in again.communicate(timeout=150)[0]
        assert again.returncode == 0
        ended = here.await_task(task, director=1)
        assert ended["state"] == "done", ended["report"]
        here._ports.reverse()  # the one that is left answers the questions
        assert all(one.alive for one in here.conductors.values())
        here.check_clouds()
