"""What a driver says of itself without touching its cloud, as data: `info`, `ping` and `capabilities`.

self.profile = Profile(FORMATS, Capabilities(driver="x", kinds=objects.markings, filtered=objects.filtered, ...,
                                             unsupported=WITHOUT_CONFIGURE_NETWORKS))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from coterie.cpi.contract import Capabilities, Json, NotSupported, Reason
from coterie.slotted import dataclass

API_VERSION = 3
_BOSH = "BOSH CPI API v2, https://bosh.io/docs/cpi-api-v2-method/"
WITHOUT_CONFIGURE_NETWORKS: Mapping[str, Reason] = {
    "configure_networks": Reason("a VM of today gets its networks when it is made", _BOSH)
}


@dataclass(frozen=True, slots=True)
class Profile:
    """`formats`: the kinds of stemcells that the driver takes, as BOSH names them."""

    formats: Sequence[str]
    capabilities: Capabilities

    def info(self) -> Json:
        return {"api_version": API_VERSION, "stemcell_formats": list(self.formats)}

    def ping(self) -> str:
        return "pong"


def refuse_configure_networks() -> NoReturn:
    raise NotSupported("networks of a living VM cannot be changed", remedy="recreate the VM")
