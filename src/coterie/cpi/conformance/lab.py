"""Lab: what a test of the kit works with. Makes small things in the bed's cloud, and takes all of them away again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from coterie.cpi.conformance.bed import Inventory, TestBed
from coterie.cpi.conformance.claims import Claims
from coterie.cpi.conformance.watch import watch_driver
from coterie.cpi.contract import CpiError, GroupMetadata, Json, Mark, SecurityGroup
from coterie.ids import Ids

DISK_MB = 1024


class Lab(Claims):
    """Whatever is made here is removed at the end of the test, newest first."""

    def __init__(self, bed: TestBed) -> None:
        super().__init__(bed)
        self.ids = Ids()
        self.cpi = watch_driver(bed.open(), bed.inventory)
        self._before = bed.inventory()
        self._undo: list[Callable[[], Any]] = []
        self._image: str | None = None

    def mark(self) -> Mark:
        return Mark(self.bed.director_uuid, self.ids.intent())

    def image(self) -> str:
        """One image for all VMs of the test."""
        if self._image is None:
            path, properties = self.bed.image()
            self._image = self.cpi.create_stemcell(path, properties, mark=self.mark())
            self.undo(self.cpi.delete_stemcell, self._image)
        return self._image

    def vm_arguments(
        self, az: str | None = None, group: str | None = None, member: int | None = None, **changed: Any
    ) -> dict[str, Any]:
        """Keyword arguments of create_vm for a small VM, the `member`-th of its group in its az; `changed` replaces
        some of them."""
        place = az or self.az
        bosh: Json = {"server_group_cid": group} if group else {}
        return {
            "agent_id": self.ids.uuid(),
            "stemcell_cid": changed.pop("stemcell_cid", None) or self.image(),
            "cloud_properties": self.bed.vm_properties(place),
            "networks": self.bed.networks(place, self.bed.address(place)),
            "disk_cids": [],
            "env": {"bosh": bosh if member is None else {**bosh, "server_group_member": member}},
            "mark": self.mark(),
            **changed,
        }

    def vm(self, az: str | None = None, group: str | None = None, **changed: Any) -> str:
        cid = self.cpi.create_vm(**self.vm_arguments(az, group, **changed)).cid
        self.undo(self.cpi.delete_vm, cid)
        return cid

    def disk(self, vm_cid: str | None = None, size_mb: int = DISK_MB, mark: Mark | None = None) -> str:
        properties = self.bed.disk_properties(self.az)
        cid = self.cpi.create_disk(size_mb, properties, vm_cid, mark=mark or self.mark())
        self.undo(self.cpi.delete_disk, cid)
        return cid

    def make_written_disk(self) -> str:
        """A disk that has something to copy."""
        cid = self.disk()
        if self.bed.lazy_disks:
            vm = self.vm()
            self.cpi.attach_disk(vm, cid)
            self.cpi.detach_disk(vm, cid)
        return cid

    def group(self, policy: str | None = None, mark: Mark | None = None, **fields: Any) -> str:
        cid = self.cpi.create_server_group(self.metadata(policy, **fields), mark=mark or self.mark())
        self.undo(self.cpi.delete_server_group, cid)
        return cid

    def metadata(
        self,
        policy: str | None = None,
        security_groups: Sequence[SecurityGroup] = (),
        azs: Sequence[str] | None = None,
        options: Json | None = None,
    ) -> GroupMetadata:
        return GroupMetadata(
            director={"name": "conformance", "uuid": self.bed.director_uuid},
            deployment="kit",
            instance_group="broker",
            azs=tuple(self.bed.azs if azs is None else azs),
            security_groups=tuple(security_groups),
            policy=policy or self.policy,
            options=options or {},
        )

    def undo(self, act: Callable[..., Any], *arguments: Any) -> None:
        self._undo.append(lambda: act(*arguments))

    def close(self) -> None:
        """Everything goes, newest first; deleting what is gone already must be fine or a typed not-found."""
        if self.bed.faults:
            self.bed.faults.clear()
        trouble = [str(error) for act in reversed(self._undo) for error in _run_undo(act)]
        left = sorted(self.bed.inventory() - self._before)
        assert not trouble, f"cleaning up failed: {trouble}"
        assert not left, f"after everything was deleted there is still {left}"

    def inventory(self) -> Inventory:
        return self.bed.inventory()


def _run_undo(act: Callable[[], Any]) -> list[Exception]:
    """One thing that will not go must not keep the others."""
    try:
        act()
    except CpiError as error:
        return [] if error.code.endswith("_not_found") else [error]
    except AssertionError as error:
        return [error]
    return []


@pytest.fixture
def lab(bed: TestBed) -> Iterator[Lab]:
    """The only fixture that the tests of the kit use; it builds on the driver's `bed`."""
    made = Lab(bed)
    yield made
    made.close()
