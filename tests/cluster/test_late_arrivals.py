"""A conductor that is paused during a cloud call, and creates a VM after its creation was given up.

The id is noted by the paused conductor itself, `doctor` and the events show it, and nothing is left after a delete.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path

import psycopg

from coterie.cpi.drivers.sandbox.properties import STATE_FILE
from coterie.sandbox import faults
from coterie.sandbox.datacenter import open_datacenter
from tests.cluster.fleet import LAYOUT, Cluster, cluster, until
from tests.peers.postgres import Server


def test_a_vm_that_a_paused_conductor_created_late_goes_with_its_deployment(tmp_path: Path, server: Server) -> None:
    with cluster(tmp_path, server, ("east",), 2) as here:
        store = open_datacenter(tmp_path / "east" / STATE_FILE, LAYOUT).store
        faults.add(store, "create_vm", "hang", times=1)
        task = _deploy(here)
        until(lambda: [one.times for one in faults.list_faults(store)] == [0], "no call hangs", 60)
        paused = here.conductors[_owner(server)]
        paused.send(signal.SIGSTOP)
        assert here.await_task(task)["state"] == "done"
        faults.clear(store)
        paused.send(signal.SIGCONT)
        assert paused.popen is not None
        assert paused.popen.wait(60) != 0
        uuid = here.get("/v1/info")["director"]["uuid"]
        assert len(here.held("east", "east", uuid)) == 2

        (late,) = here.get("/v1/objects?state=late")["items"]
        assert late["cid"] in here.held("east", "east", uuid)
        found = {one["what"]: one for one in _doctor(here)["findings"]}["objects"]
        assert (found["ok"], found["detail"]) == (False, "0 in doubt, 1 created after they had been given up")
        assert "cleanup" in found["remedy"]
        events = here.get(f"/v1/tasks/{task}/events?limit=1000")["items"]
        assert [one["data"]["cid"] for one in events if one["kind"] == "object.late"] == [late["cid"]]

        deleting = here.cli("delete", "dep", "--yes")
        said = deleting.communicate(timeout=120)
        assert deleting.returncode == 0, said
        assert here.held("east", "east", uuid) == []
        assert here.get("/v1/objects?state=late")["items"] == []


def _deploy(here: Cluster) -> int:
    """The cloud chooses the addresses: a late VM could not have a fixed one, which its successor has by then."""
    config = json.loads(here.config())
    config["networks"] = [{"name": "net", "type": "dynamic"}]
    body = {"manifest": here.manifest(1), "cloud_config": json.dumps(config)}
    return int(here.send("PUT", "/v1/deployments/dep", body)["task_id"])


def _owner(server: Server) -> str:
    with psycopg.connect(server.url) as database:
        rows = database.execute("SELECT owner FROM steps WHERE flow = 'node.create' AND state = 'running'").fetchall()
    return str(rows[0][0]).partition("#")[0]


def _doctor(here: Cluster) -> dict[str, list[dict[str, object]]]:
    found: dict[str, list[dict[str, object]]] = json.loads(here.cli("doctor", "-o", "json").communicate(timeout=60)[0])
    return found
