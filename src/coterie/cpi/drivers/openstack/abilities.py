"""What an OpenStack cloud can do, as its properties say. Touches no cloud."""

from __future__ import annotations

from coterie.cpi.contract import Capabilities, Json, Kind, Marking, Reason
from coterie.cpi.drivers.openstack.cloud import OpenstackCloud
from coterie.cpi.drivers.openstack.kinds import FILTERED

_BOSH = "BOSH CPI API v2, https://bosh.io/docs/cpi-api-v2-method/"
_FORMATS = ("qcow2", "raw", "vmdk", "light")
_NAMED: tuple[Kind, ...] = ("server_group", "keypair")
_ATOMIC: tuple[Kind, ...] = ("vm", "disk", "snapshot", "image", "port", "network", "ip", "security_group")


class Abilities(OpenstackCloud):
    def capabilities(self) -> Capabilities:
        settings = self.settings
        kinds: dict[str, Marking] = {**dict.fromkeys(_ATOMIC, "atomic"), **dict.fromkeys(_NAMED, "name")}
        return Capabilities(
            driver="openstack",
            policies=settings.policies,
            kinds=kinds,
            filtered=FILTERED,
            empty_groups=True,
            # any number at once: `boots` lets the scheduler see them one after the other
            boots_per_soft_group=None,
            resize_disk=True,
            snapshots=True,
            managed_networks=True,
            host_visibility=True,
            settle_s=settings.settle_s,
            max_parallel_calls=settings.max_parallel_calls,
            unsupported={
                "configure_networks": Reason("a VM of today gets its networks when it is made", _BOSH),
            },
        )

    def info(self) -> Json:
        return {"api_version": 3, "stemcell_formats": [f"openstack-{one}" for one in _FORMATS]}

    def ping(self) -> str:
        return "pong"
