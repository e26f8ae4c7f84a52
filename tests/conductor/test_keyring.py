"""The key at a conductor's start: the first of a group makes and publishes it, the others must have it."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.conductor.keyring import key_file
from coterie.errors import Refused
from coterie.ledger.rows import keys
from coterie.ledger.store import Ledger
from coterie.settings import Settings, load


def settings(state: Path, **more: str) -> Settings:
    return load({"state": str(state)}, {"HOME": "/", **more})


def test_the_first_makes_it_and_one_without_it_is_refused(ledger: Ledger, tmp_path: Path) -> None:
    first = key_file(ledger, settings(tmp_path / "a"), "east").newest()
    assert first is not None
    with ledger.read() as tx:
        assert [key.id for key in keys.own(tx, "east")] == [first.public.id]
    with pytest.raises(Refused, match="no key of its group 'east'") as refused:
        key_file(ledger, settings(tmp_path / "b"), "east")
    assert "copy the key file" in refused.value.remedy
    copied = tmp_path / "copied.key"
    copied.write_bytes((tmp_path / "a" / "conductor.key").read_bytes())
    copied.chmod(0o600)
    with_copy = settings(tmp_path / "b", COTERIE_KEY_FILE=str(copied))
    assert key_file(ledger, with_copy, "east").newest() == first


def test_groups_have_keys_of_their_own_and_so_has_the_stand_in(ledger: Ledger, tmp_path: Path) -> None:
    made = {group: key_file(ledger, settings(tmp_path / str(group)), group).newest() for group in ("east", "", None)}
    assert len({key.public.id for key in made.values() if key}) == 3
    with ledger.read() as tx:
        stand_in = keys.own(tx, keys.EVERY)[0]
        assert [keys.of_group(tx, group)[0].id for group in ("east", "west")] == [
            made["east"].public.id if made["east"] else "",
            stand_in.id,
        ]


def test_a_restart_changes_nothing(ledger: Ledger, tmp_path: Path) -> None:
    first = key_file(ledger, settings(tmp_path), None).newest()
    assert key_file(ledger, settings(tmp_path), None).newest() == first
    with ledger.read() as tx:
        assert len(keys.own(tx, keys.EVERY)) == 1
