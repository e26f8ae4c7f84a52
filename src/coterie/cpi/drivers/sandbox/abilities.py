"""What a sandbox cloud can do, as its properties say. Touches no cloud."""

from __future__ import annotations

from coterie.cpi.contract import Capabilities, Json, Reason
from coterie.cpi.drivers.sandbox.cloud import SandboxCloud
from coterie.cpi.drivers.sandbox.desks import DESKS
from coterie.cpi.drivers.sandbox.properties import Settings

_BOSH = "BOSH CPI API v2, https://bosh.io/docs/cpi-api-v2-method/"
_OFF = "switched off in the properties of this cloud"


class Abilities(SandboxCloud):
    def capabilities(self) -> Capabilities:
        settings = self.settings
        kinds = [kind for kind in (*DESKS, "server_group") if settings.snapshots or kind != "snapshot"]
        return Capabilities(
            driver="sandbox",
            policies=settings.policies,
            kinds=dict.fromkeys(kinds, "atomic"),
            filtered=frozenset(kinds),
            empty_groups=not settings.single_writer,
            max_groups=settings.quotas.get("server_groups"),
            max_group_members=settings.quotas.get("server_group_members"),
            boots_per_soft_group=settings.boots_per_soft_group,
            resize_disk=settings.resize_disk,
            snapshots=settings.snapshots,
            managed_networks=True,
            host_visibility=True,
            settle_s=settings.settle_s,
            unsupported=_unsupported(settings),
        )

    def info(self) -> Json:
        return {"api_version": 3, "stemcell_formats": ["sandbox", "sandbox-light"]}

    def ping(self) -> str:
        return "pong"


def _unsupported(settings: Settings) -> dict[str, Reason]:
    found = {"configure_networks": Reason("a VM of today gets its networks when it is made", _BOSH)}
    if not settings.resize_disk:
        found |= dict.fromkeys(("resize_disk", "update_disk"), Reason(_OFF, "properties.resize_disk"))
    if not settings.snapshots:
        found |= dict.fromkeys(("snapshot_disk", "delete_snapshot"), Reason(_OFF, "properties.snapshots"))
    return found
