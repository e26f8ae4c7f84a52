"""How objects bear marks: tags, metadata, descriptions and names."""

from __future__ import annotations

import pytest

from coterie.cpi.contract import InvalidCall, Kind, Mark, opt_out_reason
from coterie.cpi.drivers.openstack.client import Row
from coterie.cpi.drivers.openstack.rows import (
    LISTINGS,
    description,
    group_tag,
    mark_of_description,
    mark_of_tags,
    owner_of,
    tags,
    user_metadata,
    written_on,
)
from coterie.cpi.kit.marking import mark_tags, read_mark_name, read_mark_tags
from coterie.ids import Ids

MARK = Mark("0f8fad5b-d9cb-469f-a165-70867728950e", "01" + "a" * 24)
OTHER = "1f8fad5b-d9cb-469f-a165-70867728950e"
OURS, THEIRS = "8d8c4a1e-54c2-4f8e-9d53-1f0b6f2a7c10", "4c8b51d7-1f0e-4a55-9a3b-6f1d20b7f0aa"


def test_marks_are_read_back_from_everything_that_bears_them() -> None:
    assert mark_of_tags(["x", *tags(MARK)]) == MARK
    assert read_mark_tags({"x": "y", **mark_tags(MARK)}) == MARK
    assert mark_of_description(description(MARK)) == MARK
    assert read_mark_name(MARK.group_cid, MARK.director) == MARK
    assert read_mark_name(MARK.name(), MARK.director) == MARK
    assert all(len(tag) <= 60 and not set("/,") & set(tag) for tag in tags(MARK))


@pytest.mark.parametrize("found", [[], tags(MARK)[:1], tags(MARK)[1:], [*tags(MARK), f"coterie-director-{OTHER}"]])
def test_half_a_mark_or_two_are_none(found: list[str]) -> None:
    assert mark_of_tags(found) is None


@pytest.mark.parametrize("text", [None, "", MARK.name(), f"{MARK.name()} {OTHER}", f"{description(MARK)} more"])
def test_a_description_that_is_not_wholly_ours_is_none(text: str | None) -> None:
    assert mark_of_description(text) is None


def test_people_write_behind_a_description_that_the_object_is_kept() -> None:
    assert mark_of_description(f"{description(MARK)} coterie-keep") == MARK


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        ("vm", {"tags": ["coterie-keep"], "metadata": {}}),
        ("vm", {"tags": [], "metadata": {"coterie-keep": "yes"}}),
        ("vm", {"tags": [], "metadata": {}, "description": "ask ops: coterie-keep"}),
        ("disk", {"metadata": {"coterie-keep": "1"}}),
        ("snapshot", {"metadata": {}, "description": "coterie-keep-until=2999-01-31"}),
        ("image", {"tags": ["Coterie-Keep"]}),
        ("image", {"tags": [], "coterie-keep": "true"}),
        ("port", {"description": "", "tags": ["coterie-keep"]}),
        ("ip", {"description": f"{description(MARK)} coterie-keep", "tags": []}),
        ("security_group", {"description": "", "tags": ["coterie-keep-untill=2999-01-31"]}),
    ],
)
def test_whatever_people_can_write_on_an_object_keeps_it(kind: Kind, row: Row) -> None:
    assert opt_out_reason(written_on(kind, row), now=0.0)


@pytest.mark.parametrize(("kind", "where"), [("vm", "tags"), ("disk", "metadata"), ("security_group", "description")])
def test_only_a_row_without_the_place_of_marks_is_unreadable(kind: Kind, where: str) -> None:
    assert written_on(kind, {"id": "x"}) is None
    assert written_on(kind, {"id": "x", where: None}) == {}
    assert written_on("server_group", {"id": "x", "name": "theirs"}) == {}


def test_our_metadata_cannot_be_forged() -> None:
    with pytest.raises(InvalidCall, match="reserved"):
        user_metadata({"coterie-director": "me"})
    assert user_metadata({"k": "v" * 300}) == {"k": "v" * 255}


def test_the_owner_of_a_server_is_read_from_its_mark() -> None:
    ours, theirs = Mark(OURS, Ids().intent()), Mark(THEIRS, Ids().intent())
    assert owner_of(tags(ours), "web-0", OURS) == OURS
    assert owner_of(["env=prod", *tags(theirs)], "web-0", OURS) == THEIRS
    assert owner_of([], theirs.name("web"), OURS) == "4c8b51d71f"
    assert owner_of([], ours.name("web"), OURS) == OURS
    assert owner_of(["env=prod", group_tag("cg-x")], "web-0", OURS) is None


def test_answers_name_their_lists_and_objects_after_the_path() -> None:
    names = {kind: (listing.key, listing.one) for kind, listing in LISTINGS.items()}
    assert names["vm"] == ("servers", "server")
    assert names["security_group"] == ("security_groups", "security_group")
    assert names["server_group"] == ("server_groups", "server_group")
    assert names["keypair"] == ("keypairs", "keypair")
    assert names["ip"] == ("floatingips", "floatingip")
