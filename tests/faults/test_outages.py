"""The database is away at every use that a label makes of the ledger: each time a retry, never a failed step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from coterie.ledger.store import Ledger, Tx
from tests.cleanup.remains import Remains
from tests.faults import outages
from tests.faults.outages import INJECTED, Strike
from tests.kill.bench import Bench
from tests.kill.nursery import Nursery
from tests.kill.scenario import cloud_config, phases
from tests.ledger.blank import postgres_database, postgres_template
from tests.requests.site import Site, group, manifest, site

PHASES = [phase.name for phase in phases() if phase.ask != "nothing"]
# Flows that must be among those struck; the others are found, not listed.
MUST = {
    "create": {"node.create", "group.create"},
    "scale": {"node.create"},
    "upgrade": {"node.recreate"},
    "alter": {"node.update", "group.update"},
    "policy": {"node.recreate", "group.delete"},
    "shrink": {"node.delete"},
    "look": {"look"},
    "delete": {"node.delete", "group.delete"},
}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize("phase", PHASES)
def test_an_outage_at_any_use_of_the_ledger_is_a_retry(bench: Bench, phase: str) -> None:
    assert MUST.get(phase, set()) <= _flows(_run(bench, phase))


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_an_outage_inside_a_drivers_call_is_a_retry(bench: Bench) -> None:
    """Where the members of a group are one list, the driver writes it through the coordinator: it uses the ledger."""
    struck = _run(bench, "create", groups="single-writer")
    writes = [line for line in struck if line.startswith("node.create.create_vm#") and line.endswith("the commit")]
    assert len(writes) > 2, "submit, take the domain, acknowledge"


def test_an_outage_in_a_cleanup_is_a_retry(nursery: Nursery, tmp_path: Path) -> None:
    struck = _flows(Remains(nursery, tmp_path, None).clean_with_outages())
    assert {"cleanup.survey", "cleanup.delete", "cleanup.close", "cleanup.reclaim"} <= struck


def test_cut_connections_of_a_real_server(
    postgres_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every use's own connection is ended by the server, in the middle of the transaction."""
    ledger = Ledger.open(postgres_database(postgres_server, postgres_template(postgres_server)))
    admin = sa.create_engine(postgres_server.replace("postgresql:", "postgresql+psycopg:", 1))
    struck: list[str] = []
    with site(ledger, tmp_path) as here:
        text = manifest(group("a", 3, "persistent_disk: 64, placement: {policy: soft-anti-affinity}"))
        here.deploy(text)
        cut = Strike("cut", lambda tx: _end_connection(admin, tx))
        outages.install([cut], struck.append, monkeypatch.setattr)
        here.deploy(text, recreate=True)
        _assert_all_up(here, 3)
        here.delete(delete_disks=True)
        assert here.held("vm") == here.held("disk") == here.held("server_group") == []
    ledger.close()
    admin.dispose()
    assert {"node.recreate", "node.delete", "group.delete"} <= _flows(struck)


def _run(bench: Bench, phase: str, **properties: Any) -> list[str]:
    with bench.beginning(phase) as (start, world):
        order = replace(bench.order(start, world), outages=True, cloud_config=cloud_config(**properties))
        bench.finish(start, world, order, "with outages of the database")
        struck = order.struck.read_text().splitlines()
    met = {line.partition(" ")[2] for line in struck}
    assert {one.name for one in INJECTED if not one.after} <= met
    return struck


def _flows(struck: list[str]) -> set[str]:
    return {line.partition("#")[0].rpartition(".")[0] for line in struck}


def _end_connection(admin: sa.Engine, tx: Tx) -> None:
    pid = tx.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
    with admin.connect() as operator:
        operator.execute(sa.text("SELECT pg_terminate_backend(:pid, 10000)"), {"pid": pid})


def _assert_all_up(here: Site, count: int) -> None:
    assert [node.state for node in here.nodes().values()] == ["up"] * count
    assert len(here.held("vm")) == count
