"""What an operator types after trouble: recover, clouds accept, clouds repin."""

from __future__ import annotations

from coterie.ledger.rows import alarms
from coterie.ledger.store import Ledger
from coterie.ledger.writes import execute
from tests.cli.conftest import Machine
from tests.requests.lost_ledger import lose_deployments


def test_a_ledger_is_recovered_and_the_cloud_accepted_and_pinned_anew(machine: Machine) -> None:
    machine.furnish()
    assert machine.run("deploy", "web.yml", "--yes").code == 0
    ledger = Ledger.open(f"sqlite:///{machine.state_folder.ledger}")
    try:
        _recover(machine, ledger)
        _accept(machine, ledger)
    finally:
        ledger.close()
    _repin(machine)


def _recover(machine: Machine, ledger: Ledger) -> None:
    lose_deployments(ledger)
    assert machine.run("nodes", "-o", "json").json["items"] == []
    dry = machine.run("recover", "web.yml", "--dry-run")
    assert dry.code == 0, dry.err
    assert "take" in dry.out and "web/1" in dry.out and "leave" not in dry.out
    assert machine.run("recover", "web.yml").code == 4, "nothing is written before a person has agreed"
    done = machine.run("recover", "web.yml", "--yes")
    assert (done.code, "coterie plan web.yml" in done.err + done.out) == (0, True), done.err
    assert {node["state"] for node in machine.run("nodes", "-o", "json").json["items"]} == {"up"}
    assert "nothing to change" in machine.run("plan", "web.yml").out
    assert machine.run("recover", "web.yml", "-o", "json").json["items"] == []


def _accept(machine: Machine, ledger: Ledger) -> None:
    with ledger.write() as tx:
        execute(tx, alarms.ring([], "lab", "twin", "another ledger works under this uuid"))
    assert "twin" in machine.run("clouds").out
    assert "another ledger works" in machine.run("clouds", "show", "lab").out
    assert machine.run("delete", "web", "--yes").code == 6
    ended = machine.run("clouds", "accept", "lab", "--yes", "-o", "json")
    assert (ended.code, ended.json["ended"]) == (0, ["twin"]), ended.err
    assert "twin" not in machine.run("clouds").out


def _repin(machine: Machine) -> None:
    moved = machine.run("clouds", "repin", "lab", "account other of sandbox", "--yes")
    assert (moved.code, "pinned to account other of sandbox" in moved.out + moved.err) == (0, True), moved.err
    assert machine.run("clouds", "show", "lab", "-o", "json").json["pinned_to"] == "account other of sandbox"
