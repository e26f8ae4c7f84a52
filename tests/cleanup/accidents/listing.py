"""An accident: its number and name, what happens, what the cloud must have for it, and the function that runs it.

`LACKS` says which cloud has no such thing, and why: those accidents are skipped there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coterie.cpi.contract import Reason

if TYPE_CHECKING:
    from tests.cleanup.accidents.ground import Ground

Run = Callable[["Ground"], None]
_added: list[Accident] = []
_API = "vSphere Web Services API"
_NO_SECURITY_GROUPS = Reason("vCenter has none; they belong to NSX, another product", _API)
_NO_PARTS = Reason("its driver creates none beside a VM", "docs/cleanup.md, Kinds")

# Drivers that the suite does not run on.
LEFT_OUT = {
    "exec": Reason("a BOSH CPI cannot list what there is", "docs/cleanup.md, Kinds"),
}
LACKS: dict[str, dict[str, Reason]] = {
    "sandbox": {
        "port": _NO_PARTS,
        "ip": _NO_PARTS,
        "part of a VM": _NO_PARTS,
        "sharing": Reason("images belong to one account; no call shares them", "src/coterie/sandbox/images.py"),
    },
    "cloudstack": {
        "port": _NO_PARTS,
        "copy of a server group": Reason("names of affinity groups are unique", "CloudStack API, createAffinityGroup"),
    },
    "vsphere": {
        "security_group": _NO_SECURITY_GROUPS,
        "port": _NO_PARTS,
        "ip": _NO_PARTS,
        "part of a VM": _NO_PARTS,
        "part": _NO_SECURITY_GROUPS,
        "sharing": Reason("a template has no owner: permissions of its folder decide", _API),
        "filter": Reason("the driver lists the Director's own folder", "docs/vsphere.md"),
    },
    "aws": {
        "port": _NO_PARTS,
        "ip": _NO_PARTS,
        "part of a VM": _NO_PARTS,
    },
    "azure": {
        "ip": _NO_PARTS,
        "filter": Reason("its lists are those of the resource group, without a filter", "docs/azure.md, Set-up"),
    },
    "gcp": {
        "port": _NO_PARTS,
        "ip": _NO_PARTS,
        "part of a VM": _NO_PARTS,
        "copy of a server group": Reason("a placement policy is marked by its name, which is unique", "docs/gcp.md"),
    },
    "openstack": {},
    "incus": {
        "port": _NO_PARTS,
        "ip": _NO_PARTS,
        "part of a VM": _NO_PARTS,
    },
}


_NO_ACLS = Reason("LXD has no ACLs of NICs on bridges", "docs/incus.md, LXD")
_LACKS_OF_LXD = {"security_group": _NO_ACLS, "part": _NO_ACLS}


def lacks_of(driver: str) -> dict[str, Reason]:
    """Also what LXD lacks, where the suite runs on one."""
    more = _LACKS_OF_LXD if driver == "incus" and os.environ.get("COTERIE_LXD") else {}
    return {**LACKS[driver], **more}


@dataclass(frozen=True, slots=True)
class Accident:
    """`needs`: words of `LACKS`. `cloud`: the cloud takes part in it; else it is a matter of the Director alone, and
    other clouds than the sandbox have it in the long runs only."""

    number: int
    name: str
    outcome: str
    run: Run
    needs: tuple[str, ...] = ()
    cloud: bool = True

    def reason_to_skip(self, driver: str) -> Reason | None:
        lacks = lacks_of(driver)
        return next((lacks[need] for need in self.needs if need in lacks), None)


def accident(number: int, name: str, outcome: str, *needs: str, cloud: bool = True) -> Callable[[Run], Run]:
    def add(run: Run) -> Run:
        _added.append(Accident(number, name, outcome, run, needs, cloud))
        return run

    return add


def listed() -> list[Accident]:
    return sorted(_added, key=lambda one: one.number)
