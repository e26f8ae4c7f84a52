"""What work does beyond groups: planning without traces, health, looks, disks, cancel, doubt."""

from __future__ import annotations

import http.server
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from coterie.cpi.contract import Mark, SurveyPage
from coterie.cpi.drivers.sandbox.driver import SandboxCpi
from coterie.errors import Conflict, NotFound, Refused, StalePlan, Unreachable, UsageError
from coterie.ledger.rows import objects
from coterie.ledger.rows.clouds import CloudRow
from coterie.ledger.tables import metadata
from coterie.ledger.views.tasks import one as one_task
from coterie.requests import looks, settle_unknown, start
from coterie.requests.ask_clouds import ask
from coterie.requests.resurrection import resurrect
from coterie.sandbox import faults
from coterie.sandbox.datacenter import Datacenter, open_datacenter
from coterie.sandbox.reshape import kill_vm
from tests.requests.site import Site, group, manifest


def contents(site: Site) -> dict[str, list[Any]]:
    """Every row of every table but the facts and the heartbeat."""
    with site.ledger.read() as tx:
        return {
            name: sorted(map(repr, tx.execute(sa.select(table)).all()))
            for name, table in metadata.tables.items()
            if name not in ("facts", "conductors")
        }


def cloud(site: Site) -> dict[str, list[str]]:
    return {kind: sorted(map(repr, site.held(kind))) for kind in ("vm", "disk", "image", "server_group")}


def test_planning_leaves_no_trace_but_dated_facts(here: Site) -> None:
    text = manifest(group("a", 2, "placement: {policy: anti-affinity}, persistent_disk: 1024"))
    here.deploy(text)
    before, held = contents(here), cloud(here)
    changed = manifest(group("a", 3, "placement: {policy: soft-anti-affinity}, persistent_disk: 2048"), group("b", 1))
    plan = here.plan(changed)
    here.plan(None, delete=True)
    assert len(plan.changes) > 5
    assert contents(here) == before
    assert cloud(here) == held
    with here.ledger.read() as tx:
        dates = tx.execute(sa.select(metadata.tables["facts"].c.at)).scalars().all()
    assert all(dates)


def test_a_plan_of_another_state_is_refused(local: Site) -> None:
    text = manifest(group("a", 2))
    plan = local.plan(text)
    local.deploy(manifest(group("a", 1)))
    with pytest.raises(StalePlan):
        start.deploy(local.ledger, local.request(text), plan.id, "test")
    again = local.plan(text)
    local.wait(start.deploy(local.ledger, local.request(text), again.id, "test"))


def test_two_tasks_never_work_on_one_deployment(local: Site) -> None:
    _fault(local, "create_vm", "latency", ms=3000)
    text = local.request(manifest(group("a", 1)))
    task = start.deploy(local.ledger, text, None, "test")
    with pytest.raises(Conflict, match=f"task {task} is working"):
        start.deploy(local.ledger, local.request(manifest(group("a", 2))), None, "test")
    local.wait(task)


def test_disks_follow_their_node_through_recreation(here: Site) -> None:
    here.deploy(manifest(group("a", 2, "persistent_disk: 1024")))
    before = {disk.cid for disk in here.held("disk")}
    here.deploy(manifest(group("a", 2, "persistent_disk: 1024", stemcell="two")))
    assert {disk.cid for disk in here.held("disk")} == before
    for node in here.nodes().values():
        assert len(here.cpi().get_disks(node.vm_cid or "")) == 1


def test_disks_grow_in_place(here: Site) -> None:
    here.deploy(manifest(group("a", 1, "persistent_disk: 1024, tags: {x: y}")))
    vm = here.nodes()["a/0"].vm_cid
    here.deploy(manifest(group("a", 1, "persistent_disk: 2048, tags: {x: z}")))
    assert here.nodes()["a/0"].vm_cid == vm
    (disk,) = here.held("disk")
    with here.ledger.read() as tx:
        (row,) = [row for row in objects.of_node(tx, here.nodes()["a/0"].uuid) if row.kind == "disk"]
    assert (row.cid, row.size_mb) == (disk.cid, 2048)
    assert here.cpi().get_disks(vm or "") == [disk.cid]


def test_a_removed_nodes_disk_is_kept_until_it_is_deleted_on_request(here: Site) -> None:
    here.deploy(manifest(group("a", 1, "persistent_disk: 1024")))
    here.delete()
    assert here.objects("disk") == {"kept": 1}
    (disk,) = here.held("disk")
    with here.ledger.read() as tx:
        intent = tx.execute(sa.text("SELECT intent FROM objects WHERE kind = 'disk'")).scalar_one()
    here.wait(start.delete_kept_disks(here.ledger, [intent], "test"))
    assert here.held("disk") == []
    with pytest.raises(Conflict, match="gone, not kept"):
        start.delete_kept_disks(here.ledger, [intent], "test")
    assert disk.cid


