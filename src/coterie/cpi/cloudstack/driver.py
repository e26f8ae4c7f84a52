"""The driver of CloudStack clouds, put together from its parts; entry point `cloudstack`."""

from __future__ import annotations

from typing import ClassVar

from coterie.cpi.cloudstack.checks import Checks
from coterie.cpi.cloudstack.inspection import Inspection
from coterie.cpi.cloudstack.networks import NetworkCalls
from coterie.cpi.cloudstack.nics import NETWORK
from coterie.cpi.cloudstack.objects import Objects
from coterie.cpi.cloudstack.order import DISK, VM
from coterie.cpi.cloudstack.properties import CLOUD
from coterie.cpi.cloudstack.sizes import Sizes
from coterie.cpi.contract import Forms


class CloudstackCpi(Checks, Objects, Inspection, NetworkCalls, Sizes):
    """Apache CloudStack, advanced zones. Its properties are those of `properties.Settings`."""

    forms: ClassVar[Forms] = {"cloud": CLOUD, "vm": VM, "disk": DISK, "network": NETWORK}
