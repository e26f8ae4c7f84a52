"""The doctor's bundle: what a Director tells of itself and its fleet, no secret in it; a part that fails hides none."""

from __future__ import annotations

import json
import sqlite3
from typing import Any, cast

from coterie.cli.link import examine
from coterie.cli.link.examine import bundle, unserved_groups, waiting_tasks
from coterie.client import Client
from coterie.client.api import Answer
from coterie.errors import Unreachable
from tests.cli.conftest import CLOUD, Machine

SECRET = "hush-hush"


def test_the_report_holds_the_fleet_and_no_secret(machine: Machine) -> None:
    properties = f"driver: sandbox\n  properties: {{account: {SECRET}}}"
    machine.write("cloud.yml", CLOUD.replace("driver: sandbox", properties))
    machine.env["COTERIE_CLEANUP_WEBHOOK"] = f"http://127.0.0.1:9/{SECRET}"
    assert machine.run("clouds", "set", "cloud.yml").code == 0
    done = machine.run("doctor", "-o", "json")
    told = done.json["director"]
    assert [one["name"] for one in told["clouds"]] == ["lab"]
    assert told["info"]["local"] is True and len(told["conductors"]) == 1
    assert told["versions"]["coterie-api-maximum-version"]
    assert any(line.startswith("coterie_info") for line in told["metrics"])
    assert {"failed", "running", "groups", "config"} <= told.keys()
    assert "error" not in told["groups"] and SECRET not in done.out
    assert {"conductors", "waiting"} <= {one["what"] for one in done.json["findings"] if one["ok"]}


class Broken:
    """A Director that answers one question only."""

    def call(self, method: str, path: str, query: Any = None) -> Any:
        if path == "/v1/info":
            return {"version": "1"}
        raise Unreachable("the ledger does not answer", remedy="wait")

    def send(self, method: str, path: str) -> Answer:
        return Answer(200, {"Coterie-Version": "1"}, "ok")


def test_what_fails_is_told_beside_the_rest() -> None:
    found = bundle(Client(api=cast(Any, Broken())))
    assert found["info"] == {"version": "1"}
    assert found["conductors"]["error"]["what"] == "the ledger does not answer"
    assert (unserved_groups(found), waiting_tasks(found)) == ([], [])
    json.dumps(found)


class Ailing:
    """A Director with two groups in trouble."""

    def call(self, method: str, path: str, query: dict[str, Any] | None = None) -> Any:
        groups = {
            "missing": [{"name": "data", "remedy": "deploy again"}, {"name": "logs", "remedy": "deploy again"}],
            "drifted": [{"name": "web", "remedy": "repair web"}],
        }
        if path == "/readyz":
            return "ok"
        return {"items": groups.get((query or {})["state"], []) if path == "/v1/groups" else [], "next": None}


def test_a_group_in_trouble_is_told_with_the_remedy_that_works_for_it() -> None:
    findings = examine._state_findings(Client(api=cast(Any, Ailing())))
    (found,) = [one for one in findings if one["what"] == "server groups"]
    assert found["detail"] == "missing in their clouds: data, logs; not as made: web"
    assert found["remedy"] == "deploy again; repair web"


def test_orphans_and_waits_are_found() -> None:
    groups = [{"name": "rack1", "orphans": 3}, {"name": "", "orphans": 0}]
    running = [{"id": 7, "waiting": ["3 ready: no live conductor in group 'rack1' for driver sandbox"]}]
    found = {"groups": groups, "running": running}
    assert unserved_groups(found) == ["rack1: 3 nodes"]
    assert waiting_tasks(found) == ["task 7: 3 ready: no live conductor in group 'rack1' for driver sandbox"]


def test_a_ledger_that_no_command_can_use_is_found(machine: Machine) -> None:
    assert machine.run("nodes").code == 0
    assert machine.run("local", "stop").code == 0
    with sqlite3.connect(machine.state_folder.ledger) as ledger:
        ledger.execute("UPDATE alembic_version SET version_num = '9999'")
        ledger.execute("UPDATE schema_floor SET oldest = '9999'")
    ledger.close()
    assert "newer release" in machine.run("nodes").err
    found = machine.run("doctor", "-o", "json")
    (ledgers,) = [one for one in found.json["findings"] if one["what"] == "ledger"]
    assert (found.code, ledgers["ok"]) == (1, False)
    assert "schema 9999" in ledgers["detail"] and "newer release" in ledgers["remedy"]
    for file in machine.state_folder.path.glob("ledger.db*"):
        file.unlink()
    machine.state_folder.ledger.write_bytes(b"scrambled" * 1000)
    broken = machine.run("nodes")
    assert broken.code == 1 and "is damaged" in broken.err and "backup" in broken.err and "sqlalche" not in broken.err
    assert machine.run("doctor").code == 1
