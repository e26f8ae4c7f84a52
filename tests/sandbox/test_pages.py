"""Lists: filtered at the server, page by page, nothing twice and nothing missed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.sandbox import disks, security_groups
from coterie.sandbox.errors import BadRequest, NoSuch, RevisionDiffers
from coterie.sandbox.pages import Filter
from coterie.sandbox.tags import set_tags

from .world import World, begin


def names(world: World, only: Filter, limit: int) -> list[str]:
    found: list[str] = []
    after = None
    while True:
        page = disks.list_disks(world.account, only, after, limit)
        assert len(page.items) <= limit
        found += [disk.name for disk in page.items]
        after = page.next
        if after is None:
            return found


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(["red", "blue"]), max_size=12), st.integers(1, 5))
def test_pages_cover_what_is_asked_once(
    tmp_path_factory: pytest.TempPathFactory, colours: list[str], limit: int
) -> None:
    world = begin(tmp_path_factory.mktemp("state"))
    for number, colour in enumerate(colours):
        disks.create_disk(world.account, name=f"d{number}", size_mb=1, tags={"colour": colour})
    everything = [f"d{number}" for number in range(len(colours))]
    red = [name for name, colour in zip(everything, colours, strict=True) if colour == "red"]
    assert names(world, Filter(), limit) == everything
    assert names(world, Filter(tag=("colour", "red")), limit) == red
    assert names(world, Filter(name="d0"), limit) == everything[:1]
    assert names(world, Filter(tag=("colour", "green")), limit) == []


def test_a_page_has_at_most_500(world: World) -> None:
    for _ in range(501):
        disks.create_disk(world.account, name="d", size_mb=1)
    page = disks.list_disks(world.account, Filter(), None, 10_000)
    assert len(page.items) == 500
    assert len(disks.list_disks(world.account, Filter(), page.next).items) == 1


def test_tags_of_one_kind_do_not_find_another(world: World) -> None:
    disks.create_disk(world.account, name="d", size_mb=1, tags={"a": "b"})
    assert security_groups.list_security_groups(world.account, Filter(tag=("a", "b"))).items == ()


def test_tags_are_set_dropped_and_searched_anew(world: World) -> None:
    disk = disks.create_disk(world.account, name="d", size_mb=1, tags={"a": "1", "b": "2"})
    set_tags(world.account, disk.id, "disk", {"a": None, "b": "3", "c": "4"}, rename="e")
    changed = disks.get_disk(world.account, disk.id)
    assert changed.tags == {"b": "3", "c": "4"}
    assert changed.name == "e"
    assert changed.revision == disk.revision + 1
    assert disks.list_disks(world.account, Filter(tag=("b", "2"))).items == ()
    assert disks.list_disks(world.account, Filter(tag=("b", "3"))).items == (changed,)
    with pytest.raises(NoSuch):
        set_tags(world.account, disk.id, "vm", {})


def test_tags_are_bounded(world: World) -> None:
    for tags in ({"": "x"}, {"k" * 129: "x"}, {"k": "x" * 4097}):
        with pytest.raises(BadRequest):
            disks.create_disk(world.account, name="d", size_mb=1, tags=tags)
    assert disks.list_disks(world.account).items == ()


def test_a_deletion_can_be_tied_to_a_revision(world: World) -> None:
    disk = disks.create_disk(world.account, name="d", size_mb=1)
    set_tags(world.account, disk.id, "disk", {"a": "b"})
    with pytest.raises(RevisionDiffers):
        disks.delete_disk(world.account, disk.id, revision=disk.revision)
    disks.delete_disk(world.account, disk.id, revision=disk.revision + 1)


def test_a_made_up_page_is_refused(world: World) -> None:
    with pytest.raises(BadRequest):
        disks.list_disks(world.account, Filter(), "somewhere")
