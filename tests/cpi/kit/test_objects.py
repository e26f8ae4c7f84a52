"""The object table over a cloud of three rows: find, survey, delete and owner follow from what a kind declares."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pytest

from coterie.cpi.contract import Changed, CloudObject, Expected, InvalidCall, Mark, NotSupported, VMNotFound
from coterie.cpi.kit.call_limit import CallLimit
from coterie.cpi.kit.objects import ObjectKind, ObjectTable, RowPage

DIRECTOR = "11111111-2222-3333-4444-555555555555"
MARK, OTHER = Mark(DIRECTOR, "a" * 26), Mark(DIRECTOR, "b" * 26)


@dataclass
class Row:
    cid: str
    mark: Mark | None
    dying: bool = False


@dataclass
class Cloud:
    rows: list[Row] = field(default_factory=lambda: [Row("1", MARK), Row("2", OTHER), Row("3", None, dying=True)])
    deleted: list[str] = field(default_factory=list)
    limit: CallLimit = field(default_factory=lambda: CallLimit(1))

    def search(self, mark: Mark) -> Iterable[Row]:
        return list(self.rows)

    def page(self, director_uuid: str, cursor: str | None) -> RowPage[Row]:
        for _ in range(2):
            with self.limit:
                pass
        start = int(cursor or 0)
        return RowPage(self.rows[start : start + 2], str(start + 2) if start + 2 < len(self.rows) else None)

    def read(self, cid: str, director_uuid: str) -> Row | None:
        return next((row for row in self.rows if row.cid == cid), None)

    def delete(self, cid: str, row: Row) -> None:
        self.deleted.append(cid)


def describe(row: Row, director_uuid: str) -> CloudObject:
    return CloudObject("vm", row.cid, f"name-{row.cid}", created_at=1.0, mark=row.mark)


@pytest.fixture
def cloud() -> Cloud:
    return Cloud()


@pytest.fixture
def table(cloud: Cloud) -> ObjectTable:
    vm = ObjectKind(
        cloud.search,
        cloud.page,
        cloud.read,
        describe,
        cloud.delete,
        owner=lambda row: row.mark.director if row.mark else None,
        is_gone=lambda row: row.dying,
    )
    network = ObjectKind(cloud.search, cloud.page, cloud.read, describe, marking="name", filtered=False)
    return ObjectTable(DIRECTOR, {"vm": vm, "network": network}, cloud.limit)


def test_find_compares_the_mark_itself(table: ObjectTable) -> None:
    found = table.find("vm", OTHER)
    assert found and found.cid == "2"
    assert table.find("vm", Mark(DIRECTOR, "c" * 26)) is None


def test_survey_goes_page_by_page_and_leaves_out_what_is_on_its_way_out(table: ObjectTable) -> None:
    first = table.survey("vm", DIRECTOR)
    assert [one.cid for one in first.objects] == ["1", "2"] and first.next == "2" and first.calls == 2
    assert table.survey("vm", DIRECTOR, first.next).objects == ()


def test_a_kind_that_the_cloud_does_not_have_is_empty(table: ObjectTable) -> None:
    assert table.find("disk", MARK) is None
    assert table.survey("disk", DIRECTOR).objects == ()


def test_an_unknown_kind_is_refused(table: ObjectTable) -> None:
    with pytest.raises(InvalidCall):
        table.find("spaceship", MARK)  # type: ignore[arg-type]


def test_only_the_expected_object_is_deleted(table: ObjectTable, cloud: Cloud) -> None:
    for wrong in (Expected(OTHER, 1.0), Expected(MARK, 2.0), Expected(None)):
        with pytest.raises(Changed):
            table.delete_object("vm", "1", wrong)
    table.delete_object("vm", "1", Expected(MARK, 1.0))
    table.delete_object("vm", "gone", Expected(MARK, 1.0))
    assert cloud.deleted == ["1"]


def test_an_object_of_another_director_is_never_deleted(table: ObjectTable, cloud: Cloud) -> None:
    theirs = Mark("another", MARK.intent)
    cloud.rows = [replace(row, mark=theirs) for row in cloud.rows]
    with pytest.raises(Changed):
        table.delete_object("vm", "1", Expected(theirs, 1.0))
    assert cloud.deleted == []


def test_a_kind_without_delete_is_listed_only(table: ObjectTable, cloud: Cloud) -> None:
    with pytest.raises(NotSupported):
        table.delete_object("network", "1", Expected(MARK))
    assert cloud.deleted == []


def test_the_owner_is_read_from_the_vm(table: ObjectTable) -> None:
    assert table.vm_owner("1") == DIRECTOR
    for gone in ("3", "nowhere"):
        with pytest.raises(VMNotFound):
            table.vm_owner(gone)


def test_the_capabilities_follow_from_the_table(table: ObjectTable) -> None:
    assert table.markings == {"vm": "atomic", "network": "name"}
    assert table.filtered == {"vm"}
