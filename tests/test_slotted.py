"""What `slotted` makes is a dataclass with slots, as the standard library would have made it."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import threading
from typing import Any, ClassVar

import pytest

from coterie import slotted


@slotted.dataclass(frozen=True, slots=True)
class Point:
    """A point."""

    kind: ClassVar[str] = "point"
    x: int
    y: int = 2
    tags: list[str] = slotted.field(default_factory=list)
    secret: str = slotted.field(default="s", repr=False, compare=False)
    total: int = slotted.field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", self.x + self.y)


@dataclasses.dataclass(frozen=True, slots=True)
class Reference:
    """The same by the standard library."""

    kind: ClassVar[str] = "point"
    x: int
    y: int = 2
    tags: list[str] = dataclasses.field(default_factory=list)
    secret: str = dataclasses.field(default="s", repr=False, compare=False)
    total: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", self.x + self.y)


@slotted.dataclass(frozen=True, slots=True)
class Place(Point):
    name: str = "here"


@slotted.dataclass(slots=True)
class Counter:
    number: int = 0


class Named(Point):
    """No dataclass itself."""


BOTH: list[Any] = [Point, Reference]


def facts(cls: Any) -> list[tuple[Any, ...]]:
    return [(one.name, one.type, one.init, one.repr, one.compare, one.default) for one in dataclasses.fields(cls)]


def test_to_the_standard_library_it_is_one_of_its_own() -> None:
    assert dataclasses.is_dataclass(Point)
    assert facts(Point) == facts(Reference)
    assert Point.__match_args__ == Reference.__match_args__  # type: ignore[attr-defined]  # made by the decorators
    assert Point.__slots__ == Reference.__slots__  # type: ignore[attr-defined]  # as above
    assert Point.__qualname__ == "Point" and Point.__doc__ == "A point."
    assert [(one.name, one.type) for one in slotted.fields(Point)] == [one[:2] for one in facts(Point)]
    assert [one.default is slotted.MISSING for one in slotted.fields(Point)] == [True, False, True, False, True]
    assert slotted.fields(Reference) == dataclasses.fields(Reference)
    assert dataclasses.asdict(Point(1)) == dataclasses.asdict(Reference(1)) == slotted.asdict(Point(1))


@pytest.mark.parametrize("cls", BOTH)
def test_objects(cls: Any) -> None:
    one = cls(1, tags=["a"])
    assert (one.x, one.y, one.tags, one.secret, one.total, one.kind) == (1, 2, ["a"], "s", 3, "point")
    assert repr(one) == f"{cls.__name__}(x=1, y=2, tags=['a'], total=3)"
    assert one == cls(1, 2, ["a"], "other") and one != cls(2) and one != (1, 2)
    assert cls(1).tags is not cls(1).tags
    assert dataclasses.replace(one, y=5).total == slotted.replace(one, y=5).total == 6
    assert copy.deepcopy(one) == pickle.loads(pickle.dumps(one)) == one
    assert not hasattr(one, "__dict__")


@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize("arguments", [((), {}), ((1, 2, [], "s", 3), {}), ((1,), {"z": 1}), ((1,), {"x": 1})])
def test_wrong_arguments(cls: Any, arguments: Any) -> None:
    given, named = arguments
    with pytest.raises(TypeError):
        cls(*given, **named)


@pytest.mark.parametrize("cls", BOTH)
def test_frozen(cls: Any) -> None:
    one = cls(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        del one.x
    assert one.x == 1


def test_no_attribute_is_added() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Point(1).other = 2  # type: ignore[attr-defined]  # what is tested


def test_equal_ones_have_one_hash() -> None:
    @slotted.dataclass(frozen=True, slots=True)
    class Key:
        name: str

    assert {Key("a"): 1}[Key("a")] == 1


def test_a_subclass_has_the_fields_of_both() -> None:
    place = Place(1, name="there")
    assert (place.total, place.name) == (3, "there")
    assert [one.name for one in dataclasses.fields(Place)] == ["x", "y", "tags", "secret", "total", "name"]
    assert Place(1) != Point(1)


def test_a_subclass_that_is_no_dataclass_may_hold_more() -> None:
    named = Named(1)
    named.more = 2  # type: ignore[attr-defined]  # what is tested
    assert named.more == 2  # type: ignore[attr-defined]  # as above
    with pytest.raises(dataclasses.FrozenInstanceError):
        named.x = 2  # type: ignore[misc]  # as above


def test_one_that_is_not_frozen() -> None:
    counter = Counter()
    counter.number += 1
    assert counter == Counter(1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(counter)


def test_it_refuses_what_it_cannot_do() -> None:
    with pytest.raises(TypeError, match="take the standard library's"):
        slotted.dataclass(slots=False)
    with pytest.raises(TypeError, match="use default_factory"):

        @slotted.dataclass(slots=True)
        class Shared:
            names: list[str] = []  # noqa: RUF012  # what is tested

    with pytest.raises(TypeError, match="so Child must be"):

        @slotted.dataclass(frozen=True, slots=True)
        class Child(Reference):
            more: int = 0


def test_many_threads_make_the_first_object() -> None:
    @slotted.dataclass(frozen=True, slots=True)
    class Fresh:
        number: int

    made: list[Any] = []
    threads = [threading.Thread(target=lambda n=n: made.append(Fresh(n))) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {one.number for one in made} == set(range(20))
