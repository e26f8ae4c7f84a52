"""Ways that once led to something lost, doubled or stuck."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest
import sqlalchemy as sa

from coterie.cleanup.cpi_method import CleanupArgs, cleanup
from coterie.conductor.process import Conductor
from coterie.cpi.contract import OutcomeUnknown
from coterie.cpi.drivers.sandbox.machines import Machines
from coterie.errors import Conflict, StalePlan
from coterie.ledger.rows import deployments, objects
from coterie.ledger.store import Ledger
from coterie.ledger.work import steps, tasks
from coterie.ledger.work.steps import Outcome
from coterie.ledger.work.tasks import NewStage, NewStep, NewTask
from coterie.requests import start
from coterie.requests.draft import accept_draft, draft_plan
from coterie.requests.resurrection import resurrect
from coterie.sandbox import faults, reshape, vms
from coterie.sandbox.accounts import open_account
from coterie.sandbox.datacenter import open_datacenter
from coterie.sandbox.fit import Demand
from tests.ledger import alone
from tests.requests.site import Site, group, manifest
from tests.requests.test_groups import SOFT, _delete_behind_our_back, group_cid
from tests.requests.test_work import _datacenter, _fault, _until, look


def test_an_upload_that_was_cancelled_is_taken_up_again(here: Site) -> None:
    _fault(here, "create_image", "throttle", ms=15_000, times=1)
    task = start.deploy(here.ledger, here.request(manifest(group("a", 1))), None, None)
    _until(lambda: "step.retry" in here.kinds(task))
    start.cancel(here.ledger, task)
    here.wait(task, "cancelled")
    plan = here.plan(manifest(group("a", 1)))
    assert [c.reason for c in plan.changes if c.kind == "stemcell"] == ["not finished last time"]
    here.deploy(manifest(group("a", 1)))
    assert len(here.held("image")) == 1


def test_resurrection_into_a_missing_group_fails_with_the_remedy(local: Site) -> None:
    local.deploy(manifest(group("a", 1, SOFT), extra="resurrection: true\n"))
    _delete_behind_our_back(local)
    reshape.kill_vm(_datacenter(local), local.nodes()["a/0"].vm_cid or "")
    look(local)
    task = resurrect(local.ledger, "dep")
    local.wait(task or 0, "failed")
    (failure,) = local.task(task or 0).report["failures"]
    assert failure["error"]["code"] == "group_missing"
    assert failure["error"]["remedy"]


def test_resurrection_makes_a_node_as_it_was(local: Site) -> None:
    text = manifest(group("a", 1), extra="resurrection: true\n")
    local.deploy(text, auto_anti_affinity=True)
    before = local.nodes()["a/0"]
    local.cpi().delete_vm(before.vm_cid or "")
    look(local)
    local.wait(resurrect(local.ledger, "dep") or 0)
    after = local.nodes()["a/0"]
    assert after.vm_cid != before.vm_cid
    assert (after.spec, after.server_group, after.addresses) == (before.spec, before.server_group, before.addresses)
    with local.ledger.read() as tx:
        assert tx.execute(sa.text("SELECT count(*) FROM server_group_users")).scalar_one() == 1


def test_two_commits_that_close_two_stages_open_the_third(postgres_url: str) -> None:
    ledger = Ledger.open(postgres_url)
    first = [NewStage(name, [NewStep("flow", "begin", name, {})]) for name in ("a", "b")]
    last = NewStage("c", [NewStep("flow", "begin", "c", {})], [(0, "done"), (1, "done")])
    with ledger.write() as tx:
        tasks.create(tx, NewTask("t", None, [*first, last]))
        a, b = alone.claim(tx)
    inside, go = threading.Event(), threading.Event()

    def slow() -> None:
        with ledger.write() as tx:
            steps.commit(tx, [Outcome(a, "done", "begin", {})])
            inside.set()
            go.wait(60)

    def quick() -> None:
        with ledger.write() as tx:
            steps.commit(tx, [Outcome(b, "done", "begin", {})])

    one, two = threading.Thread(target=slow), threading.Thread(target=quick)
    one.start()
    inside.wait(60)
    two.start()
    two.join(0.5)
    go.set()
    one.join()
    two.join()
    with ledger.write() as tx:
        assert [c.subject for c in alone.claim(tx)] == ["c"]
    ledger.close()


def test_a_config_that_was_set_meanwhile_is_not_reverted(local: Site) -> None:
    local.deploy(manifest(group("a", 1)))
    draft = draft_plan(local.ledger, start.PlanRequest(manifest=manifest(group("a", 2))))
    newer = local.config.replace("ram_mb: 512", "ram_mb: 768")
    start.set_cloud_config(local.ledger, newer, "c.yml")
    with pytest.raises(StalePlan):
        accept_draft(local.ledger, draft, "deploy", None)


def test_a_deploy_may_not_drop_a_cloud_in_use(local: Site) -> None:
    local.deploy(manifest(group("a", 1)))
    other = local.config.replace("name: lab", "name: elsewhere").replace("cloud: lab", "cloud: elsewhere")
    local.config = other
    with pytest.raises(Conflict, match="leaves out lab"):
        local.deploy(manifest(group("a", 1)).replace("name: dep", "name: dep2"))


def test_two_deployments_at_once_bring_one_image(here: Site) -> None:
    start.set_cloud_config(here.ledger, here.config, "c.yml")
    texts = [manifest(group("a", 1)).replace("name: dep", f"name: dep{i}") for i in range(2)]
    drafts = [draft_plan(here.ledger, start.PlanRequest(manifest=text)) for text in texts]
    first = accept_draft(here.ledger, drafts[0], "deploy", None)
    with pytest.raises(Conflict):  # the second wants the address that the first got meanwhile
        accept_draft(here.ledger, drafts[1], "deploy", None)
    second = start.deploy(here.ledger, start.PlanRequest(manifest=texts[1]), None, None)
    here.wait(first)
    here.wait(second)
    assert len(here.held("image")) == 1


def test_an_image_that_came_into_use_stays(local: Site) -> None:
    local.deploy(manifest(group("a", 1)))
    removal = draft_plan(local.ledger, start.PlanRequest(deployment="dep", delete=True))
    local.deploy(manifest(group("b", 1)).replace("name: dep", "name: other"))
    local.wait(accept_draft(local.ledger, removal, "delete", None))
    assert len(local.held("image")) == 1
    assert local.nodes("other")["b/0"].state == "up"


def test_of_deployments_that_are_deleted_at_once_the_last_takes_their_common_image(here: Site) -> None:
    names = ["dep", "two"]
    for name in names:
        here.deploy(manifest(group("a", 2)).replace("name: dep", f"name: {name}"))
    drafts = [draft_plan(here.ledger, start.PlanRequest(deployment=name, delete=True)) for name in names]
    for task in [accept_draft(here.ledger, draft, "delete", None) for draft in drafts]:
        here.wait(task)
    assert here.held("image") == []
    assert here.objects("image") == {"gone": 1}


def test_an_image_stays_for_a_deployment_that_is_accepted_while_its_users_are_counted(
    here: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.deploy(manifest(group("a", 1)))
    other = manifest(group("b", 1)).replace("name: dep", "name: other")
    drafts, accepted, count = [draft_plan(here.ledger, start.PlanRequest(manifest=other))], [], objects.stemcell_users

    def count_then_accept(*arguments: Any) -> int:
        found = count(*arguments)
        if drafts:
            accepted.append(accept_draft(here.ledger, drafts.pop(), "deploy", None))
        return found

    monkeypatch.setattr(objects, "stemcell_users", count_then_accept)
    here.delete()
    here.wait(accepted[0])
    assert here.objects("image") == {"live": 1}
    assert here.nodes("other")["b/0"].state == "up"


def test_an_image_that_others_use_stays_with_the_last_deployment(local: Site) -> None:
    local.deploy(manifest(group("a", 1)))
    (image,) = local.held("image")
    account = open_account(open_datacenter(local.folder / "sandbox.db", create=False), "lab", operator=True)
    theirs = vms.create_vm(account, name="theirs", size=Demand(1, 1, 0, "z1"), image=image.cid, start=False).id
    local.delete()
    assert [one.cid for one in local.held("image")] == [image.cid]
    vms.delete_vm(account, theirs)
    local.deploy(manifest(group("a", 1)))
    local.delete()
    assert local.held("image") == []


def test_an_address_is_free_only_when_its_vm_is_gone(local: Site) -> None:
    local.config = local.config.replace("127.20.0.1,", "127.20.0.1, static: [127.20.9.1 - 127.20.9.9],")
    static = "networks: [{name: net, static_ips: [127.20.9.%d]}]"

    def text_of(name: str, last: int) -> str:
        text = manifest(group("a", 1, azs="z1")).replace("name: dep", f"name: {name}")
        return text.replace("networks: [{name: net}]", static % last)

    local.deploy(text_of("dep", 1))
    _fault(local, "delete_vm", "latency", ms=700)
    task = start.deploy(local.ledger, local.request(text_of("dep", 2)), None, None)
    with local.ledger.read() as tx:
        held = set(tx.execute(sa.text("SELECT ip FROM addresses")).scalars())
    assert held == {"127.20.9.1", "127.20.9.2"}
    local.wait(task)
    with local.ledger.read() as tx:
        assert list(tx.execute(sa.text("SELECT ip FROM addresses")).scalars()) == ["127.20.9.2"]
    assert local.nodes()["a/0"].addresses == {"net": "127.20.9.2"}


def test_a_disk_in_doubt_is_settled_before_it_is_kept(local: Site) -> None:
    _fault(local, "create_disk", "timeout-after-commit", times=1)
    _fault(local, "list_disks", "error")
    task = start.deploy(local.ledger, local.request(manifest(group("a", 1, "persistent_disk: 1024"))), None, None)
    _until(lambda: "object.doubt" in local.kinds(task))
    start.cancel(local.ledger, task)
    faults.clear(_datacenter(local).store)
    local.wait(task, "cancelled")
    local.deploy(manifest(group("a", 1)))
    with local.ledger.read() as tx:
        rows = tx.execute(sa.text("SELECT state, cid FROM objects WHERE kind = 'disk'")).all()
    assert [(row.state, bool(row.cid)) for row in rows] == [("kept", True)]


def test_a_vm_that_can_never_be_finished_ends_the_step_and_is_finished_later(
    local: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Machines.create

    def lose_the_answer(self: Machines, *args: Any, **kwargs: Any) -> Any:
        if not local.held("vm"):
            original(self, *args, **kwargs)
            raise OutcomeUnknown("the answer was lost")
        raise OutcomeUnknown("the VM is there, but could not be finished", remedy="correct it", retryable=False)

    with monkeypatch.context() as patch:
        patch.setattr(Machines, "create", lose_the_answer)
        local.deploy(manifest(group("a", 1)), expect_state="failed")
    with local.ledger.read() as tx:
        rows = tx.execute(sa.text("SELECT state FROM objects WHERE kind = 'vm'")).scalars()
        assert list(rows) == ["unknown"]
    local.deploy(manifest(group("a", 1)))
    assert [vm.cid for vm in local.held("vm")] == [local.nodes()["a/0"].vm_cid]


def test_a_group_that_was_never_made_is_not_live(local: Site) -> None:
    _fault(local, "create_server_group", "error", retryable=False)
    local.deploy(manifest(group("a", 1, SOFT)), expect_state="failed")
    _fault(local, "delete_server_group", "error", retryable=False)
    _fault(local, "list_server_groups", "error", retryable=False)
    faults.clear(_datacenter(local).store)
    local.deploy(manifest(group("a", 1)))
    local.deploy(manifest(group("a", 1, SOFT)))
    assert group_cid(local).startswith("cg-")


def test_a_kind_without_evidence_is_never_swept(local: Site) -> None:
    local.deploy(manifest(group("a", 1, "persistent_disk: 1024")))
    local.delete()
    known: dict[str, list[str]] = {"vm": []}
    report: dict[str, Any] = cleanup(local.cpi(), local.director.uuid, known, CleanupArgs(dry_run=False, grace_s=0.0))
    assert report["disk"]["deleted"] == []
    assert len(local.held("disk")) == 1
    assert {found["verdict"] for found in report["disk"]["found"]} == {"keep"}


def test_a_first_deployment_of_one_name_twice_is_a_conflict(here: Site) -> None:
    def save(results: list[BaseException | None], gate: threading.Barrier) -> None:
        try:
            with here.ledger.write() as tx:
                if here.ledger.dialect == "postgresql":
                    gate.wait(60)
                deployments.save(tx, "twin", manifest="", config_id=0, resurrection=False)
            results.append(None)
        except Conflict as conflict:
            results.append(conflict)

    results: list[BaseException | None] = []
    gate = threading.Barrier(2)
    threads = [threading.Thread(target=save, args=(results, gate)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 2
    assert results.count(None) >= 1


@pytest.mark.parametrize("kind", ["vm", "image", "disk"])
def test_what_is_found_by_its_mark_is_finished_before_it_is_used(local: Site, kind: str) -> None:
    """Its creator may have died half-way: a VM that was never powered on, an image without its last byte."""
    calls: Counter[str] = Counter()
    local.conductor.drain(5.0)
    local.conductor = Conductor(
        local.ledger, "c", state_folder=local.folder, observe=lambda method, seconds, error: calls.update([method])
    )
    local.conductor.start()
    _fault(local, f"create_{kind}", "timeout-after-commit", times=1)
    task = local.deploy(manifest(group("a", 1, "persistent_disk: 1024")))
    assert "object.reclaimed" in local.kinds(task)
    assert calls["create_stemcell" if kind == "image" else f"create_{kind}"] == 2
    assert len(local.held(kind)) == 1
