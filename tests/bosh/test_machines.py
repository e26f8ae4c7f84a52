"""create_vm under a Director's retries: one healthy machine per agent_id, or none."""

from __future__ import annotations

import time

import pytest

from coterie.bosh.recording.marks import vm_mark
from coterie.ledger.rows import objects
from coterie.ledger.store import Tx
from coterie.ledger.work import leases
from coterie.ledger.writes import execute
from coterie.sandbox import faults, vms
from coterie.sandbox.vm_shape import get_vm
from tests.bosh.program import DIRECTOR, PATIENCE_S, CpiFailure, Shop, heard, result


def bend(shop: Shop, method: str, mode: str, **more: object) -> None:
    faults.add(shop.account.datacenter.store, method, mode, times=1, **more)  # type: ignore[arg-type] # as given


def test_a_repeat_with_equal_arguments_answers_the_first(shop: Shop) -> None:
    stemcell = shop.stemcell()
    arguments = shop.vm_arguments("agent-1", stemcell)
    first = shop.call("create_vm", *arguments)
    assert shop.call("create_vm", *arguments) == first
    assert shop.inventory()["vm"] == [first[0]]


def test_the_mark_follows_from_director_and_agent(shop: Shop) -> None:
    cid = shop.create_vm("agent-1", shop.stemcell())
    found = shop.call("find", "vm", vm_mark(DIRECTOR, "agent-1", 0).wire())
    assert found["cid"] == cid


def test_other_arguments_replace_the_first(shop: Shop) -> None:
    stemcell = shop.stemcell()
    first = shop.create_vm("agent-1", stemcell)
    second = shop.create_vm("agent-1", stemcell, cpu=2)
    assert second != first
    assert shop.inventory()["vm"] == [second]
    assert shop.call("find", "vm", vm_mark(DIRECTOR, "agent-1", 1).wire())["cid"] == second


def test_an_unhealthy_first_is_replaced(shop: Shop) -> None:
    stemcell = shop.stemcell()
    first = shop.create_vm("agent-1", stemcell)
    bend(shop, "reboot_vm", "vm-error-state")
    shop.call("reboot_vm", first)
    assert get_vm(shop.account, first).state == "error"
    second = shop.create_vm("agent-1", stemcell)
    assert shop.inventory()["vm"] == [second] != [first]


def test_a_first_that_vanished_is_made_again(shop: Shop) -> None:
    stemcell = shop.stemcell()
    first = shop.create_vm("agent-1", stemcell)
    vms.delete_vm(shop.account, first)
    second = shop.create_vm("agent-1", stemcell)
    assert shop.inventory()["vm"] == [second]


def test_a_deleted_machine_may_come_again_under_its_agent(shop: Shop) -> None:
    stemcell = shop.stemcell()
    shop.call("delete_vm", shop.create_vm("agent-1", stemcell))
    second = shop.create_vm("agent-1", stemcell)
    assert shop.inventory()["vm"] == [second]


def test_a_lost_answer_is_settled_by_the_mark(shop: Shop) -> None:
    stemcell = shop.stemcell()
    bend(shop, "create_vm", "timeout-after-commit")
    cid = shop.create_vm("agent-1", stemcell)
    assert shop.inventory()["vm"] == [cid]


def test_a_call_that_was_never_done_may_be_retried(shop: Shop) -> None:
    stemcell = shop.stemcell()
    bend(shop, "create_vm", "timeout-before-commit")
    with pytest.raises(CpiFailure) as caught:
        shop.create_vm("agent-1", stemcell)
    assert caught.value.error["type"] == "Bosh::Clouds::VMCreationFailed"
    assert caught.value.error["ok_to_retry"] is True
    cid = shop.create_vm("agent-1", stemcell)
    assert shop.inventory()["vm"] == [cid]


