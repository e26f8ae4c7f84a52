"""Machines in the sandbox's datacenter that Coterie did not create."""

from __future__ import annotations

from pathlib import Path

from coterie.sandbox import images, vm_shape, vms
from coterie.sandbox.accounts import open_account
from coterie.sandbox.datacenter import Account, open_datacenter
from coterie.sandbox.errors import NoSuch
from coterie.sandbox.fit import Demand


def account(folder: Path) -> Account:
    return open_account(open_datacenter(folder / "sandbox.db", create=False), "lab", operator=True)


def stranger(folder: Path, name: str = "theirs") -> str:
    """The CID of a running VM that carries no mark."""
    here = account(folder)
    image = images.create_image(here, name=f"image-of-{name}").id
    return vms.create_vm(here, name=name, size=Demand(1, 64, 64, "z1"), image=image).id


def exists(folder: Path, cid: str) -> bool:
    try:
        vm_shape.get_vm(account(folder), cid)
    except NoSuch:
        return False
    return True


def end(folder: Path, cid: str) -> None:
    vms.delete_vm(account(folder), cid)
