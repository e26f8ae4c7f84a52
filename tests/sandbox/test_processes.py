"""Many processes at once, and processes that are killed in the middle: no promise is broken, no counter is wrong."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
from collections import Counter
from collections.abc import Callable
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path
from typing import Any

from coterie.sandbox import disks, images, server_groups, vms
from coterie.sandbox.accounts import open_account
from coterie.sandbox.datacenter import Account, open_datacenter
from coterie.sandbox.errors import NoHost, OverQuota
from coterie.sandbox.fit import Demand
from coterie.sandbox.quotas import get_quotas
from coterie.sandbox.vm_shape import list_vms

PROCESSES = 6
FORK = multiprocessing.get_context("fork")


def run_all(work: Callable[..., None], *arguments: Any) -> None:
    gate = FORK.Barrier(PROCESSES)
    children = [FORK.Process(target=work, args=(gate, number, *arguments)) for number in range(PROCESSES)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * PROCESSES


def door(path: str, **more: Any) -> Account:
    return open_account(open_datacenter(path), "lab", **more)


# statements that find what must not be: counters that differ from the rows they count, and rows without an owner
WRONG = (
    "SELECT name FROM hosts h WHERE (vms, used_cpu, used_ram_mb) <> "
    "(SELECT count(*), coalesce(sum(cpu), 0), coalesce(sum(ram_mb), 0) FROM vms WHERE host = h.name)",
    "SELECT object FROM server_groups g WHERE members <> (SELECT count(*) FROM members WHERE server_group = object)",
    "SELECT * FROM group_hosts g WHERE members <> (SELECT count(*) FROM members m JOIN vms v ON v.object = m.vm "
    "WHERE m.server_group = g.server_group AND v.host = g.host)",
    "SELECT * FROM members m JOIN vms v ON v.object = m.vm WHERE v.host IS NOT NULL AND NOT EXISTS "
    "(SELECT 1 FROM group_hosts g WHERE g.server_group = m.server_group AND g.host = v.host)",
    "SELECT vm FROM nics WHERE vm NOT IN (SELECT object FROM vms)",
    "SELECT object FROM tags WHERE object NOT IN (SELECT seq FROM objects)",
    "SELECT integrity_check FROM pragma_integrity_check WHERE integrity_check <> 'ok'",
)


def audit(account: Account) -> None:
    with account.datacenter.store.reading() as db:
        for statement in WRONG:
            assert db.execute(statement).fetchall() == [], statement
        held = db.execute("SELECT count(*) FROM vms").fetchone()[0]
        assert db.execute("SELECT used FROM usage WHERE resource = 'instances'").fetchone()[0] == held


def boot_many(gate: Barrier, number: int, path: str, image: str, group: str) -> None:
    account = door(path, quotas={"instances": 10})
    gate.wait()
    for attempt in range(5):
        try:
            size = Demand(1, 1024, 0, "z1")
            vms.create_vm(account, name=f"{number}-{attempt}", size=size, image=image, group=group)
        except (NoHost, OverQuota):
            continue


def test_quota_and_strict_policy_hold_with_many_processes(tmp_path: Path) -> None:
    path = str(tmp_path / "s.db")
    layout = {"zones": [{"name": "z1", "racks": 2, "hosts_per_rack": 6, "cpu": 4}]}
    open_datacenter(path, layout)
    account = door(path, quotas={"instances": 10})
    image = images.create_image(account, name="i").id
    group = server_groups.create_server_group(account, name="g", policy="anti-affinity").id
    run_all(boot_many, path, image, group)
    hosts = Counter(vm.host for vm in list_vms(account).items)
    assert len(hosts) == 10
    assert set(hosts.values()) == {1}
    audit(account)


def create_with_one_token(gate: Barrier, number: int, path: str) -> None:
    account = door(path)
    gate.wait()
    for token in range(20):
        disks.create_disk(account, name=f"by {number}", size_mb=1, client_token=f"t{token}")


def test_one_token_makes_one_object_with_many_processes(tmp_path: Path) -> None:
    path = str(tmp_path / "s.db")
    account = door(path)
    run_all(create_with_one_token, path)
    assert len(disks.list_disks(account).items) == 20
    assert get_quotas(account)["volumes"].used == 20


def write_carelessly(gate: Barrier, number: int, path: str, group: str, mine: list[str]) -> None:
    account = door(path, groups="single-writer")
    present = server_groups.read_members(account, group)
    gate.wait()
    server_groups.write_members(account, group, [*present, mine[number]])


def test_careless_writers_lose_each_others_members(tmp_path: Path) -> None:
    """The trap is real: all read the list, all write it, one wins."""
    path = str(tmp_path / "s.db")
    account = door(path, groups="single-writer")
    image = images.create_image(account, name="i").id
    size = Demand(1, 1, 1, "z1")
    made = [vms.create_vm(account, name="v", size=size, image=image, start=False).id for _ in range(PROCESSES + 1)]
    group = server_groups.create_server_group(account, name="g", zone="z1", members=made[-1:]).id
    run_all(write_carelessly, path, group, made)
    assert len(server_groups.read_members(account, group)) == 2


def stop_halfway(path: str, image: str, halfway: Event) -> None:
    """Holds a half-done transaction, and the right to write, until it is killed."""
    datacenter = open_datacenter(path)
    with datacenter.store.writing() as db:
        db.execute("UPDATE hosts SET used_cpu = 999")
        db.execute("DELETE FROM objects")
        halfway.set()
        signal.pause()


def test_what_a_killed_process_had_half_done_is_undone_at_once(tmp_path: Path) -> None:
    path = str(tmp_path / "s.db")
    account = door(path)
    image = images.create_image(account, name="i").id
    halfway = FORK.Event()
    child = FORK.Process(target=stop_halfway, args=(path, image, halfway))
    child.start()
    halfway.wait()
    assert [found.id for found in images.list_images(account).items] == [image]
    os.kill(child.pid or 0, signal.SIGKILL)
    child.join()
    vms.create_vm(account, name="after", size=Demand(1, 1024, 0, "z1"), image=image)
    audit(account)


def churn(path: str, image: str, group: str, seed: int) -> None:
    """Makes and deletes things until it is killed."""
    account, chance = door(path), random.Random(seed)
    mine: list[str] = []
    while True:
        if mine and chance.random() < 0.4:
            vms.delete_vm(account, mine.pop())
            continue
        try:
            size = Demand(1, 1024, 0, "z1")
            tags = {"seed": str(seed)}
            mine.append(vms.create_vm(account, name="v", size=size, image=image, group=group, tags=tags).id)
        except NoHost:
            vms.delete_vm(account, mine.pop())


def test_a_killed_process_leaves_a_file_that_others_go_on_with(tmp_path: Path) -> None:
    path = str(tmp_path / "s.db")
    account = door(path)
    image = images.create_image(account, name="i").id
    group = server_groups.create_server_group(account, name="g", policy="soft-anti-affinity").id
    for seed in range(6):
        seen = get_quotas(account)["instances"].used
        child = FORK.Process(target=churn, args=(path, image, group, seed))
        child.start()
        while get_quotas(account)["instances"].used < seen + 3 + seed:
            pass
        os.kill(child.pid or 0, signal.SIGKILL)
        child.join()
        assert child.exitcode == -signal.SIGKILL
        audit(account)
    vms.create_vm(account, name="after", size=Demand(1, 1024, 0, "z2"), image=image)
    audit(account)
