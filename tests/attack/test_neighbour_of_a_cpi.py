"""A local user without rights, and a second Director, beside a `coterie-cpi`."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from coterie.bosh.recording.local_ledger import LocalLedger
from coterie.ledger import statements
from tests.bosh.program import CpiFailure, Shop


def readable_to_others(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir() if stat.S_IMODE(one.stat().st_mode) & 0o077)


def test_no_file_of_the_ledger_is_readable_to_other_users(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        tmp_path.chmod(0o755)
        ledger = LocalLedger(str(tmp_path / "l.db"), 2.0)
        with ledger.ledger.write() as tx:
            statements.run(tx, "CREATE TABLE seen (x text)")
            assert {"l.db", "l.db-wal", "l.db-shm"} == {one.name for one in tmp_path.iterdir()}
            assert readable_to_others(tmp_path) == []
        ledger.close()
    finally:
        os.umask(before)


def test_files_that_an_earlier_release_left_readable_are_closed(tmp_path: Path) -> None:
    first = LocalLedger(str(tmp_path / "l.db"), 2.0)
    assert first.ledger  # holds -wal and -shm open
    for one in tmp_path.iterdir():
        one.chmod(0o644)
    second = LocalLedger(str(tmp_path / "l.db"), 2.0)
    assert second.ledger
    assert readable_to_others(tmp_path) == []
    first.close()
    second.close()


@pytest.fixture
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    return Shop(tmp_path_factory.mktemp("s"))


def test_a_director_cannot_delete_what_another_one_created(shop: Shop) -> None:
    disk = shop.call("create_disk", 1024, {"zone": "z1"}, None, version=1)
    image = shop.stemcell()
    networks = {"default": {"type": "dynamic", "cloud_properties": {}}}
    size = {"cpu": 1, "ram_mb": 512, "disk_mb": 1024, "zone": "z1"}
    vm, _ = shop.call("create_vm", "agent", image, size, networks, [], {})
    for method, cid in (("delete_vm", vm), ("delete_disk", disk), ("delete_stemcell", image)):
        with pytest.raises(CpiFailure, match="belongs to another Director"):
            shop.call(method, cid, director_uuid="another")
    assert {kind: len(found) for kind, found in shop.inventory().items()} == {"vm": 1, "disk": 1, "image": 1}
    shop.call("delete_vm", vm)
    assert "vm" not in shop.inventory()
