"""Sealed properties: only the key's holder opens them, only for the cloud that they were sealed for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coterie.errors import Refused
from coterie.seal.key import Key
from coterie.seal.keys import KeyFile
from coterie.seal.sealed import Address, Purpose, boxes, join, seal, unseal

PROPERTIES = {"url": "https://cloud.example", "secret_key": "hunter2-the-secret", "nested": {"n": [1, None, "é"]}}
LAB = Purpose("lab", "sandbox", "east")


def key(folder: Path, name: str = "k") -> Key:
    file = KeyFile(folder / name)
    file.ensure()
    made = file.newest()
    assert made is not None
    return made


def test_only_the_key_opens_them(tmp_path: Path) -> None:
    mine, other = key(tmp_path), key(tmp_path, "other")
    sealed = seal(mine.public, LAB, PROPERTIES)
    assert unseal(mine, "lab", "sandbox", sealed) == PROPERTIES
    assert "hunter2" not in str(sealed) and "cloud.example" not in str(sealed)
    with pytest.raises(Refused, match="cannot be opened"):
        unseal(other, "lab", "sandbox", sealed)
    assert seal(mine.public, LAB, PROPERTIES) != sealed, "equal credentials cannot be told from the ledger"


@pytest.mark.parametrize(("cloud", "driver"), [("other", "sandbox"), ("lab", "exec")])
def test_they_cannot_be_passed_on_to_another_cloud(tmp_path: Path, cloud: str, driver: str) -> None:
    mine = key(tmp_path)
    with pytest.raises(Refused, match="not meant for it") as refused:
        unseal(mine, cloud, driver, seal(mine.public, LAB, PROPERTIES))
    assert "hunter2" not in str(refused.value.facts())


def test_what_was_changed_is_refused(tmp_path: Path) -> None:
    mine = key(tmp_path)
    form, group, key_id, text = seal(mine.public, LAB, PROPERTIES)["sealed"].split(":")
    changed = [
        f"{form}:{group}:{key_id}:{text[:-8]}AAAAAAA=",
        f"{form}:{group}:{key_id}:not base 64",
        f"{form}:{group}:{key_id}:",
        f"{form}:west:{key_id}:{text}",
    ]
    for one in changed:
        with pytest.raises(Refused):
            unseal(mine, "lab", "sandbox", {"sealed": one})


def test_the_length_tells_little(tmp_path: Path) -> None:
    mine = key(tmp_path)
    assert len({len(seal(mine.public, LAB, {"p": "x" * n})["sealed"]) for n in range(1, 60)}) == 1


@pytest.mark.parametrize(
    "plain",
    [
        {},
        {"sealed": "yes"},
        {"sealed": 1},
        {"sealed": ["coterie-sealed-1:a:b:c", 1]},
        {"a": 1, "sealed": "coterie-sealed-1:a:b:c"},
    ],
)
def test_properties_in_plain_stay_what_they_are(tmp_path: Path, plain: dict[str, Any]) -> None:
    assert boxes(plain) == {}
    assert unseal(key(tmp_path), "lab", "sandbox", plain) == plain


def test_the_outside_says_to_whom(tmp_path: Path) -> None:
    mine = key(tmp_path)
    assert list(boxes(seal(mine.public, LAB, PROPERTIES))) == [Address("east", mine.public.id)]


def test_each_of_several_groups_opens_its_own_box(tmp_path: Path) -> None:
    mine, other, thief = key(tmp_path), key(tmp_path, "other"), key(tmp_path, "thief")
    west = Purpose("lab", "sandbox", "west")
    sealed = join([seal(mine.public, LAB, PROPERTIES), seal(other.public, west, PROPERTIES)])
    assert list(boxes(sealed)) == [Address("east", mine.public.id), Address("west", other.public.id)]
    assert [unseal(one, "lab", "sandbox", sealed) for one in (mine, other)] == [PROPERTIES, PROPERTIES]
    with pytest.raises(Refused, match="cannot be opened"):
        unseal(thief, "lab", "sandbox", sealed)
    with pytest.raises(Refused, match="not meant for it"):
        unseal(other, "far", "sandbox", sealed)
