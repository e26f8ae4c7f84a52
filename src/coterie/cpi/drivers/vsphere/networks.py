"""Networks: port groups are the administrator's; this driver makes none."""

from __future__ import annotations

from coterie.cpi.contract import Json, Mark, NetworkCreated, Networks, NotSupported
from coterie.cpi.drivers.vsphere.cloud import VsphereCloud


class NetworkCalls(VsphereCloud):
    def create_network(self, subnet: Json, *, mark: Mark) -> NetworkCreated:
        raise NotSupported(
            "this driver makes no networks", remedy="have the administrator make a port group, and name it"
        )

    def delete_network(self, network_cid: str) -> None:
        raise NotSupported("this driver makes no networks", remedy="have the administrator delete the port group")

    def configure_networks(self, vm_cid: str, networks: Networks) -> None:
        raise NotSupported("networks of a living VM cannot be changed", remedy="recreate the VM")
