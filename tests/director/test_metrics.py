"""The metrics page: what the ledger counts, and what this process has counted."""

from __future__ import annotations

import pytest

from coterie.director.context import AppContext
from coterie.ledger.store import Ledger
from coterie.ledger.work import steps
from coterie.requests import start
from coterie.sandbox import faults
from coterie.sandbox.datacenter import open_datacenter
from coterie.telemetry import process
from tests.cluster.fleet import until
from tests.director.asgi import Client
from tests.ledger.views import rows
from tests.requests.site import group, manifest, site
from tests.telemetry.exposition import read


def scrape(client: Client) -> dict[str, float]:
    return read(client.get("/metrics").text)


def test_tasks_have_ages_and_durations(client: Client, ledger: Ledger) -> None:
    rows.task(ledger, 1, created_at=1000.0)
    rows.task(ledger, 2, created_at=1000.0, ended_at=1004.5, state="done")
    rows.task(ledger, 3, created_at=1000.0, ended_at=1001.0, state="done")
    rows.task(ledger, 4, created_at=1000.0, ended_at=1001.0, state="failed")
    rows.task(ledger, 5, kind="look", created_at=1000.0, ended_at=1001.0, state="done")
    found = scrape(client)
    assert found['coterie_task_age_seconds{kind="deploy"}'] > 1e6
    assert found['coterie_task_duration_seconds_sum{kind="deploy",state="done"}'] == 5.5
    assert found['coterie_task_duration_seconds_count{kind="deploy",state="done"}'] == 2
    assert found['coterie_task_duration_seconds_count{kind="deploy",state="failed"}'] == 1
    assert not [name for name in found if 'kind="look"' in name and "duration" in name]


def test_steps_and_nodes_without_a_conductor_are_counted_with_the_reason(client: Client, ledger: Ledger) -> None:
    rows.put(ledger, "clouds", name="lab", driver="sandbox", properties={}, conductor_group="rack1")
    rows.node(ledger, "broker", 0)
    rows.task(ledger, 1)
    rows.step(ledger, 1, 1, conductor_group="rack1")
    why = 'coterie_steps_unserved{conductor_group="rack1",driver="sandbox",why="%s"}'
    assert scrape(client)[why % "no_conductors"] == 1
    rows.conductor(ledger, "elsewhere")
    assert scrape(client)[why % "no_conductor_in_group"] == 1
    assert scrape(client)['coterie_nodes_unserved{conductor_group="rack1"}'] == 1
    rows.conductor(ledger, "here", conductor_group="rack1", started_at=2000.0)
    found = scrape(client)
    assert not [name for name in found if name.startswith("coterie_steps_unserved")]
    assert found['coterie_nodes_unserved{conductor_group="rack1"}'] == 0
    assert found['coterie_conductors{conductor_group="rack1"}'] == 1
    assert found['coterie_conductor_heartbeat_age_seconds{conductor="here",conductor_group="rack1"}'] > 0


def test_ring_moves_are_counted_from_scrape_to_scrape(client: Client, context: AppContext) -> None:
    ledger = context.ledger
    rows.put(ledger, "clouds", name="lab", driver="sandbox", properties={}, conductor_group="")
    for index in range(40):
        rows.node(ledger, "broker", index)
    rows.conductor(ledger, "a")
    first = scrape(client)
    assert {name: value for name, value in first.items() if "ring_moves" in name and value} == {}
    rows.conductor(ledger, "b", started_at=2000.0)
    moved = scrape(client)['coterie_ring_moves_total{what="moved"}']
    assert 0 < moved < 40
    with ledger.write() as tx:
        tx.exec_driver_sql("DELETE FROM conductors")
    gone = scrape(client)
    assert gone['coterie_ring_moves_total{what="orphaned"}'] == 40
    assert scrape(client)['coterie_ring_moves_total{what="orphaned"}'] == 40, "counted once"


def test_calls_errors_and_retries_are_counted(client: Client, context: AppContext) -> None:
    """One process: the Director shows what its own conductor did."""
    folder = context.state_folder.path
    before = scrape(client)
    with site(context.ledger, folder) as here:
        here.cpi().check()
        faults.add(open_datacenter(folder / "sandbox.db").store, "create_vm", "throttle", times=2)
        here.deploy(manifest(group("a", 2)))
        found = scrape(client)

    def more(name: str) -> float:
        return found[name] - before.get(name, 0)

    assert more('coterie_cpi_call_seconds_count{driver="sandbox",method="create_vm"}') == 4
    assert more('coterie_cpi_errors_total{driver="sandbox",method="create_vm",code="throttled"}') == 2
    assert more('coterie_step_retries_total{flow="node.create",code="throttled"}') == 2
    assert more('coterie_step_moves_total{flow="node.create",move="done"}') == 2


def test_lost_leases_are_counted(context: AppContext, monkeypatch: pytest.MonkeyPatch) -> None:
    before = read(process.metrics_text())
    with site(context.ledger, context.state_folder.path) as here:
        monkeypatch.setattr(steps, "commit", lambda tx, outcomes, admitted: set())  # another has them by now
        start.deploy(context.ledger, here.request(manifest(group("a", 1))), None, None)
        step, whole = (f'coterie_lease_losses_total{{what="{what}"}}' for what in ("step", "conductor"))
        until(lambda: read(process.metrics_text()).get(step, 0) > before.get(step, 0), "no lost claim is counted", 60)
        here.conductor._lose()
    assert read(process.metrics_text())[whole] == before.get(whole, 0) + 1
