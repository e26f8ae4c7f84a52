"""The driver of vSphere clouds, put together from its parts; entry point `vsphere`."""

from __future__ import annotations

from typing import ClassVar

from coterie.cpi.contract import Forms
from coterie.cpi.drivers.vsphere.checks import Checks
from coterie.cpi.drivers.vsphere.membership import Membership
from coterie.cpi.drivers.vsphere.moves import Moves
from coterie.cpi.drivers.vsphere.networks import NetworkCalls
from coterie.cpi.drivers.vsphere.nics import NETWORK
from coterie.cpi.drivers.vsphere.objects import Objects
from coterie.cpi.drivers.vsphere.order import DISK, VM
from coterie.cpi.drivers.vsphere.properties import CLOUD


class VsphereCpi(Checks, Objects, Moves, Membership, NetworkCalls):
    """VMware vCenter. Its properties are those of `properties.Settings`."""

    forms: ClassVar[Forms] = {"cloud": CLOUD, "vm": VM, "disk": DISK, "network": NETWORK}
