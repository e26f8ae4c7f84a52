"""Marks in tags and names are read only where they are whole; users cannot forge them."""

from __future__ import annotations

import pytest

from coterie.cpi.contract import InvalidCall, Mark, NameTaken
from coterie.cpi.kit.marking import (
    DIRECTOR,
    INTENT,
    mark_tags,
    metadata_tags,
    read_mark_name,
    read_mark_tags,
    require_mark,
)

MARK = Mark("11111111-2222-3333-4444-555555555555", "a" * 26)


def test_tags_give_back_the_mark() -> None:
    assert read_mark_tags(mark_tags(MARK)) == MARK


@pytest.mark.parametrize("tags", [{}, {DIRECTOR: "d"}, {DIRECTOR: "d", INTENT: "short"}, {INTENT: "a" * 26}])
def test_half_a_mark_is_none(tags: dict[str, str]) -> None:
    assert read_mark_tags(tags) is None


def test_names_and_group_cids_give_back_the_mark_to_its_owner_only() -> None:
    for name in (MARK.name("web"), MARK.group_cid):
        assert read_mark_name(name, MARK.director) == MARK
        assert read_mark_name(name, "99999999-2222-3333-4444-555555555555") is None
    assert read_mark_name("anything", MARK.director) is None


def test_metadata_is_cut_and_reserved_keys_are_refused() -> None:
    assert metadata_tags({"abc": 12345}, longest_key=2, longest_value=3) == {"ab": "123"}
    with pytest.raises(InvalidCall):
        metadata_tags({"coterie-director": "x"})


@pytest.mark.parametrize("found", [None, Mark(MARK.director, "b" * 26)])
def test_what_only_has_the_name_of_a_mark_is_a_strangers(found: Mark | None) -> None:
    require_mark(MARK, MARK, "disk 1")
    with pytest.raises(NameTaken, match="disk 1"):
        require_mark(found, MARK, "disk 1")
