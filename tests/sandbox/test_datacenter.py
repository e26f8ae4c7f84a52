"""The state file: begun once, opened by many, refused when it is not one, emptied in place."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import threading
from pathlib import Path

import pytest

from coterie.errors import NotFound
from coterie.sandbox import disks, faults, networks
from coterie.sandbox.accounts import open_account
from coterie.sandbox.datacenter import open_datacenter
from coterie.sandbox.errors import BadRequest, StateUnreadable
from coterie.sandbox.hosts import all_hosts
from coterie.sandbox.quotas import get_quotas
from coterie.sandbox.reset import reset

from .world import ONE_ZONE, World


def test_the_layout_counts_only_when_the_file_is_begun(tmp_path: Path) -> None:
    first = open_datacenter(tmp_path / "s.db", ONE_ZONE)
    again = open_datacenter(tmp_path / "s.db", {"zones": [{"name": "other"}]})
    assert {host.zone for host in all_hosts(again.store)} == {"z1"}
    assert first.layout() == again.layout() == ONE_ZONE


def test_folders_are_created_and_the_file_is_private(tmp_path: Path) -> None:
    open_datacenter(tmp_path / "a" / "b" / "s.db")
    assert os.stat(tmp_path / "a" / "b" / "s.db").st_mode & 0o077 == 0
    assert [entry.name for entry in (tmp_path / "a" / "b").iterdir() if entry.name.startswith(".")] == []


def test_many_who_begin_it_at_once_get_one(tmp_path: Path) -> None:
    gate = threading.Barrier(8)
    found = []

    def begin(number: int) -> None:
        gate.wait()
        datacenter = open_datacenter(tmp_path / "s.db", {"zones": [{"name": f"z{number}"}]})
        found.append({host.zone for host in all_hosts(datacenter.store)})

    threads = [threading.Thread(target=begin, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert all(zones == found[0] for zones in found)
    assert len(found[0]) == 1


def test_looking_does_not_begin_one(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        open_datacenter(tmp_path / "s.db", create=False)
    assert list(tmp_path.iterdir()) == []


def test_a_bad_layout_begins_nothing(tmp_path: Path) -> None:
    with pytest.raises(BadRequest):
        open_datacenter(tmp_path / "s.db", {"zones": []})
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_sandbox_is_refused_and_left_alone(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a database at all, but long enough to look at" * 10)
    other = tmp_path / "other.db"
    sqlite3.connect(other).execute("CREATE TABLE mine (x)")
    for path in (text, other):
        before = path.read_bytes()
        with pytest.raises(StateUnreadable) as caught:
            open_datacenter(path)
        assert caught.value.remedy
        assert path.read_bytes() == before
    with pytest.raises(StateUnreadable):
        open_datacenter(text / "below" / "s.db")


def test_a_newer_file_is_refused(tmp_path: Path) -> None:
    open_datacenter(tmp_path / "s.db").store.close()
    connection = sqlite3.connect(tmp_path / "s.db")
    connection.execute("UPDATE meta SET value = '99' WHERE key = 'schema'")
    connection.commit()
    connection.close()
    moved = tmp_path / "moved.db"
    os.rename(tmp_path / "s.db", moved)
    with pytest.raises(StateUnreadable, match="format 99"):
        open_datacenter(moved)


def test_a_file_that_was_replaced_is_opened_anew(tmp_path: Path) -> None:
    first = open_datacenter(tmp_path / "s.db", ONE_ZONE)
    first.store.close()
    for file in tmp_path.iterdir():
        file.unlink()
    open_datacenter(tmp_path / "keep-the-old-inode-busy.db")
    second = open_datacenter(tmp_path / "s.db", {"zones": [{"name": "new"}]})
    assert {host.zone for host in all_hosts(second.store)} == {"new"}


def test_reset_empties_it_for_those_who_have_it_open(world: World) -> None:
    world.boot()
    disks.create_disk(world.account, name="d", size_mb=1)
    faults.add(world.store, "*", "error")
    reset(world.datacenter)
    assert disks.list_disks(world.account).items == ()
    assert all(quota.used == 0 for quota in get_quotas(world.account).values())
    assert [net.name for net in networks.list_networks(world.account).items] == ["default"]
    assert all(host.vms == 0 for host in all_hosts(world.store))
    reset(world.datacenter, {"zones": [{"name": "new"}]})
    assert {host.zone for host in all_hosts(world.store)} == {"new"}


def test_a_layout_names_the_networks_that_accounts_begin_with(tmp_path: Path) -> None:
    datacenter = open_datacenter(tmp_path / "s.db", {**ONE_ZONE, "networks": ["front", "back"]})
    account = open_account(datacenter, "lab")
    assert [net.name for net in networks.list_networks(account).items] == ["front", "back"]


def _write_one(path: str, name: str) -> None:
    account = open_account(open_datacenter(path), "lab")
    disks.create_disk(account, name=name, size_mb=1)


def test_a_fork_waits_for_those_who_are_writing(world: World) -> None:
    """A child that inherits a write in progress could never write itself."""
    inside, go_on = threading.Event(), threading.Event()

    def write_slowly() -> None:
        with world.store.writing():
            inside.set()
            go_on.wait()

    writer = threading.Thread(target=write_slowly)
    writer.start()
    inside.wait()
    threading.Timer(0.05, go_on.set).start()
    context = multiprocessing.get_context("fork")
    child = context.Process(target=_write_one, args=(str(world.store.path), "c"), daemon=True)
    child.start()
    assert go_on.is_set()
    writer.join()
    child.join(60)
    assert child.exitcode == 0
    disks.create_disk(world.account, name="p", size_mb=1)
    assert [disk.name for disk in disks.list_disks(world.account).items] == ["c", "p"]


def test_a_forked_child_has_connections_of_its_own(world: World) -> None:
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=_write_one, args=(str(world.store.path), f"c{n}")) for n in range(4)]
    for child in children:
        child.start()
        disks.create_disk(world.account, name="p", size_mb=1)
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * 4
    found = sorted(disk.name for disk in disks.list_disks(world.account).items)
    assert found == ["c0", "c1", "c2", "c3", "p", "p", "p", "p"]
