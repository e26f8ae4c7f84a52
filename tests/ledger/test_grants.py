"""The database role of a conductor, with a real one: its work goes through, and nothing else does."""

from __future__ import annotations

import time
from pathlib import Path

import psycopg
import pytest

from coterie.conductor.membership import ConductorRole
from coterie.conductor.process import Conductor
from coterie.conductor.startup import connect, key_file
from coterie.errors import Refused, UsageError
from coterie.ids import Ids
from coterie.ledger.grants import statements
from coterie.ledger.rows import keys, stemcells
from coterie.ledger.rows.identity import ensure_director
from coterie.ledger.store import Ledger
from coterie.ledger.tables import metadata
from coterie.ledger.views import tasks as view
from coterie.requests import looks, start
from coterie.requests.request import PlanRequest
from coterie.settings import load
from tests.cli.conftest import CLOUD, MANIFEST
from tests.peers.postgres import conductor_role


@pytest.fixture
def role(postgres_url: str) -> str:
    owner = Ledger.open(postgres_url)
    ensure_director(owner, "test", Ids())
    owner.close()
    return conductor_role(postgres_url)


def test_a_deployment_lives_and_dies_by_conductors_with_that_role(postgres_url: str, role: str, tmp_path: Path) -> None:
    director, theirs = Ledger.open(postgres_url), connect(role)
    conductor = Conductor(theirs, "c1", state_folder=tmp_path, role=ConductorRole(""), workers=2)
    conductor.start()
    try:
        with director.write() as tx:
            stemcells.add(tx, "debian-12", "1.1", None, None, {"image": "x"}, [])
        # Groups with a single writer: the conductors' coordination needs rights too.
        config = CLOUD.replace("driver: sandbox", "driver: sandbox\n  properties: {groups: single-writer}")
        request = PlanRequest(deployment="web", manifest=MANIFEST, cloud_config=config)
        assert finished(director, start.deploy(director, request, None, None)) == "done"
        looked = looks.look(director)
        assert looked is not None and finished(director, looked) == "done"
        end = PlanRequest(deployment="web", delete=True)
        assert finished(director, start.deploy(director, end, None, None)) == "done"
        survey(director)
    finally:
        conductor.drain(10)
        theirs.close()
        director.close()


def finished(ledger: Ledger, task: int) -> str:
    give_up = time.monotonic() + 60
    while time.monotonic() < give_up:
        seen = ledger.written.version
        with ledger.read() as tx:
            state = view.state(tx, task)
        if state not in view.UNFINISHED:
            return state
        ledger.written.wait(seen, 1)
    raise AssertionError(f"task {task} does not end: the role lacks a right, see the log")


def survey(ledger: Ledger) -> None:
    """A cleanup that has something to delete: the disks that the deployment left."""
    from coterie.cleanup import start as cleanup
    from coterie.cleanup.options import Options

    options = Options.of_wire({"grace_s": 0.0, "undo_s": 0.0})
    number, task = cleanup.survey(ledger, options, None)
    assert finished(ledger, task) == "done"
    plan = cleanup.read_plan(ledger, number)
    assert [item.kind for item in plan.items] == ["disk", "disk"], plan.rest
    assert finished(ledger, cleanup.apply(ledger, number, plan.id, None)) == "done"


FORBIDDEN = [
    *[f"SELECT * FROM {table}" for table in ("tokens", "ownerships", "replies", "cloud_configs", "tallies")],
    "SELECT manifest FROM deployments",
    "SELECT body FROM events",
    "INSERT INTO conductor_keys VALUES ('east', 'a', 'b', 'c', 1)",
    "INSERT INTO tokens (id) VALUES ('a')",
    "UPDATE clouds SET driver = 'exec'",
    "DELETE FROM clouds",
    "UPDATE deployments SET manifest = ''",
    "INSERT INTO deployments (name) VALUES ('a')",
    "DELETE FROM events",
    "UPDATE events SET body = ''",
    "INSERT INTO steps (task) VALUES (1)",
    "INSERT INTO tasks (kind) VALUES ('deploy')",
    "DELETE FROM objects",
    "INSERT INTO nodes (uuid) VALUES ('a')",
    "CREATE TABLE mine (a int)",
    "DROP TABLE steps",
]


def test_nothing_else_goes_through(role: str) -> None:
    with psycopg.connect(role, autocommit=True) as connection:
        for statement in FORBIDDEN:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)


def test_every_table_is_decided_on() -> None:
    granted = "\n".join(statements("r", ["a"]))
    assert {name for name in metadata.tables if f" ON {name} " not in granted} == {
        "bosh_groups",
        "clocks",
        "cloud_configs",
        "hooks",
        "instance_groups",
        "leases",
        "manifests",
        "lent_steps",
        "ownerships",
        "registry_settings",
        "replies",
        "sessions",
        "tallies",
        "task_groups",
        "tokens",
    }


def test_its_key_is_an_admin_s_to_publish(role: str, tmp_path: Path) -> None:
    ledger = connect(role)
    try:
        file = key_file(ledger, load({"state": str(tmp_path)}, {"HOME": "/"}), "east")
        assert file.newest() is not None
        with ledger.read() as tx:
            assert keys.own(tx, "east") == []
    finally:
        ledger.close()


def test_it_does_not_upgrade_a_schema(postgres_url: str, role: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0004'")
    with pytest.raises(Refused, match="up to date") as refused:
        connect(role)
    assert "start the Director of this release first" in refused.value.remedy


@pytest.mark.parametrize("name", ["", "x" * 64, "a\x00b", "a\nb"])
def test_a_role_that_cannot_be_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="role"):
        statements(name, ["a"])
