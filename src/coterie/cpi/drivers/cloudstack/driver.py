"""The driver of CloudStack clouds, put together from its parts; entry point `cloudstack`."""

from __future__ import annotations

from typing import ClassVar

from coterie.cpi.contract import Forms
from coterie.cpi.drivers.cloudstack.checks import Checks
from coterie.cpi.drivers.cloudstack.inspection import Inspection
from coterie.cpi.drivers.cloudstack.networks import NetworkCalls
from coterie.cpi.drivers.cloudstack.nics import NETWORK
from coterie.cpi.drivers.cloudstack.objects import Objects
from coterie.cpi.drivers.cloudstack.order import DISK, VM
from coterie.cpi.drivers.cloudstack.properties import CLOUD
from coterie.cpi.drivers.cloudstack.sizes import Sizes


class CloudstackCpi(Checks, Objects, Inspection, NetworkCalls, Sizes):
    """Apache CloudStack, advanced zones. Its properties are those of `properties.Settings`."""

    forms: ClassVar[Forms] = {"cloud": CLOUD, "vm": VM, "disk": DISK, "network": NETWORK}
