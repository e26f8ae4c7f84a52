"""Readers that follow from the fields of a dataclass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from coterie.cpi.contract import Form, InvalidCall
from coterie.cpi.kit.readers import nested, readers_of, text, whole


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


@dataclass(frozen=True)
class Part:
    size: int
    type: str = "plain"


PART = nested(Form({"size": whole(1), "type": text}, needed={"size": "give MiB"}), Part)


def test_an_object_inside_is_read_by_its_own_form() -> None:
    assert PART({"size": 3, "type": None}) == Part(3)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"type": "fast"}, "size: give MiB"),
        ({"size": "hunter2"}, "size: give a whole number from 1"),
        ({"size": 3, "hunter2": 1}, "hunter2: use some of: size, type"),
        ("hunter2", "give an object"),
    ],
)
def test_mistakes_inside_are_told_without_the_value(given: Any, words: str) -> None:
    with pytest.raises(ValueError) as caught:
        PART(given)
    assert str(caught.value) == words


@dataclass(frozen=True)
class Cloud:
    endpoint: str | None = None
    retries: int = 5


def test_properties_of_every_cloud_are_read_alike() -> None:
    form = Form(readers_of(Cloud))
    assert form.read({"endpoint": "https://cloud/", "retries": 0}, "properties") == {
        "endpoint": "https://cloud",
        "retries": 0,
    }
    assert [one.key for one in form.mistakes({"endpoint": "cloud", "retries": 101})] == ["endpoint", "retries"]
