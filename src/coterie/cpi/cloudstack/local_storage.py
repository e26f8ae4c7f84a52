"""Disks on local storage are on one host: whoever wants them must be there. Told before anything is made."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.cpi.cloudstack.api import Row
from coterie.cpi.cloudstack.lookups import Lookups
from coterie.cpi.contract import CpiError, DiskNotFound


class LocalStorage(Lookups):
    def host_of_disks(self, disk_cids: Sequence[str]) -> str | None:
        """The id of the host that a VM with these disks must be on; None: any will do."""
        hosts = {host for cid in disk_cids for host in [self.host_of_disk(self.volume(cid))] if host}
        if len(hosts) > 1:
            raise CpiError(
                "the disks are on local storage of different hosts",
                why=", ".join(disk_cids),
                remedy="migrate them to one host or to shared storage",
            )
        return next(iter(hosts), None)

    def host_of_disk(self, volume: Row) -> str | None:
        """Only administrators are told which pool a volume is in, and which host a pool is on."""
        if volume.get("storagetype") != "local" or volume.get("state") == "Allocated":
            return None
        if not volume.get("storageid"):
            raise CpiError(
                f"disk {volume['id']} is on local storage of one host, and this account may not know which",
                remedy="use a disk offering on shared storage, or keys of an administrator",
            )
        pools, _ = self.api.page("listStoragePools", 1, id=volume["storageid"])
        hosts = [
            row
            for pool in pools
            for row in self.api.every("listHosts", type="Routing", zoneid=pool.get("zoneid"))
            if row.get("ipaddress") == pool.get("ipaddress")
        ]
        if not hosts:
            raise CpiError(
                f"the host of disk {volume['id']} is not known",
                why=f"no host has the address of its storage pool {volume['storageid']}",
                remedy="migrate the disk to shared storage",
            )
        return str(hosts[0]["id"])

    def volume(self, cid: str) -> Row:
        row = self.row("listVolumes", cid)
        if row is None or row.get("state") in ("Destroy", "Expunging", "Expunged"):
            raise DiskNotFound(f"disk {cid} is not there", remedy="list what exists, and use one of those")
        return row
