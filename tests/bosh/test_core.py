"""The core process: one answer per client, work that outlives its client, and a client that manages without it."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

from coterie.bosh.client.in_process import respond
from coterie.sandbox import faults
from coterie.sandbox.calls import counts, switch_log
from tests.bosh.program import PATIENCE_S, Shop, heard, result


def until(true: object) -> None:
    assert callable(true)
    give_up = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < give_up
        time.sleep(0.02)


def hang(shop: Shop, method: str) -> None:
    faults.add(shop.account.datacenter.store, method, "hang", times=1)


def release(shop: Shop) -> None:
    faults.clear(shop.account.datacenter.store)


def hanging(shop: Shop) -> bool:
    """A used-up hang stays listed until its call goes on."""
    return any(fault.times == 0 for fault in faults.list_faults(shop.account.datacenter.store))


def test_the_socket_is_for_its_user_only_and_goes_with_the_core(shop: Shop) -> None:
    with shop.core():
        mode = shop.socket.stat().st_mode
        assert stat.S_ISSOCK(mode)
        assert stat.S_IMODE(mode) == 0o600
    assert not shop.socket.exists()


def test_the_core_does_the_work_and_the_client_imports_none_of_it(shop: Shop) -> None:
    stemcell = shop.stemcell()
    with shop.core():
        made = result(shop.run(shop.vm_request("agent-1", stemcell)).stdout)
        # With the configuration away, only the core can have known what to do.
        shop.config.rename(shop.folder / "elsewhere")
        assert result(shop.run(shop.request("has_vm", made[0])).stdout) is True


def test_without_the_core_the_program_works_alone(shop: Shop) -> None:
    with shop.core():
        stemcell = result(shop.run(shop.request("create_stemcell", str(shop.image), {})).stdout)
    assert result(shop.run(shop.request("delete_stemcell", stemcell)).stdout) is None
    assert shop.inventory() == {}


def test_a_call_whose_client_dies_goes_on_and_its_result_is_not_lost(shop: Shop) -> None:
    stemcell = shop.stemcell()
    request = shop.vm_request("agent-1", stemcell)
    with shop.core():
        hang(shop, "create_vm")
        client = shop.start(request)
        until(lambda: hanging(shop))
        client.kill()
        client.wait()
        release(shop)
        until(lambda: "vm" in shop.inventory())
        again = result(shop.run(request).stdout)
    assert shop.inventory()["vm"] == [again[0]]


def test_a_repeat_waits_for_the_first_and_answers_it(shop: Shop) -> None:
    stemcell = shop.stemcell()
    request = shop.vm_request("agent-1", stemcell)
    with shop.core():
        hang(shop, "create_vm")
        clients = [shop.start(request) for _ in range(2)]
        until(lambda: hanging(shop))
        release(shop)
        first, second = (result(heard(client)) for client in clients)
    assert first == second
    assert shop.inventory()["vm"] == [first[0]]


def test_the_core_ends_after_what_is_under_way(shop: Shop) -> None:
    stemcell = shop.stemcell()
    with shop.core() as core:
        hang(shop, "create_vm")
        client = shop.start(shop.vm_request("agent-1", stemcell))
        until(lambda: hanging(shop))
        core.send_signal(signal.SIGTERM)
        until(lambda: not shop.socket.exists())
        assert core.poll() is None
        release(shop)
        cid = result(heard(client))[0]
        assert core.wait(PATIENCE_S) == 0
    assert shop.inventory()["vm"] == [cid]


def test_a_client_that_sends_nothing_does_not_keep_the_core_from_ending(shop: Shop) -> None:
    with shop.core() as core, socket.socket(socket.AF_UNIX) as silent:
        silent.connect(str(shop.socket))
        assert result(shop.run(shop.request("has_vm", "i-1")).stdout) is False
        core.send_signal(signal.SIGTERM)
        assert core.wait(50) == 0  # it would hear the silent one out for 60 s


def test_clients_of_a_core_that_ends_lose_nothing(shop: Shop) -> None:
    stemcell = shop.stemcell()
    with shop.core() as core:
        clients = [shop.start(shop.vm_request(f"agent-{n}", stemcell, group="g-web")) for n in range(6)]
        core.send_signal(signal.SIGTERM)
        made = {result(heard(client))[0] for client in clients}
    assert set(shop.inventory()["vm"]) == made
    assert (len(made), len(shop.inventory()["server_group"])) == (6, 1)


def test_a_machine_whose_core_was_killed_is_made_by_the_client_itself(shop: Shop) -> None:
    shop.configure(lease_s=0.3)
    stemcell = shop.stemcell()
    with shop.core() as core:
        hang(shop, "create_vm")
        client = shop.start(shop.vm_request("agent-1", stemcell))
        until(lambda: hanging(shop))
        core.kill()
        core.wait()
        release(shop)
        cid = result(heard(client))[0]
    assert shop.inventory()["vm"] == [cid]


def test_what_could_be_made_twice_is_not_repeated_after_the_core_died(shop: Shop) -> None:
    envelope = json.loads(respond(shop.request("create_stemcell", str(shop.image), {}), str(shop.config), sent=True))
    assert "the core process died" in envelope["error"]["message"]
    assert shop.inventory() == {}
    assert result(respond(shop.request("has_vm", "i-1"), str(shop.config), sent=True)) is False


def test_a_core_that_was_killed_leaves_a_socket_that_hinders_no_later_call(shop: Shop) -> None:
    with shop.core() as core:
        core.kill()
        core.wait()
        assert shop.socket.exists()
        assert result(shop.run(shop.request("has_vm", "i-1")).stdout) is False
    with shop.core():
        assert result(shop.run(shop.request("has_vm", "i-1")).stdout) is False


def test_a_second_core_is_refused(shop: Shop) -> None:
    with shop.core():
        source = str(Path(respond.__code__.co_filename).parents[3])
        words = [sys.executable, "-m", "coterie.bosh.main", "serve", "--config", str(shop.config)]
        second = subprocess.run(
            words, env={**os.environ, "PYTHONPATH": source}, capture_output=True, timeout=PATIENCE_S
        )
        assert second.returncode == 6
        assert b"serves" in second.stderr
        assert result(shop.run(shop.request("has_vm", "i-1")).stdout) is False


def test_rubbish_on_the_socket_is_answered(shop: Shop) -> None:
    with shop.core():
        for rubbish in (b"", b"\xff\xfe", b"{" * 1000):
            with socket.socket(socket.AF_UNIX) as link:
                link.connect(str(shop.socket))
                link.sendall(rubbish)
                link.shutdown(socket.SHUT_WR)
                with link.makefile("rb") as answer:
                    assert json.loads(answer.read())["error"]["type"].startswith("Bosh::Clouds::"), rubbish


def test_a_machine_costs_few_calls_of_the_cloud(shop: Shop) -> None:
    stemcell = shop.stemcell()
    store = shop.account.datacenter.store
    shop.create_vm("agent-0", stemcell, group="g-web")
    switch_log(store, True)
    shop.create_vm("agent-1", stemcell, group="g-web")
    assert sum(count.calls for count in counts(store).values()) <= 3
