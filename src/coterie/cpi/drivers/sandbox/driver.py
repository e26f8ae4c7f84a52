"""The driver of sandbox clouds, put together from its parts; entry point `sandbox`."""

from __future__ import annotations

from typing import ClassVar

from coterie.cpi.contract import Forms
from coterie.cpi.drivers.sandbox.addresses import NETWORK
from coterie.cpi.drivers.sandbox.checks import Checks
from coterie.cpi.drivers.sandbox.disks import DISK, Disks
from coterie.cpi.drivers.sandbox.inspection import Inspection
from coterie.cpi.drivers.sandbox.machines import Machines
from coterie.cpi.drivers.sandbox.membership import Membership
from coterie.cpi.drivers.sandbox.networks import NetworkCalls
from coterie.cpi.drivers.sandbox.objects import Objects
from coterie.cpi.drivers.sandbox.properties import CLOUD
from coterie.cpi.drivers.sandbox.sizes import VM
from coterie.cpi.drivers.sandbox.stemcells import Stemcells


class SandboxCpi(Checks, Stemcells, Machines, Disks, NetworkCalls, Inspection, Objects, Membership):
    """A simulated datacenter as a cloud. Its properties are those of `properties.Settings`; `state` is required."""

    forms: ClassVar[Forms] = {"cloud": CLOUD, "vm": VM, "disk": DISK, "network": NETWORK}
