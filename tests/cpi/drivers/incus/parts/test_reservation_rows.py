"""Reservations as rows of a real ledger: none stays of a server group that is gone, whatever was killed meanwhile, and
no clock but the ledger's counts."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.cpi.drivers.incus.parts.fake_server import DIRECTOR, IMAGE, Server, cloud, create, mark
from tests.ledger.blank import sqlite_ledger

from coterie.cpi.contract import Expected, GroupInUse, GroupMetadata
from coterie.cpi.drivers.incus.client import Refusal
from coterie.cpi.drivers.incus.driver import IncusCpi
from coterie.cpi.drivers.incus.placement import Reservation, ReservationRecords
from coterie.engine.part_records import LedgerPartRecords
from coterie.ledger.store import Ledger
from coterie.ledger.tables import parts

METADATA = GroupMetadata(
    director={"name": "d", "uuid": DIRECTOR}, deployment="d", instance_group="i", policy="anti-affinity"
)


class Profiles(Server):
    """With profiles, which Incus does not delete while an instance has them."""

    def __init__(self, **drivers: str) -> None:
        super().__init__(**drivers)
        self.profiles: dict[str, Any] = {}

    def get(self, path: str, query: Mapping[str, str], body: Any) -> Any:
        kind, _, name = path[1:].partition("/")
        if kind == "profiles":
            return self.profiles.get(name) if name else list(self.profiles.values())
        if kind == "network-acls":
            return []
        return {} if path == "/operations" else super().get(path, query, body)

    def post(self, path: str, query: Mapping[str, str], body: Any) -> Any:
        if path != "/profiles":
            return super().post(path, query, body)
        self.profiles[body["name"]] = {**body, "used_by": []}
        return {"metadata": {}}

    def delete(self, path: str, query: Mapping[str, str], body: Any) -> Any:
        name = path.rpartition("/")[2]
        if name not in self.profiles:
            return None
        if self.profiles[name]["used_by"]:
            raise Refusal("delete", 400, "in use", changes=True)
        del self.profiles[name]
        return {"metadata": {}}


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = sqlite_ledger(tmp_path / "ledger.db")
    yield opened
    opened.close()


@pytest.fixture
def server() -> Profiles:
    return Profiles(inc1="lxc", inc2="lxc")


@pytest.fixture
def cpi(monkeypatch: pytest.MonkeyPatch, server: Profiles, ledger: Ledger) -> IncusCpi:
    return cloud(monkeypatch, server, parts=LedgerPartRecords(lambda: ledger, "lab"))


def reserve(cpi: IncusCpi, ledger: Ledger, profile: str) -> None:
    """As a create that was killed before it was sent leaves it."""
    records = ReservationRecords("lab", cpi.client, LedgerPartRecords(lambda: ledger, "lab"))
    records.record(Reservation(profile, "vm-1", "inc1"))


def left(ledger: Ledger) -> list[str]:
    with ledger.read() as tx:
        return list(tx.execute(sa.select(parts.c.name).where(parts.c.kind == "vm")).scalars())


def grow_old(ledger: Ledger, seconds: float) -> None:
    with ledger.write() as tx:
        tx.execute(sa.update(parts).values(created_at=parts.c.created_at - seconds))


@pytest.mark.parametrize("by_cleanup", [False, True])
def test_a_deleted_group_leaves_no_reservation(
    cpi: IncusCpi, server: Profiles, ledger: Ledger, by_cleanup: bool
) -> None:
    kept, going = (cpi.create_server_group(METADATA, mark=one) for one in (mark(), mark()))
    reserve(cpi, ledger, kept)
    reserve(cpi, ledger, going)
    assert len(left(ledger)) == 2
    if by_cleanup:
        (row,) = (one for one in cpi.survey("server_group", DIRECTOR).objects if one.cid == going)
        cpi.delete_object("server_group", going, Expected(row.mark, row.created_at, row.etag))
    else:
        cpi.delete_server_group(going)
    assert [name.rpartition(" ")[2] for name in left(ledger)] == [kept], "a group that is there keeps its own"


def test_a_group_in_use_keeps_its_reservations(cpi: IncusCpi, server: Profiles, ledger: Ledger) -> None:
    cid = cpi.create_server_group(METADATA, mark=mark())
    reserve(cpi, ledger, cid)
    server.profiles[cid]["used_by"] = ["/1.0/instances/other"]
    server.instances["other"] = {"name": "other", "status": "Running", "config": {}, "devices": {}, "profiles": [cid]}
    with pytest.raises(GroupInUse):
        cpi.delete_server_group(cid)
    assert len(left(ledger)) == 1


def test_a_repeat_after_a_kill_withdraws_them(cpi: IncusCpi, server: Profiles, ledger: Ledger) -> None:
    cid = cpi.create_server_group(METADATA, mark=mark())
    reserve(cpi, ledger, cid)
    server.profiles.clear()
    cpi.delete_server_group(cid)
    assert left(ledger) == []


def test_what_no_repeat_withdraws_goes_once_nothing_can_come_of_it(
    cpi: IncusCpi, server: Profiles, ledger: Ledger
) -> None:
    gone, other = (cpi.create_server_group(METADATA, mark=one) for one in (mark(), mark()))
    reserve(cpi, ledger, gone)
    del server.profiles[gone]
    cpi.delete_server_group(other)
    assert len(left(ledger)) == 1, "what was sent may still come"
    grow_old(ledger, 121.0)
    cpi.delete_server_group(cpi.create_server_group(METADATA, mark=mark()))
    assert left(ledger) == []


def test_clocks_that_differ_do_not_matter(
    monkeypatch: pytest.MonkeyPatch, cpi: IncusCpi, server: Profiles, ledger: Ledger
) -> None:
    """Each look at the wall clock is that of another machine, which is ahead of the last one."""
    cid = cpi.create_server_group(METADATA, mark=mark())
    server.images[IMAGE] = "container"
    looks = iter(range(1_800_000_000, 1_800_002_000, 40))
    monkeypatch.setattr(time, "time", lambda: float(next(looks)))
    for _ in range(2):
        create(cpi, type="container", env={"bosh": {"server_group_cid": cid}})
    assert sorted(one["target"] for one in server.sent) == ["inc1", "inc2"]
    assert left(ledger) == []
