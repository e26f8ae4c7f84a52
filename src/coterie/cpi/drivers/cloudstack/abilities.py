"""What a CloudStack cloud can do, as its properties say. Touches no cloud."""

from __future__ import annotations

from coterie.cpi.contract import Capabilities, Json, Marking, Reason
from coterie.cpi.drivers.cloudstack.cloud import CloudstackCloud
from coterie.cpi.drivers.cloudstack.kinds import FILTERED, LISTINGS

_BOSH = "BOSH CPI API v2, https://bosh.io/docs/cpi-api-v2-method/"
_FORMATS = ("qcow2", "raw", "vhd", "vhdx", "ova", "light")


class Abilities(CloudstackCloud):
    def capabilities(self) -> Capabilities:
        settings = self.settings
        kinds: dict[str, Marking] = dict.fromkeys(LISTINGS, "name")
        kinds["ip"] = "later"
        return Capabilities(
            driver="cloudstack",
            policies=settings.policies,
            kinds=kinds,
            filtered=FILTERED,
            empty_groups=True,
            boots_per_soft_group=1,  # apache/cloudstack#9110: deploys at once do not see each other
            resize_disk=True,
            snapshots=True,
            managed_networks=True,
            host_visibility=settings.host_visibility,
            settle_s=settings.settle_s,
            max_parallel_calls=settings.max_parallel_calls,
            unsupported={
                "configure_networks": Reason("a VM of today gets its networks when it is made", _BOSH),
            },
        )

    def info(self) -> Json:
        return {"api_version": 3, "stemcell_formats": [f"cloudstack-{one}" for one in _FORMATS]}

    def ping(self) -> str:
        return "pong"
