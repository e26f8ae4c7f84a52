"""Static addresses: whether one is free is asked before a VM is made that wants it."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.cpi.contract import VMCreationFailed
from coterie.cpi.drivers.cloudstack.api import Row
from coterie.cpi.drivers.cloudstack.deploys import Deploys


class Addresses(Deploys):
    def require_free(self, name: str, wanted: Sequence[tuple[Row, str | None]]) -> None:
        """`name`: the VM that wants them; under one mark it may be in the making already."""
        if not self.settings.check_addresses:
            return
        for network, ip in wanted:
            if ip:
                self._require_free(name, network, ip)

    def _require_free(self, name: str, network: Row, ip: str) -> None:
        for row in self.api.every("listVirtualMachines", networkid=network["id"]):
            if row.get("name") == name or ip not in [nic.get("ipaddress") for nic in row.get("nic") or ()]:
                continue
            state = str(row.get("state"))
            waits = state in ("Destroyed", "Expunging", "Error")
            raise VMCreationFailed(
                f"address {ip} of network {network['name']} is taken",
                why=f"VM {row['id']} ({row.get('name')}) has it, in state {state}",
                remedy="expunge that VM, or wait until CloudStack does" if waits else "use another address",
                retryable=waits,
            )
