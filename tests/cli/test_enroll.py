"""`coterie nodes create|set|show|delete` and `clouds move`, as a user runs them."""

from __future__ import annotations

from tests.cli.conftest import CLOUD, Machine
from tests.requests.strangers import exists, stranger


def test_a_machine_that_coterie_did_not_create(machine: Machine) -> None:
    machine.write("cloud.yml", CLOUD)
    assert machine.run("clouds", "set", "cloud.yml").code == 0
    assert machine.run("clouds", "check").code == 0
    cid = stranger(machine.state_folder.path)
    made = machine.run("nodes", "create", "--cloud", "lab", "--cid", cid, "--name", "db1", "-o", "json")
    assert made.code == 0, made.err
    assert (made.json["name"], made.json["state"]) == ("db1", "up")
    assert "(enrolled)" in machine.run("nodes").out
    assert cid in machine.run("nodes", "show", "db1").out
    assert machine.run("nodes", "create", "--cloud", "lab", "--cid", cid).code == 6
    assert machine.run("nodes", "create", "--cloud", "lab", "--cid", "vm-no").code == 5
    long = machine.run("nodes", "create", "--cloud", "lab", "--cid", cid, "--conductor-group", "x" * 256)
    assert long.code == 2 and "255" in long.err
    assert "rack1" in machine.run("nodes", "set", "db1", "--conductor-group", "Rack1").err
    assert machine.run("clouds", "move", "lab", "Rack2").code == 0
    assert "rack2" in machine.run("clouds").out
    assert machine.run("nodes", "delete", "db1").code == 0
    assert exists(machine.state_folder.path, cid)
    assert machine.run("nodes", "create", "--cloud", "lab", "--cid", cid).code == 0
    refused = machine.run("nodes", "delete", cid, "--destroy")
    assert refused.code == 4 and "--yes" in refused.err
    assert machine.run("nodes", "delete", cid, "--destroy", "--yes").code == 0
    assert not exists(machine.state_folder.path, cid)
    assert machine.run("nodes", "-o", "json").json["items"] == []
