"""Networks that we make for a deployment. The ones that an account begins with are not our business."""

from __future__ import annotations

from coterie.cpi.contract import InvalidCall, Json, Mark, NetworkCreated, Networks, NotSupported
from coterie.cpi.drivers.sandbox.cloud import SandboxCloud
from coterie.cpi.drivers.sandbox.marking import mark_tags
from coterie.cpi.drivers.sandbox.refusals import cloud_call
from coterie.sandbox import networks
from coterie.sandbox.errors import NoSuch


class NetworkCalls(SandboxCloud):
    @cloud_call
    def create_network(self, subnet: Json, *, mark: Mark) -> NetworkCreated:
        """VMs use it by its cid, since names are not unique."""
        bits = subnet.get("netmask_bits")
        if bits is not None and (isinstance(bits, bool) or not isinstance(bits, int)):
            raise InvalidCall(f"subnet.netmask_bits is {bits!r}", remedy="give a whole number, for example 24")
        made = networks.create_network(
            self.account,
            name=mark.name(str((subnet.get("cloud_properties") or {}).get("name") or "")),
            range=subnet.get("range"),
            bits=bits,
            gateway=subnet.get("gateway"),
            tags=mark_tags(mark),
            client_token=mark.intent,
        )
        addresses: Json = {"range": made.range, "gateway": made.gateway, "reserved": []}
        return NetworkCreated(made.id, addresses, {"name": made.id})

    @cloud_call
    def delete_network(self, network_cid: str) -> None:
        try:
            networks.delete_network(self.account, network_cid)
        except NoSuch:
            return

    def configure_networks(self, vm_cid: str, networks: Networks) -> None:
        raise NotSupported("networks of a living VM cannot be changed", remedy="recreate the VM")
