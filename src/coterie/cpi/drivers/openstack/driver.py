"""The driver of OpenStack clouds, put together from its parts; entry point `openstack`."""

from __future__ import annotations

from typing import ClassVar

from coterie.cpi.contract import Forms
from coterie.cpi.drivers.openstack.checks import Checks
from coterie.cpi.drivers.openstack.inspection import Inspection
from coterie.cpi.drivers.openstack.networks import NetworkCalls
from coterie.cpi.drivers.openstack.nics import NETWORK
from coterie.cpi.drivers.openstack.objects import Objects
from coterie.cpi.drivers.openstack.order import DISK, VM
from coterie.cpi.drivers.openstack.properties import CLOUD
from coterie.cpi.drivers.openstack.sizes import Sizes


class OpenstackCpi(Checks, Objects, Inspection, NetworkCalls, Sizes):
    """OpenStack: Keystone v3, Nova, Neutron, Glance and Cinder. Its properties are those of `properties.Settings`."""

    forms: ClassVar[Forms] = {"cloud": CLOUD, "vm": VM, "disk": DISK, "network": NETWORK}
