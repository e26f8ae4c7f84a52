"""Hostile strings in every name, tag, error and event: nothing of them runs, and all of them are shown as text."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest
import sqlalchemy as sa
from playwright.sync_api import Browser

from coterie.director.console.drawing import placement_map, time_line
from coterie.ledger import tables
from tests.console.conftest import open_screen
from tests.console.world import World, world
from tests.ledger.views import rows

HOSTILE = "\"'><img src=x onerror=hit(1)><script>hit(2)</script>{{7*7}}</title></svg><a href=javascript:hit(3)>"
ERROR = {"code": HOSTILE, "what": HOSTILE, "why": HOSTILE, "remedy": HOSTILE}


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("hostile")) as found:
        found.deploy()
        found.survey()
        poison(found)
        yield found


def poison(there: World) -> None:
    """Rows as a cloud, a driver or an older release might have written them."""
    ledger, bad = there.context.ledger, HOSTILE
    rows.deployment(ledger, bad, manifest=f"name: {bad}")
    rows.put(ledger, "manifests", deployment=bad, body=bad, requested_by=bad, created_at=1.0)
    rows.put(ledger, "manifests", deployment=bad, body=f"{bad}\n2", requested_by=bad, created_at=2.0)
    node = {"deployment": bad, "instance_group": bad, "index": 0, "az": bad, "cloud": "lab", "state": "failing"}
    rows.put(
        ledger, "nodes", uuid="bad-node", **node, host=bad, vm_cid=bad, addresses={bad: bad}, problem=ERROR,
        server_group="bad-group", created_at=1.0, updated_at=1.0,
    )  # fmt: skip
    rows.put(
        ledger, "server_groups", intent="bad-group", deployment=bad, name=bad, cloud="lab", cid=bad,
        policy="anti-affinity", state="live", drift=[bad], metadata=_metadata(there), created_at=1.0,
    )  # fmt: skip
    for intent, kind, state in (("bad-disk", "disk", "kept"), ("bad-doubt", "vm", "unknown")):
        rows.cloud_object(ledger, intent, kind=kind, state=state, cid=bad, ref=bad, deployment=bad)
    task = {
        "kind": bad,
        "state": "failed",
        "requested_by": bad,
        "report": {"failures": [{"subject": bad, "error": ERROR}]},
    }
    rows.task(ledger, 900, deployment=bad, **task, ended_at=3.0)
    rows.stage(ledger, 900, 0, name=bad, total=1)
    rows.step(
        ledger, 900, 900, subject=bad, label=bad, flow=bad, state="failed", error=ERROR, started_at=1.0, ended_at=2.0
    )
    rows.put(ledger, "events", task=900, n=1, at=1.0, kind=bad, subject=bad, body=bad, data={bad: bad})
    record = dict.fromkeys(("who", "role", "peer", "method", "path", "outcome", "made"), bad)
    rows.put(ledger, "events", task=None, n=0, at=1.0, kind="audit", subject=bad, body=bad, data=record)
    rows.put(ledger, "stemcells", name=bad, version=bad, os=bad, cloud_properties={}, formats=[], created_at=1.0)
    finding = {"verdict": "orphan", "action": "none", "reason": bad, "evidence": [bad], "used_by": [bad]}
    rows.put(ledger, "findings", cleanup=1, cloud="lab", kind="vm", cid=bad, name=bad, **finding)
    rows.put(ledger, "suspects", cloud="lab", kind="disk", cid=bad, since=1.0, doomed=True, cleanup=1, created_at=1.0)
    rows.put(ledger, "cloud_alarms", cloud="lab", kind=bad, since=1.0, body=bad)
    rows.put(
        ledger, "conductors", name=bad, incarnation="1", conductor_group=bad, drivers=[bad], release=bad,
        started_at=1.0, heartbeat=1.0,
    )  # fmt: skip


def _metadata(there: World) -> object:
    """Of a real group: the audit reads it."""
    table = tables.metadata.tables["server_groups"]
    with there.context.ledger.read() as tx:
        return tx.execute(sa.select(table.c.metadata)).scalar()


PAGES = (
    "/", "/deployments", "/tasks?looks=yes", "/tasks/900", "/events", "/events?kind=audit", "/access", "/placement",
    "/placement/audit", "/cleanup", "/cleanup/1", "/clouds", "/ring", "/nodes/bad-node", "/wizard", "/clouds/config",
    *(f"/deployments/{{bad}}{tab}" for tab in ("", "/groups", "/disks", "/history", "/events", "/edit")),
    "/events?subject={bad}", "/tasks?deployment={bad}", "/placement?deployment={bad}", "/placement?rack={bad}",
    "/login?next={bad}", "/{bad}", "/ring?without={bad}", "/cleanup/1?verdict={bad}",
)  # fmt: skip


def test_nothing_of_them_runs_on_any_page(there: World, browser: Browser) -> None:
    with open_screen(there, browser, there.token("admin")) as screen:
        screen.page.add_init_script("window.hits = []; window.hit = (n) => window.hits.push(n);")
        screen.expected = ["status of 4"]
        for path in PAGES:
            page = screen.go(path.replace("{bad}", quote(HOSTILE, safe="")))
            page.wait_for_timeout(50)
            assert page.evaluate("window.hits") == [], path
            assert page.locator("img[src='x'], script:not([src]), a[href^='javascript:']").count() == 0, path
            assert "failed unexpectedly" not in page.content(), path
            assert "49</" not in page.content(), path  # a template that was rendered twice
        screen.end()


def test_they_are_shown_as_text(there: World, browser: Browser) -> None:
    with open_screen(there, browser, there.token("admin")) as screen:
        for path in ("/", "/tasks/900", "/nodes/bad-node", "/cleanup/1", "/clouds", "/placement"):
            page = screen.go(path)
            assert HOSTILE in page.locator("main").inner_text(), path


def test_pictures_escape_what_they_draw(there: World) -> None:
    found = {
        "racks": [{"key": f"{HOSTILE}/{HOSTILE}/{HOSTILE}", "cloud": HOSTILE, "az": HOSTILE, "rack": HOSTILE,
                   "hosts": 1, "nodes": 1, "unhealthy": 1, "groups": {HOSTILE: 1}}],
        "nodes": [{"deployment": HOSTILE, "node": HOSTILE, "state": HOSTILE, "cloud": HOSTILE, "az": HOSTILE,
                   "rack": HOSTILE, "host": HOSTILE, "group": HOSTILE}],
        "hosts": [{"cloud": HOSTILE, "az": HOSTILE, "rack": HOSTILE, "name": HOSTILE}],
        "groups": [{"intent": HOSTILE, "deployment": HOSTILE, "name": HOSTILE, "policy": HOSTILE, "promise": HOSTILE,
                    "cloud": HOSTILE, "holds": False, "why": HOSTILE, "down": {HOSTILE: HOSTILE}}],
    }  # fmt: skip
    drawing = placement_map.draw(found)
    racks = placement_map.draw({**found, "nodes": [], "hosts": []})
    assert drawing.detailed and not racks.detailed
    step = {"id": 1, "stage": 0, "subject": HOSTILE, "label": HOSTILE, "flow": HOSTILE, "state": "done", "attempt": 1,
            "started_at": "2026-01-01T00:00:00.000Z", "ended_at": "2026-01-01T00:00:01.000Z"}  # fmt: skip
    task = {"created_at": "2026-01-01T00:00:00.000Z", "stages": [{"n": 0, "name": HOSTILE}]}
    texts = (
        racks.inline(),
        drawing.inline(),
        drawing.file(),
        placement_map.document(drawing, found),
        time_line.draw([step], task),
    )
    for text in texts:
        assert "<img" not in text and "<script" not in text and "<a href=java" not in text
