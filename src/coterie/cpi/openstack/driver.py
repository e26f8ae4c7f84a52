"""The driver of OpenStack clouds, put together from its parts; entry point `openstack`."""

from __future__ import annotations

from typing import ClassVar

from coterie.cpi.contract import Forms
from coterie.cpi.openstack.checks import Checks
from coterie.cpi.openstack.inspection import Inspection
from coterie.cpi.openstack.networks import NetworkCalls
from coterie.cpi.openstack.nics import NETWORK
from coterie.cpi.openstack.objects import Objects
from coterie.cpi.openstack.order import DISK, VM
from coterie.cpi.openstack.properties import CLOUD
from coterie.cpi.openstack.sizes import Sizes


class OpenstackCpi(Checks, Objects, Inspection, NetworkCalls, Sizes):
    """OpenStack: Keystone v3, Nova, Neutron, Glance and Cinder. Its properties are those of `properties.Settings`."""

    forms: ClassVar[Forms] = {"cloud": CLOUD, "vm": VM, "disk": DISK, "network": NETWORK}
