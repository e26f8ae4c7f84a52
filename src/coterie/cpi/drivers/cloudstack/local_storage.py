"""Disks on local storage are on one host: a VM is put there, or the disk is moved to the VM; where neither can be,
that is told before anything is made."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.cpi.contract import CpiError, DiskNotFound
from coterie.cpi.drivers.cloudstack.api import Row
from coterie.cpi.drivers.cloudstack.lookups import Lookups


class LocalStorage(Lookups):
    def host_of_disks(self, disk_cids: Sequence[str]) -> str | None:
        """The id of the host that a VM with these disks goes to; None: any will do. Of several hosts the one that
        holds most, since the other disks have to move."""
        held: dict[str, int] = {}
        for volume in map(self.volume, disk_cids):
            host = self.host_of_disk(volume)
            if host:
                held[host] = held.get(host, 0) + int(volume.get("size") or 0)
        if len(held) > 1 and not self.settings.migrate_local_disks:
            raise CpiError(
                "the disks are on local storage of different hosts",
                why=", ".join(disk_cids),
                remedy="migrate them to one host or to shared storage, or set properties.migrate_local_disks: true",
            )
        return max(held, key=lambda host: (held[host], host)) if held else None

    def bring(self, volume: Row, vm: Row) -> None:
        """Move a disk on local storage to the host of a VM, if it is on another."""
        host = self.host_of_disk(volume) if vm.get("hostid") else None
        if host is None or host == vm["hostid"]:
            return
        if not self.settings.migrate_local_disks:
            raise CpiError(
                f"disk {volume['id']} is on local storage of another host than VM {vm['id']}",
                remedy="name the disk when the VM is made, so that it is put there; or migrate the disk",
            )
        pool = self._local_pool(str(vm["hostid"]))
        limit = self.settings.state_timeout_volume
        self.api.run("migrateVolume", limit, volumeid=volume["id"], storageid=pool["id"])

    def _local_pool(self, host: str) -> Row:
        (row,) = self.api.every("listHosts", id=host)
        for pool in self.api.every("listStoragePools", zoneid=row.get("zoneid"), ipaddress=row.get("ipaddress")):
            if pool.get("scope") == "HOST":
                return pool
        raise CpiError(
            f"host {row['name']} has no local storage", remedy="use a disk offering on shared storage, or another host"
        )

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
