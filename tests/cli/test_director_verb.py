"""`coterie director`: in the foreground, on the unix socket or on TCP, on either database."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.cli.conftest import MANIFEST, Machine, finish


@contextmanager
def serving(machine: Machine, *words: str) -> Iterator[str]:
    """A running Director; where it listens."""
    process = machine.start("director", *words)
    where = _address(process)
    try:
        yield where
    finally:
        process.send_signal(signal.SIGTERM)
        assert finish(process).code == 0


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("{") and "listening on " in line:
            return str(json.loads(line)["message"].removeprefix("listening on "))
    raise AssertionError(f"it ended with {process.wait(60)} before it served")


def test_on_the_unix_socket_it_is_the_local_one(machine: Machine) -> None:
    with serving(machine) as where:
        assert where == str(machine.state_folder.socket)
        assert machine.run("nodes").code == 0
        assert machine.run("nodes", "--director", f"unix:{where}").code == 0
        second = machine.run("director")
        assert second.code == 6
        assert "coterie local stop" in second.err
    assert machine.run("local", "status", "-o", "json").json["running"] is False


def test_on_postgresql_and_tcp(machine: Machine, postgres_url: str) -> None:
    with serving(machine, "--listen", "127.0.0.1:0", "--database", postgres_url, "--name", "site") as where:
        machine.env["COTERIE_DIRECTOR"] = f"http://{where}"
        machine.furnish()
        deployed = machine.run("deploy", "web.yml")
        assert deployed.code == 0, deployed.err
        assert [node["state"] for node in machine.run("nodes", "-o", "json").json["items"]] == ["up", "up"]
        assert machine.run("conductors", "-o", "json").json["items"][0]["name"].startswith("site@")
        assert not machine.state_folder.ledger.exists()
        deleted = machine.run("delete", "web", "--delete-disks", "--yes")
        assert deleted.code == 0, deleted.err
        assert machine.run("disks", "-o", "json").json["items"] == []


def test_conductors_of_one_machine_share_a_simulated_datacenter(machine: Machine, postgres_url: str) -> None:
    """By hand, as docs/operating.md starts them: each with a state folder of its own."""
    with ExitStack() as running:
        director = ("--listen", "127.0.0.1:0", "--database", postgres_url, "--no-conductor")
        machine.env["COTERIE_DIRECTOR"] = f"http://{running.enter_context(serving(machine, *director))}"
        machine.env["COTERIE_TOKEN_FILE"] = str(machine.state_folder.token)
        machine.env["COTERIE_KEY_FILE"] = str(machine.folder / "conductor.key")
        for name in ("c1", "c2"):
            running.enter_context(working(machine, name, postgres_url))
        machine.furnish()
        machine.write("web.yml", MANIFEST.replace("instances: 2", "instances: 6"))
        deployed = machine.run("deploy", "web.yml")
        assert deployed.code == 0, deployed.err
        shared = str(machine.folder / ".local/state/coterie/sandbox.db")
        zones = machine.run("sandbox", "hosts", "--state", shared, "-o", "json").json
        hosts = [host for zone in zones if zone["name"] == "z1" for rack in zone["racks"] for host in rack["hosts"]]
        assert [len(host["vms"]) for host in hosts] == [1] * 6, "one group, and no two of it on one host"


@contextmanager
def working(machine: Machine, name: str, database: str) -> Iterator[None]:
    """A conductor until the end of the block."""
    machine.env["COTERIE_STATE"] = str(machine.folder / name)
    process = machine.start("conductor", "--name", name, "--database", database)
    assert process.stderr is not None
    assert any(f"conductor {name}, release" in line for line in process.stderr)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        finish(process)


def test_a_database_that_is_not_there_is_told_without_its_password(machine: Machine) -> None:
    done = machine.run("director", "--database", "postgresql://me:hunter2@127.0.0.1:1/none")
    assert done.code == 7
    assert "127.0.0.1" in done.err and "hunter2" not in done.err
