"""What Incus answers, read: sizes, marks, records. Rows as the real server gave them."""

from __future__ import annotations

import pytest

from coterie.cpi.contract import Mark
from coterie.cpi.drivers.incus.disks import size_mib, users
from coterie.cpi.drivers.incus.marks import mark_config, mark_of, moment, tags_of
from coterie.cpi.drivers.incus.server_groups import acls_of, exchange_acls, read_records
from coterie.cpi.drivers.incus.stemcells import _mark_entry

MARK = Mark("8d8c4a1e-54c2-4f8e-9d53-1f0b6f2a7c10", "01m7t7m7sreqd2ghvd8g85qerp")


@pytest.mark.parametrize(
    ("text", "mib"), [("64MiB", 64), ("2GiB", 2048), ("1048576", 1), ("1048576B", 1), ("512KiB", 0.5), ("", 0)]
)
def test_sizes_in_all_units(text: str, mib: float) -> None:
    assert size_mib({"config": {"size": text}}) == mib


def test_a_mark_is_read_from_the_config_and_the_settings_are_no_tags() -> None:
    row = {"config": {**mark_config(MARK), "user.user-data": "SECRET", "limits.cpu": "1"}, "description": ""}
    assert mark_of(row) == MARK
    assert "SECRET" not in str(tags_of(row))


def test_words_of_a_description_keep() -> None:
    assert tags_of({"config": {}, "description": "please coterie-keep this"}) == {"coterie-keep": "yes"}


def test_the_year_one_is_no_time() -> None:
    assert moment("0001-01-01T00:00:00Z") is None
    assert moment("2026-11-19T14:55:46.677259983Z") == 1795100146.0


def test_users_are_instances_only() -> None:
    used = ["/1.0/instances/cot-a?project=lab", "/1.0/profiles/default"]
    assert users({"used_by": used}) == ("cot-a",)


def test_acls_are_exchanged_and_those_of_the_vm_stay() -> None:
    row = {"devices": {"eth0": {"type": "nic", "network": "net", "security.acls": "own,old"}, "root": {"type": "disk"}}}
    assert exchange_acls(row, ["old"], ["new"]) is True
    assert acls_of(row) == ["own", "new"]
    assert exchange_acls(row, ["old"], ["new"]) is False
    assert exchange_acls(row, ["own", "new"], []) is True
    assert "security.acls" not in row["devices"]["eth0"]


def test_records_are_read_from_groups_of_ours_only() -> None:
    config = {"user.coterie-record-2": "none web", "user.coterie-record-x": "none", "user.coterie-policy": "none"}
    (found,) = read_records({"name": MARK.group_cid, "config": config})
    assert (found.number, found.policy, found.security_groups) == (2, None, ("web",))
    assert read_records({"name": "theirs", "config": config}) == []


@pytest.mark.parametrize("head", [b"\x1f\x8b", b"\xfd7zXZ\x00", b"metadata"])
def test_the_entry_with_the_mark_is_packed_as_the_rest_and_the_same_each_time(head: bytes) -> None:
    first = _mark_entry(MARK, head)
    assert first == _mark_entry(MARK, head)
    assert first != _mark_entry(Mark("other", MARK.intent), head)
    assert first[:2] == head[:2] or head == b"metadata"
