"""Key pairs: registered once, used by name, removed with their last VM if they are ours."""

from __future__ import annotations

import pytest

from coterie.cpi.contract import InvalidCall, Mark
from coterie.cpi.kit.key_pairs import KeyPairs, key_digest

MARK = Mark("0f8fad5b-d9cb-469f-a165-70867728950e", "01" + "a" * 24)
KEY = "ssh-ed25519 AAAAC3Nz me@home"


class Cloud:
    def __init__(self) -> None:
        self.keys: dict[str, str] = {"cot-old": ""}
        self.users: dict[str, list[str]] = {}

    def find(self, digest: bytes, mark: Mark) -> str | None:
        name = self.name(digest, mark)
        return name if name in self.keys else None

    def name(self, digest: bytes, mark: Mark) -> str:
        return f"cot-{digest.hex()[:8]}"

    def register(self, name: str, public_key: str) -> None:
        assert name not in self.keys
        self.keys[name] = public_key

    def mark(self, name: str) -> Mark | None:
        return MARK if name.startswith("cot-") else None

    def list_users(self, name: str) -> list[str]:
        return self.users.get(name, [])

    def delete(self, name: str) -> None:
        del self.keys[name]


def test_a_public_key_is_registered_once() -> None:
    cloud = Cloud()
    pairs = KeyPairs(cloud, "default")
    name = pairs.ensure(KEY, None, MARK)
    assert pairs.ensure("ssh-ed25519 AAAAC3Nz another comment", "ignored", MARK) == name
    assert cloud.keys == {"cot-old": "", str(name): KEY}


def test_an_operators_pair_or_the_default_is_used_by_name() -> None:
    pairs = KeyPairs(Cloud(), "default")
    assert pairs.ensure(None, "ops", MARK) == "ops"
    assert pairs.ensure(None, None, MARK) == "default"


def test_a_pair_goes_with_its_last_user_if_it_is_ours() -> None:
    cloud = Cloud()
    cloud.keys["ops"] = ""
    pairs = KeyPairs(cloud, None)
    cloud.users["cot-old"] = ["vm"]
    for name in (None, "ops", "cot-old"):
        pairs.release(name)
    assert set(cloud.keys) == {"cot-old", "ops"}
    cloud.users.clear()
    pairs.release("cot-old")
    assert set(cloud.keys) == {"ops"}


def test_half_a_key_is_refused() -> None:
    with pytest.raises(InvalidCall, match="public_key"):
        key_digest("AAAAC3Nz")
