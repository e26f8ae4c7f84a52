"""Readers that follow from the fields of a dataclass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from coterie.cpi.contract import Form, InvalidCall
from coterie.cpi.kit.readers import readers_of, whole


@dataclass
class Spec:
    name: str
    zone: str | None = None
    groups: tuple[str, ...] = ()
    fast: bool = False
    wait_s: float = 1.0
    count: int = 1
    hints: Mapping[str, Any] = field(default_factory=dict)


FORM = Form(readers_of(Spec, count=whole(1, 9)))


def test_each_field_is_read_by_its_type_or_its_own_reader() -> None:
    given = {"name": "a", "groups": ["x"], "fast": True, "wait_s": 2, "count": 9, "hints": {"k": 1}}
    assert Spec(**FORM.read(given, "properties")) == Spec("a", None, ("x",), True, 2.0, 9, {"k": 1})


@pytest.mark.parametrize("given", [{"name": 1}, {"fast": "yes"}, {"wait_s": -1}, {"count": 10}, {"other": 1}])
def test_a_value_of_another_type_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidCall, match=f"properties.{next(iter(given))}"):
        FORM.read(given, "properties")


def test_a_type_without_a_reader_is_a_mistake_of_the_driver() -> None:
    with pytest.raises(KeyError):
        readers_of(Spec)


def test_a_driver_has_readers_of_types_of_its_own() -> None:
    form = Form(readers_of(Spec, {"int": whole(1, 9), "str": whole(1)}, name=whole(5)))
    assert form.read({"name": 5, "zone": 1, "count": 9}, "properties") == {"name": 5, "zone": 1, "count": 9}
    assert [one.key for one in form.mistakes({"name": 4, "zone": "a", "count": 10})] == ["name", "zone", "count"]
