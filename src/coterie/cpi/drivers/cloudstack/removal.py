"""The end of a VM: off its public address, its own disks deleted with it, persistent ones left, and expunged where
the account may do that, since only then are its address, name and memberships free again."""

from __future__ import annotations

import re
import time
from typing import Any

from coterie.cpi.contract import CpiError, read_name
from coterie.cpi.drivers.cloudstack.api import Row
from coterie.cpi.drivers.cloudstack.joining import Joining
from coterie.cpi.drivers.cloudstack.keypairs import Keypairs
from coterie.cpi.drivers.cloudstack.marking import VIP, tags_of
from coterie.cpi.drivers.cloudstack.refusals import PARAMETER, Refusal
from coterie.cpi.drivers.cloudstack.vips import Vips

_BROUGHT = re.compile(r"^DATA-\d+$")
_LOOK_AGAIN_S = 1.0


class Removal(Vips, Keypairs, Joining):
    def remove_vm(self, wanted: str) -> None:
        """Gone when this returns, or destroyed where the account may not expunge. Gone already is fine."""
        row = self.row("listVirtualMachines", wanted)
        if row is None:
            return
        if row.get("publicip") or VIP in tags_of(row):
            self.unmap(row)
        expunges = self.may_expunge()
        if row.get("state") not in ("Destroyed", "Expunging"):
            own = [str(one["id"]) for one in self.data_disks(wanted) if is_ephemeral(one, row)]
            self._ended("destroyVirtualMachine", wanted, expunge=True if expunges else None, volumeids=own or None)
        elif row["state"] == "Destroyed" and expunges:
            self._ended("expungeVirtualMachine", wanted)
        self.drop_keypair(row.get("keypairs"))
        self._awaited(wanted)

    def data_disks(self, vm: str) -> list[Row]:
        return list(self.api.every("listVolumes", virtualmachineid=vm, type="DATADISK"))

    def may_expunge(self) -> bool:
        if self.settings.expunge != "auto":
            return self.settings.expunge == "always"
        return bool(self.remembered_capabilities().get("allowuserexpungerecovervm"))

    def remembered_capabilities(self) -> Row:
        if "listCapabilities" not in self._known:
            answer = self.api.call("listCapabilities")
            self._known["listCapabilities"] = (time.monotonic(), [answer.get("capability") or {}])
        return self._known["listCapabilities"][1][0]

    def _expunged(self, wanted: str) -> bool:
        """Its cards tell: users see no destroyed VM in lists, but it has its cards until it is expunged."""
        try:
            rows, _ = self.api.page("listNics", 1, virtualmachineid=wanted)
        except Refusal as error:
            if error.code != PARAMETER:
                raise
            return True
        return not rows

    def _ended(self, command: str, wanted: str, **parameters: Any) -> None:
        try:
            self.api.run(command, id=wanted, **parameters)
        except Refusal as error:
            # somebody else may have been faster
            if error.code != PARAMETER or self.row("listVirtualMachines", wanted):
                raise

    def _awaited(self, wanted: str) -> None:
        """Where somebody else expunges, wait for it as long as the settings say; it may take a day."""
        deadline = time.monotonic() + self.settings.expunge_wait_s
        while self.settings.expunge_wait_s and not self._expunged(wanted):
            if time.monotonic() >= deadline:
                raise CpiError(
                    f"VM {wanted} is destroyed, but was not expunged within {self.settings.expunge_wait_s:.0f} s",
                    why="until then it keeps its address, its name and its place in its group",
                    remedy="let the account expunge (allow.user.expunge.recover.vm), or lower expunge.delay",
                    retryable=True,
                )
            time.sleep(min(_LOOK_AGAIN_S, self.settings.poll_s * 4))


def is_ephemeral(volume: Row, vm: Row) -> bool:
    """A disk that came with its VM: named with the VM's own mark, or as the deploy named it, in the first place."""
    named, own = read_name(str(volume.get("name", ""))), read_name(str(vm.get("name", "")))
    if own is None:
        return False
    if named is None:
        return bool(_BROUGHT.match(str(volume.get("name", "")))) and int(volume.get("deviceid") or 0) == 1
    return named == own
