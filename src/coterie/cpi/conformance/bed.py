"""TestBed: all that the kit must know about a driver's cloud. A driver fills it in; the tests are the kit's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

from coterie.cpi.conformance.hands import Faults, Operator
from coterie.cpi.contract import KINDS, Cpi, Json, Kind, Networks, Reason

Inventory = frozenset[tuple[str, str]]  # (kind, cid)


class TestBed(ABC):
    """One configured cloud with room for some twenty small VMs. Fresh for every test, or shared: the kit cleans up."""

    __test__ = False  # a name that pytest would collect

    driver: str  # the column of the table
    azs: tuple[str, ...]
    director_uuid: str
    operator: Operator | None = None
    faults: Faults | None = None
    hosts: int | None = None  # how many the first az has, all empty; None: unknown
    page_size: int | None = None  # one object more needs a second page of survey; None: too many to create
    lazy_disks: bool = False  # a disk has nothing to copy until it was attached once
    parallel: int = 16  # simultaneous calls in the tests of concurrency
    # Why a part is missing (operator, faults, expire, hosts, page_size, addresses, security_groups): no other excuse.
    limits: Mapping[str, Reason] = {}

    @abstractmethod
    def open(self, director_uuid: str | None = None) -> Cpi:
        """A new driver object, as another process would have one; for another Director if one is named."""

    def open_keeping(self, cid: str) -> Cpi:
        """The same, with a cloud that is configured to keep this object. Needed where people can write nothing on some
        kind."""
        raise NotImplementedError(f"people cannot write on {cid}, so {type(self).__name__} needs open_keeping")

    @abstractmethod
    def image(self) -> tuple[str, Json]:
        """The path of a small image file, and the cloud_properties that go with it."""

    @abstractmethod
    def vm_properties(self, az: str) -> Json:
        """cloud_properties of a small VM there, those of the az included."""

    def az_properties(self, az: str) -> Json:
        """The part of them that is the az's, not the size's."""
        return {}

    @abstractmethod
    def huge_vm_properties(self, az: str) -> Json:
        """cloud_properties of a VM that is well-formed, and that no host can hold."""

    @abstractmethod
    def address(self, az: str) -> str | None:
        """A static address that nothing has had yet; None where the cloud gives no static addresses."""

    @abstractmethod
    def networks(self, az: str, address: str | None) -> Networks:
        """The `networks` argument of create_vm: one network named `default`, with this address if there is one."""

    def disk_properties(self, az: str) -> Json:
        return {}

    def subnet(self) -> Json:
        """What create_network is asked for."""
        return {"type": "manual", "range": "10.99.0.0/24", "gateway": "10.99.0.1", "cloud_properties": {}}

    def inside(self, vm_cid: str) -> AbstractContextManager[bool]:
        """While it lasts, this process seems to run in that VM; False where that cannot be had."""
        return nullcontext(False)

    def inventory(self) -> Inventory:
        """Everything that is in the cloud now. Beds that can look past the driver should: it sees unmarked leaks."""
        return survey_all(self.open(), self.director_uuid)


def survey_all(cpi: Cpi, director_uuid: str) -> Inventory:
    """All that a survey of every kind lists."""
    return frozenset((kind, cid) for kind in KINDS for cid in _cids(cpi, kind, director_uuid))


def _cids(cpi: Cpi, kind: Kind, director_uuid: str) -> list[str]:
    cids: list[str] = []
    cursor: str | None = None
    while True:
        page = cpi.survey(kind, director_uuid, cursor)
        cids += [one.cid for one in page.objects]
        cursor = page.next
        if cursor is None:
            return cids
