"""Lists that are remembered, and the one row that a name means."""

from __future__ import annotations

import pytest

from coterie.cpi.contract import InvalidCall
from coterie.cpi.kit.lookups import LookupCache, pick_one

ROWS = [{"id": "1", "name": "small"}, {"id": "2", "name": "twice"}, {"id": "3", "name": "twice"}]


def test_a_list_is_remembered_unless_it_is_empty_or_forgotten() -> None:
    cache, answers = LookupCache(60), [[], ["a"], ["b"]]
    assert cache.get("flavors", lambda: answers.pop(0)) == []
    assert [cache.get("flavors", lambda: answers.pop(0)) for _ in range(2)] == [["a"], ["a"]]
    cache.forget("flavors")
    assert cache.get("flavors", lambda: answers.pop(0)) == ["b"]


def test_a_list_is_remembered_for_a_while_only() -> None:
    cache, answers = LookupCache(-1), [["a"], ["b"]]
    assert [cache.get("flavors", lambda: answers.pop(0)) for _ in range(2)] == [["a"], ["b"]]


def test_a_row_is_meant_by_its_name_or_id() -> None:
    assert pick_one(ROWS, "small", "flavor")["id"] == "1"
    assert pick_one(ROWS, "3", "flavor")["id"] == "3"


def test_no_row_or_two_are_refused_with_the_remedy() -> None:
    with pytest.raises(InvalidCall, match="no flavor 'huge'") as caught:
        pick_one(ROWS, "huge", "flavor", where="cloud_properties.instance_type")
    assert caught.value.remedy == "set cloud_properties.instance_type to one of: small, twice, twice"
    with pytest.raises(InvalidCall, match="2 times") as caught:
        pick_one(ROWS, "twice", "flavor")
    assert "id" in caught.value.remedy
