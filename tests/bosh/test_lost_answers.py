"""What a lost answer left is found by its mark: it is answered, not made twice, and not taken for gone."""

from __future__ import annotations

from pathlib import Path

from coterie.sandbox import faults
from coterie.sandbox.datacenter import open_datacenter
from tests.bosh.program import Shop


def lose_next(shop: Shop, method: str) -> None:
    shop.call("has_vm", "vm-0")  # so that the datacenter is there
    faults.add(open_datacenter(shop.folder / "sandbox.db").store, method, "timeout-after-commit", times=1)


def test_a_disk(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    lose_next(shop, "create_disk")
    made = shop.call("create_disk", 1024, {}, None)
    assert shop.inventory() == {"disk": [made]}


def test_a_stemcell(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    lose_next(shop, "create_image")
    made = shop.stemcell()
    assert shop.inventory() == {"image": [made]}
