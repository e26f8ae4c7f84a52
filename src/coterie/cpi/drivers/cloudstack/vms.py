"""VMs after their creation: read, rebooted, described, and deleted with everything but their persistent disks; and the
SSH key pairs that they have. How they are created: `create_vm`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from coterie.cpi.contract import CpiError, Json, Mark, read_name
from coterie.cpi.drivers.cloudstack.catalog import Catalog
from coterie.cpi.drivers.cloudstack.client import PARAMETER, Client, Refusal, Row, is_uuid, read_tags
from coterie.cpi.drivers.cloudstack.marks import VIP, mark_of, user_tags
from coterie.cpi.drivers.cloudstack.networks import PublicAddresses
from coterie.cpi.kit.checks import vm_missing
from coterie.cpi.kit.key_pairs import KeyPairs
from coterie.cpi.kit.metadata_service import read_metadata
from coterie.cpi.kit.waits import Overdue, Waits
from coterie.ids import INTENT_LENGTH, base32
from coterie.slotted import dataclass

_GONE = ("Destroyed", "Expunging")
RELEASED = "coterie-addresses"  # on a VM that we may not expunge: those that its creator chose
_CAME_WITH_VM = re.compile(r"^DATA-\d+$")


@dataclass(frozen=True, slots=True)
class Vms:
    client: Client
    catalog: Catalog
    addresses: PublicAddresses
    key_pairs: KeyPairs

    def read(self, cid: str) -> Row | None:
        """The VM, unless it is destroyed."""
        row = self.client.read("listVirtualMachines", cid)
        return None if row is None or row.get("state") in _GONE else row

    def exists(self, cid: str) -> bool:
        return self.read(cid) is not None

    def require(self, cid: str) -> Row:
        row = self.read(cid)
        if row is None:
            raise vm_missing(cid)
        return row

    def reboot(self, cid: str) -> None:
        """A VM that is off is started."""
        is_running = self.require(cid).get("state") == "Running"
        self.client.run("rebootVirtualMachine" if is_running else "startVirtualMachine", id=cid)

    def smallest_fit(self, requirements: Mapping[str, int]) -> Json:
        return self.catalog.smallest_fit(requirements)

    def set_metadata(self, cid: str, metadata: Mapping[str, str]) -> None:
        row = self.require(cid)
        self.client.set_tags("UserVm", row, user_tags(metadata))
        name = metadata.get("name")
        if name and name != row.get("displayname"):
            self.client.call("updateVirtualMachine", id=cid, displayname=str(name)[:255])

    def current_id(self) -> str:
        """Inside a VM of this cloud only: its virtual router knows."""
        return read_metadata(self.client.settings.metadata_url, 256).decode("ascii", "replace").strip()

    def delete(self, cid: str, chosen: Sequence[str] = ()) -> None:
        """Gone when this returns, or destroyed where the account may not expunge: only an expunged VM has freed its
        address, its name and its memberships. Gone already is fine. `chosen`: the addresses that its creator chose, for
        a VM that may not be tagged yet."""
        row = self.client.read("listVirtualMachines", cid)
        if row is None:
            if is_uuid(cid):  # no other id was ever a VM's
                self._delete_ephemeral_disks(cid)
            return
        if row.get("publicip") or VIP in read_tags(row):
            self.addresses.unmap(row)
        expunge = self.catalog.may_expunge()
        if row.get("state") not in _GONE:
            if not expunge:
                self._release_addresses(row, chosen or read_tags(row).get(RELEASED, "").split(","))
            own = [str(one["id"]) for one in self.data_disks(cid) if is_ephemeral(one, row)]
            self._end("destroyVirtualMachine", cid, expunge=True if expunge else None, volumeids=own or None)
        elif row["state"] == "Destroyed" and expunge:
            self._end("expungeVirtualMachine", cid)
        self.key_pairs.release(row.get("keypairs"))
        self._wait_until_expunged(cid)

    def _release_addresses(self, vm: Row, chosen: Sequence[str]) -> None:
        """Without the right to expunge a destroyed VM keeps its addresses for a day. So each one that its creator chose
        is exchanged for one that the network picks, which only a stopped VM lets do. Where CloudStack refuses, the
        address is free when it expunges."""
        nics = [nic for nic in vm.get("nic") or () if nic.get("ipaddress") in chosen]
        if not nics:
            return
        with suppress(Refusal):
            if vm.get("state") == "Running":
                self.client.run("stopVirtualMachine", id=vm["id"], forced=True)
            for nic in nics:
                self.client.run("updateVmNicIp", nicid=nic["id"])

    def _delete_ephemeral_disks(self, cid: str) -> None:
        """Those that came with a VM that was deleted behind our back: nothing else names them."""
        for row in list(self.client.list_all("listVolumes", type="DATADISK", keyword=cid)):
            mark = mark_of(row, self.client.director_uuid)
            if mark and row["name"] == ephemeral_name(mark, cid) and not row.get("virtualmachineid"):
                self._delete_volume(str(row["id"]))

    def _delete_volume(self, cid: str) -> None:
        try:
            self.client.call("deleteVolume", id=cid)
        except Refusal as error:
            if error.errorcode != PARAMETER or self.client.read("listVolumes", cid):
                raise

    def data_disks(self, cid: str) -> list[Row]:
        return list(self.client.list_all("listVolumes", virtualmachineid=cid, type="DATADISK"))

    def list_disks(self, cid: str) -> list[str]:
        vm = self.require(cid)
        return [str(row["id"]) for row in self.data_disks(cid) if not is_ephemeral(row, vm)]

    def _end(self, command: str, cid: str, **parameters: Any) -> None:
        self.client.remove(command, lambda: self.client.read("listVirtualMachines", cid), id=cid, **parameters)

    def _wait_until_expunged(self, cid: str) -> None:
        """Where CloudStack expunges by itself, as long as the settings allow; it may take a day."""
        limit, poll_s = self.client.settings.expunge_wait_s, self.client.settings.poll_s
        if not limit:
            return
        try:
            Waits(limit, min(1.0, poll_s * 4), growth=1.0).until("the expunge", lambda: self._is_expunged(cid) or None)
        except Overdue:
            raise CpiError(
                f"VM {cid} is destroyed, but was not expunged within {limit:.0f} s",
                why="until then it keeps its address, its name and its place in its group",
                remedy="let the account expunge (allow.user.expunge.recover.vm), or lower expunge.delay",
                retryable=True,
            ) from None

    def _is_expunged(self, cid: str) -> bool:
        """By its NICs: lists hide a destroyed VM from users, but it has its NICs until it is expunged."""
        try:
            rows, _ = self.client.page("listNics", virtualmachineid=cid)
        except Refusal as error:
            if error.errorcode != PARAMETER:
                raise
            return True
        return not rows


def ephemeral_name(mark: Mark, vm_cid: str) -> str:
    """It says whose the disk is also when the VM is gone."""
    return mark.name(f"ephemeral-{vm_cid}", limit=255)


def is_ephemeral(volume: Row, vm: Row) -> bool:
    """A disk that came with its VM: it bears the VM's own mark, or still the name that the deploy gave it."""
    name = str(volume.get("name", ""))
    mark, vm_mark = read_name(name), read_name(str(vm.get("name", "")))
    if vm_mark is None:
        return False
    if mark is None:
        return bool(_CAME_WITH_VM.match(name)) and int(volume.get("deviceid") or 0) == 1
    return mark == vm_mark


