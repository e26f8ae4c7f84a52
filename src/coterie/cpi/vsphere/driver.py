"""The driver of vSphere clouds, put together from its parts; entry point `vsphere`."""

from __future__ import annotations

from coterie.cpi.vsphere.checks import Checks
from coterie.cpi.vsphere.membership import Membership
from coterie.cpi.vsphere.moves import Moves
from coterie.cpi.vsphere.networks import NetworkCalls
from coterie.cpi.vsphere.objects import Objects


class VsphereCpi(Checks, Objects, Moves, Membership, NetworkCalls):
    """VMware vCenter. Its properties are those of `properties.Settings`."""