@pytest.mark.parametrize(("mode", "code"), [("throttle", None), ("error", "unavailable")])
def test_a_passing_trouble_of_the_cloud_may_be_retried(shop: Shop, mode: str, code: str | None) -> None:
    stemcell = shop.stemcell()
    bend(shop, "create_vm", mode, code=code)
    with pytest.raises(CpiFailure) as caught:
        shop.create_vm("agent-1", stemcell)
    assert (caught.value.error["type"], caught.value.error["ok_to_retry"]) == ("Bosh::Clouds::VMCreationFailed", True)


def test_a_refusal_that_a_repeat_cannot_cure_is_not_retried(shop: Shop) -> None:
    with pytest.raises(CpiFailure) as caught:
        shop.create_vm("agent-1", shop.stemcell(), cpu=1000)
    assert caught.value.error["ok_to_retry"] is False


def test_the_machine_of_a_process_that_died_is_replaced_after_its_lease(shop: Shop) -> None:
    shop.configure(lease_s=0.3)
    stemcell = shop.stemcell()
    key = f"vm/lab/{DIRECTOR}/agent-1"
    with shop.ledger() as ledger, ledger.write() as tx:
        leases.take(tx, key, "dead", 0.3)
        intent = vm_mark(DIRECTOR, "agent-1", 0).intent
        execute(tx, objects.intend(intent, "vm", "lab", director=DIRECTOR, ref="agent-1"))
    cid = shop.create_vm("agent-1", stemcell)
    assert shop.inventory()["vm"] == [cid]
    with shop.ledger() as ledger, ledger.read() as tx:
        states = [row.state for row in objects.of_agent(tx, "lab", DIRECTOR, "agent-1")]
    assert states == ["gone", "live"]


def test_a_machine_that_comes_after_its_lease_was_taken_over_is_removed(shop: Shop) -> None:
    """The process sleeps over its call; meanwhile its claim ends, and another call gives its intent up."""
    stemcell = shop.stemcell()
    store = shop.account.datacenter.store
    faults.add(store, "create_vm", "hang", times=1)
    late = shop.start(shop.vm_request("agent-1", stemcell))
    give_up = time.monotonic() + PATIENCE_S
    while not any(fault.times == 0 for fault in faults.list_faults(store)):
        assert time.monotonic() < give_up
        time.sleep(0.02)
    with shop.ledger() as ledger, ledger.write() as tx:
        leases.release(tx, f"vm/lab/{DIRECTOR}/agent-1", _holder(tx))
        execute(tx, objects.record_gone(vm_mark(DIRECTOR, "agent-1", 0).intent, tombstone=True))
    successor = shop.create_vm("agent-1", stemcell)
    faults.clear(store)
    with pytest.raises(CpiFailure, match="came too late and was removed again"):
        result(heard(late))
    assert shop.inventory()["vm"] == [successor]


def _holder(tx: Tx) -> str:
    holder: str = tx.exec_driver_sql("SELECT holder FROM leases WHERE key LIKE 'vm/%'").scalar_one()
    return holder


def test_no_secret_of_a_machine_is_in_the_ledger(shop: Shop) -> None:
    shop.create_vm("agent-1", shop.stemcell(), group="bosh-dep-web")
    written = b"".join(file.read_bytes() for file in shop.folder.glob("ledger.db*"))
    assert b"agent-1" in written
    assert b"s3cret-hash" not in written


def test_an_old_stemcell_without_a_registry_is_refused_before_anything_is_made(shop: Shop) -> None:
    stemcell = shop.stemcell()
    old = {"stemcell": {"api_version": 1}}
    with pytest.raises(CpiFailure, match="no registry is configured"):
        shop.call("create_vm", *shop.vm_arguments("agent-1", stemcell), vm=old)
    shop.configure(registry={"listen": "127.0.0.1:0", "endpoint": "http://127.0.0.1:1", "user": "u", "password": "p"})
    with pytest.raises(CpiFailure, match="the core process, which serves the registry, does not run"):
        shop.call("create_vm", *shop.vm_arguments("agent-1", stemcell), vm=old)
    assert "vm" not in shop.inventory()