def test_disks_that_were_kept_go_with_their_deployment_if_told_so(here: Site) -> None:
    disks = manifest(group("a", 3, "persistent_disk: 1024"))
    here.deploy(disks)
    here.deploy(manifest(group("a", 1, "persistent_disk: 1024")))
    assert here.objects("disk") == {"live": 1, "kept": 2}
    (note,) = here.plan(disks).notes
    assert "new, empty disks for a/1, a/2" in note
    plain = here.plan(delete=True)
    assert [change.kind for change in plain.changes] == ["node", "stemcell"]
    assert "kept disks of earlier nodes stay, with their data (2, together 2048 MiB)" in plain.notes[0]
    doomed = [change for change in here.plan(delete=True, delete_disks=True).changes if change.kind == "disk"]
    assert [(one.action, one.destructive, one.subject[:4]) for one in doomed] == [
        ("delete", True, "a/1 "),
        ("delete", True, "a/2 "),
    ]
    here.delete(delete_disks=True)
    assert here.objects("disk") == {"gone": 3}
    assert here.held("disk") == []


def test_a_kept_disk_whose_deletion_failed_is_deleted_by_the_next_try(local: Site) -> None:
    local.deploy(manifest(group("a", 2, "persistent_disk: 1024")))
    local.deploy(manifest(group("a", 1, "persistent_disk: 1024")))
    _fault(local, "delete_disk", "error", retryable=False)
    local.delete("failed", delete_disks=True)
    assert local.objects("disk")["deleting"] == 2
    faults.clear(_datacenter(local).store)
    local.delete(delete_disks=True)
    assert local.held("disk") == []


def test_a_disk_in_use_cannot_be_deleted(local: Site) -> None:
    local.deploy(manifest(group("a", 1, "persistent_disk: 1024")))
    with local.ledger.read() as tx:
        intent = tx.execute(sa.text("SELECT intent FROM objects WHERE kind = 'disk'")).scalar_one()
    with pytest.raises(Conflict, match="live, not kept"):
        start.delete_kept_disks(local.ledger, [intent], "test")


