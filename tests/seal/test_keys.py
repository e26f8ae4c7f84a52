"""The key file: for its owner only, made once however many start, rotated without a restart."""

from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path

import pytest

from coterie.errors import Refused, UsageError
from coterie.seal.key import PublicKey
from coterie.seal.keys import KeyFile


def _ensure(path: str) -> None:
    KeyFile(Path(path)).ensure()


def test_of_many_that_start_at_once_all_use_one_key(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "conductor.key"
    crowd = [multiprocessing.get_context("fork").Process(target=_ensure, args=(str(path),)) for _ in range(6)]
    for one in crowd:
        one.start()
    for one in crowd:
        one.join(60)
        assert one.exitcode == 0
    assert len(json.loads(path.read_text())["keys"]) == 1
    assert path.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in path.parent.iterdir()] == ["conductor.key"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    file = KeyFile(tmp_path / "k")
    file.ensure()
    file.path.chmod(mode)
    with pytest.raises(Refused, match="read by others") as refused:
        file.newest()
    assert "chmod 600" in refused.value.remedy


def test_a_new_key_goes_in_front_and_is_seen_by_those_who_have_the_file_open(tmp_path: Path) -> None:
    file, reader = KeyFile(tmp_path / "k"), KeyFile(tmp_path / "k")
    first = file.add()
    assert reader.newest() == first
    second = file.add()
    assert reader.newest() == second
    assert reader.find(first.public.id) == first
    assert reader.find("none") is None


@pytest.mark.parametrize(
    "text", ["", "{}", '{"coterie_keys": 2, "keys": []}', '{"coterie_keys": 1, "keys": [{}]}', "x"]
)
def test_what_is_no_key_file_is_told_without_its_content(tmp_path: Path, text: str) -> None:
    path = tmp_path / "k"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(UsageError, match="no key file") as refused:
        KeyFile(path).newest()
    assert "s3cret" not in str(refused.value.facts())


def test_a_private_key_is_in_no_word_about_it(tmp_path: Path) -> None:
    made = KeyFile(tmp_path / "k").add()
    assert repr(made) == f"Key({made.public.id})"


@pytest.mark.parametrize("text", ["", "x", "AAAA", "é", "A" * 44])
def test_what_is_no_public_key_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="no public key"):
        PublicKey.read(text)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can write for another user")
def test_what_root_writes_belongs_to_the_user_of_the_service(tmp_path: Path) -> None:
    """An admin rotates as root; the conductor must be able to read the file afterwards."""
    os.chown(tmp_path, 61_100, 61_101)
    file = KeyFile(tmp_path / "k")
    for _ in range(2):
        file.add()
        facts = file.path.stat()
        assert (facts.st_uid, facts.st_gid, facts.st_mode & 0o777) == (61_100, 61_101, 0o600)