@dataclass(frozen=True, slots=True)
class CloudKeyPairs:
    """Fills the kit's `KeyPairPort`. Both names and keys are unique in an account, so there is one pair per key and
    Director, and its name follows from both."""

    client: Client

    def find(self, digest: bytes, mark: Mark) -> str | None:
        name = self.name(digest, mark)
        return name if self.read(name) else None

    def name(self, digest: bytes, mark: Mark) -> str:
        return Mark(mark.director, base32(int.from_bytes(digest[:16], "big"), INTENT_LENGTH)).name()

    def register(self, name: str, public_key: str) -> None:
        try:
            self.client.call("registerSSHKeyPair", name=name, publickey=public_key)
        except Refusal as error:
            if error.errorcode != PARAMETER or not self.read(name):
                raise

    def mark(self, name: str) -> Mark | None:
        return mark_of({"name": name}, self.client.director_uuid)

    def list_users(self, name: str) -> Sequence[str]:
        rows = self.client.list_all("listVirtualMachines", keypair=name)
        return [str(row["id"]) for row in rows if row.get("state") not in _GONE]

    def delete(self, name: str) -> None:
        if self.read(name):
            self.client.call("deleteSSHKeyPair", name=name)

    def read(self, name: str) -> Row | None:
        rows, _ = self.client.page("listSSHKeyPairs", name=name)
        return next((row for row in rows if row["name"] == name), None)