@contextmanager
def web(address: str, status: int) -> Iterator[int]:
    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    server = http.server.ThreadingHTTPServer((address, 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


def health(kind: str, port: int, more: str = "") -> str:
    return (
        f"health: {{kind: {kind}, port: {port}, interval_s: 0.1, timeout_s: 1{more}}}, update: {{canary_watch_s: 0.5}}"
    )


@pytest.mark.parametrize("kind", ["tcp", "http"])
def test_a_node_is_up_when_its_health_check_passes(local: Site, kind: str) -> None:
    with web("127.20.0.2", 200) as port:
        local.deploy(manifest(group("a", 1, health(kind, port), azs="z1")))
    assert local.nodes()["a/0"].state == "up"


def test_a_node_whose_check_fails_is_failing_and_stops_its_canary_stage(local: Site) -> None:
    with web("127.20.0.2", 500) as port:
        task = local.deploy(manifest(group("a", 3, health("http", port), azs="z1")), expect_state="failed")
    assert {name: node.state for name, node in local.nodes().items()} == {
        "a/0": "failing",
        "a/1": "planned",
        "a/2": "planned",
    }
    (failure,) = local.task(task).report["failures"]
    assert "answered 500, not 200" in failure["error"]["why"]


def test_nothing_listens_is_said_plainly(local: Site) -> None:
    task = local.deploy(manifest(group("a", 1, health("tcp", 9), azs="z1")), expect_state="failed")
    assert "port 9" in local.task(task).report["failures"][0]["error"]["why"]


def test_one_failing_node_does_not_stop_the_others(here: Site) -> None:
    with web("127.20.0.2", 200) as port:
        text = manifest(group("a", 4, health("tcp", port) + "", azs="z1")).replace("canary_watch_s: 0.5", "canaries: 0")
        text = text.replace("update_watch_s: 5", "update_watch_s: 0.5")
        task = here.deploy(text, expect_state="failed")
    states = {name: node.state for name, node in here.nodes().items()}
    assert states == {"a/0": "up", "a/1": "failing", "a/2": "failing", "a/3": "failing"}
    assert here.task(task).report["steps"] == {"done": 2, "failed": 3}


def look(site: Site) -> None:
    task = looks.look(site.ledger)
    assert task is not None
    site.wait(task)


def test_a_look_reports_what_is_dead_or_gone_and_what_is_back(here: Site) -> None:
    here.deploy(manifest(group("a", 3)))
    nodes = here.nodes()
    here.cpi().delete_vm(nodes["a/0"].vm_cid or "")
    kill_vm(_datacenter(here), nodes["a/1"].vm_cid or "")
    look(here)
    assert {name: node.state for name, node in here.nodes().items()} == {"a/0": "missing", "a/1": "dead", "a/2": "up"}
    assert here.nodes()["a/0"].problem == {"code": "vm_missing", "what": f"VM {nodes['a/0'].vm_cid} is not there"}
    here.cpi().reboot_vm(nodes["a/1"].vm_cid or "")
    look(here)
    assert here.nodes()["a/1"].state == "up"


def test_resurrection_makes_only_the_dead_anew(here: Site) -> None:
    here.deploy(manifest(group("a", 3), extra="resurrection: true\n"))
    before = {name: node.vm_cid for name, node in here.nodes().items()}
    here.cpi().delete_vm(before["a/1"] or "")
    look(here)
    task = resurrect(here.ledger, "dep")
    assert task is not None
    here.wait(task)
    after = {name: node.vm_cid for name, node in here.nodes().items()}
    assert [name for name in before if before[name] != after[name]] == ["a/1"]
    assert len(here.held("vm")) == 3
    assert resurrect(here.ledger, "dep") is None


def test_cancel_leaves_a_state_from_which_a_deploy_goes_on(here: Site) -> None:
    _fault(here, "create_vm", "latency", ms=100)
    text = manifest(group("a", 30)).replace("max_in_flight: 50", "max_in_flight: 2")
    task = start.deploy(here.ledger, here.request(text), None, "test")
    _until(lambda: any(node.state == "up" for node in here.nodes().values()))
    assert start.cancel(here.ledger, task)
    here.wait(task, "cancelled")
    assert not start.cancel(here.ledger, task)
    states = [node.state for node in here.nodes().values()]
    assert 0 < states.count("up") < 30
    with here.ledger.read() as tx:
        stages = {stage["name"]: stage for stage in one_task(tx, task)["stages"]}
    assert stages["canaries of a"]["state"] == "done"
    assert stages["a in z2"]["state"] == "cancelled"
    assert stages["a in z2"]["cancelled_steps"] == stages["a in z2"]["total"]
    faults.clear(_datacenter(here).store)
    plan = here.plan(manifest(group("a", 30)))
    assert plan.counts() == {"create": states.count("planned")}
    assert not plan.destructive
    again = here.deploy(manifest(group("a", 30)))
    assert "node.recreating" not in here.kinds(again)
    assert len(here.held("vm")) == 30


def test_bad_requests_change_nothing(local: Site) -> None:
    before = contents(local)
    with pytest.raises(UsageError, match="needs a manifest"):
        local.plan(None)
    with pytest.raises(NotFound):
        local.deploy(None, delete=True)
    with pytest.raises(NotFound):
        start.cancel(local.ledger, 99)
    with pytest.raises(Refused, match="not in the catalogue"):
        local.plan(manifest(group("a", 1)).replace("version: '1'", "version: '77'"))
    with pytest.raises(UsageError, match="no cloud config"):
        start.plan(local.ledger, start.PlanRequest(manifest=manifest(group("a", 1))))
    assert contents(local) == before


def test_a_cloud_in_use_cannot_leave_the_config(local: Site) -> None:
    local.deploy(manifest(group("a", 1)))
    other = local.config.replace("name: lab", "name: elsewhere").replace("cloud: lab", "cloud: elsewhere")
    with pytest.raises(Conflict, match="leaves out lab"):
        start.set_cloud_config(local.ledger, other, "c.yml")


def test_a_person_can_settle_what_no_cloud_can_tell(local: Site) -> None:
    local.deploy(manifest(group("a", 1)))
    with local.ledger.write() as tx:
        tx.execute(sa.text("UPDATE objects SET state = 'unknown', cid = NULL WHERE kind = 'vm'"))
        intent = tx.execute(sa.text("SELECT intent FROM objects WHERE kind = 'vm'")).scalar_one()
    settle_unknown.settle(local.ledger, intent, None)
    with local.ledger.read() as tx:
        assert (objects.get(tx, intent) or pytest.fail("gone")).state == "gone"
    with pytest.raises(Conflict, match="nothing to settle"):
        settle_unknown.settle(local.ledger, intent, "vm-1")


def _lose_vm(site: Site, intent: str | None) -> None:
    with site.ledger.write() as tx:
        tx.execute(sa.text(f"UPDATE objects SET state = 'unknown', cid = NULL WHERE intent = '{intent}'"))
        tx.execute(sa.text(f"UPDATE nodes SET vm_cid = NULL WHERE vm_intent = '{intent}'"))


def test_a_settled_object_must_carry_the_mark_and_have_no_other_user(local: Site) -> None:
    local.deploy(manifest(group("a", 2)))
    lost, other = sorted(local.nodes().values(), key=lambda node: node.name)
    _lose_vm(local, lost.vm_intent)
    for wrong in (other.vm_cid, "vm-of-a-stranger"):
        with pytest.raises(Conflict, match="does not carry the mark"):
            settle_unknown.settle(local.ledger, str(lost.vm_intent), wrong)
    settle_unknown.settle(local.ledger, str(lost.vm_intent), lost.vm_cid)
    with local.ledger.read() as tx:
        assert (objects.get(tx, str(lost.vm_intent)) or pytest.fail("gone")).cid == lost.vm_cid


def test_where_a_cloud_cannot_find_a_settled_object_must_have_no_other_user(
    local: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    local.deploy(manifest(group("a", 2)))
    lost, other = sorted(local.nodes().values(), key=lambda node: node.name)
    _lose_vm(local, lost.vm_intent)
    monkeypatch.setattr(settle_unknown, "ask", lambda *_: [{"able": False, "cid": None}])
    with pytest.raises(Conflict, match=f"belongs to node {other.deployment}"):
        settle_unknown.settle(local.ledger, str(lost.vm_intent), other.vm_cid)


def test_a_vm_that_only_left_the_list_is_up(local: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    local.deploy(manifest(group("a", 1)))
    monkeypatch.setattr(SandboxCpi, "survey", lambda *_: SurveyPage((), None, True, 1))
    look(local)
    assert local.nodes()["a/0"].state == "up"


def test_questions_without_an_answer_end_with_a_remedy(local: Site) -> None:
    local.conductor.drain(5.0)
    with pytest.raises(Unreachable, match="no conductor answered for cloud lab"):
        ask(local.ledger, [(CloudRow("lab", "sandbox", {}, ""), "check", {})], timeout_s=0.2)
    local.conductor = local.new_conductor("c2")
    local.conductor.start()


def test_marks_are_on_everything_we_make(local: Site) -> None:
    local.deploy(manifest(group("a", 1, "persistent_disk: 1024, placement: {policy: affinity}")))
    for kind in ("vm", "disk", "image", "server_group"):
        (found,) = local.held(kind)
        assert isinstance(found.mark, Mark)
        assert found.mark.director == local.director.uuid


# -- the sandbox's own levers --


def _datacenter(site: Site) -> Datacenter:
    site.cpi().check()  # begun by its first use
    return open_datacenter(site.folder / "sandbox.db")


def _fault(site: Site, method: str, mode: str, **values: Any) -> None:
    faults.add(_datacenter(site).store, method, mode, **values)


def _until(reached: Any) -> None:
    give_up = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < give_up
        time.sleep(0.01)


def test_what_stands_on_a_failed_stage_is_skipped_and_the_task_ends(local: Site) -> None:
    _fault(local, "create_image", "error", retryable=False)
    task = local.deploy(manifest(group("a", 4), group("b", 2)), expect_state="failed")
    assert local.task(task).report["steps"] == {"failed": 1, "skipped": 6}
    faults.clear(_datacenter(local).store)
    local.deploy(manifest(group("a", 4), group("b", 2)))
    assert len(local.held("image")) == 1


_BELONGINGS = ("stages", "steps", "events")


def test_old_looks_are_forgotten_with_all_that_belongs_to_them(local: Site) -> None:
    local.deploy(manifest(group("a", 1)))
    for _ in range(23):
        look(local)
    with local.ledger.read() as tx:
        kept = set(tx.execute(sa.text("SELECT id FROM tasks")).scalars())
        owners = {name: set(tx.execute(sa.text(f"SELECT task FROM {name}")).scalars()) for name in _BELONGINGS}
    assert len(kept) == 1 + 21
    assert all(found == kept for found in owners.values())


def test_a_failing_cloud_is_named_by_the_plan(local: Site) -> None:
    local.config = local.config.replace("settle_s: 0.1", "settle_s: 0.1, state: /dev/null/x")
    with pytest.raises(Refused, match=r"cloud lab: credentials: .*/dev/null/x: .*File exists"):
        local.plan(manifest(group("a", 1)))
