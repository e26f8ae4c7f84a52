"""What a vSphere cloud can do, as its properties say. Touches no cloud and needs no SDK."""

from __future__ import annotations

from coterie.cpi.contract import Capabilities, Json, Reason
from coterie.cpi.drivers.vsphere.cloud import VsphereCloud
from coterie.cpi.drivers.vsphere.group_spec import POLICIES

_BOSH = "BOSH CPI API v2, https://bosh.io/docs/cpi-api-v2-method/"
_DISKS = "vSphere Web Services API, VirtualDiskManager: a virtual disk is a file"
_NETWORKS = "vSphere Networking: port groups and VLANs are set up by the administrator"


class Abilities(VsphereCloud):
    def capabilities(self) -> Capabilities:
        return Capabilities(
            driver="vsphere",
            policies=POLICIES,
            kinds={"vm": "atomic", "image": "atomic", "disk": "name", "snapshot": "name", "server_group": "name"},
            filtered=frozenset({"vm", "image", "disk", "snapshot", "server_group"}),
            empty_groups=False,
            moves_members=True,
            group_changes=frozenset({"host_group", "rule", "affine"}),
            grants=True,
            resize_disk=True,
            snapshots=True,
            managed_networks=False,
            host_visibility=True,
            settle_s=self.settings.settle_s,
            max_parallel_calls=self.settings.max_parallel_calls,
            unsupported={
                "configure_networks": Reason("a VM of today gets its networks when it is made", _BOSH),
                "create_network": Reason("port groups are the administrator's", _NETWORKS),
                "delete_network": Reason("port groups are the administrator's", _NETWORKS),
                "set_disk_metadata": Reason("a disk's file carries no metadata", _DISKS),
            },
        )

    def info(self) -> Json:
        return {"api_version": 3, "stemcell_formats": ["vsphere-ovf", "vsphere-ova", "vsphere-light"]}

    def ping(self) -> str:
        return "pong"
