"""From an order to a VM that runs, or to none at all: what a failed deploy leaves in state Error is expunged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coterie.cpi.contract import CpiError, Mark, OutcomeUnknown, VMCreationFailed
from coterie.cpi.drivers.cloudstack.affinity import group_missing
from coterie.cpi.drivers.cloudstack.api import Row
from coterie.cpi.drivers.cloudstack.joining import Place
from coterie.cpi.drivers.cloudstack.local_storage import LocalStorage
from coterie.cpi.drivers.cloudstack.marking import mark_of
from coterie.cpi.drivers.cloudstack.order import Order, gib
from coterie.cpi.drivers.cloudstack.refusals import CAPACITY, PARAMETER, Refusal, translate
from coterie.cpi.drivers.cloudstack.removal import Removal

# What has no hardware yet has no host to be found: these are said of the deploy, not of the order.
_FAILED_START = {530, 534}


class Deploys(Removal, LocalStorage):
    def deployed(self, mark: Mark, parameters: dict[str, Any], place: Place | None, order: Order) -> tuple[Row, bool]:
        """A running VM of ours, and whether this call made it, or another one under the same mark."""
        try:
            started, known = self.started_once(mark, "deployVirtualMachine", self.vm_row, **parameters)
        except Refusal as error:
            self.vm_marked(mark)
            self.drop_keypair(parameters.get("keypair"))
            raise self._explained(error, place) from error
        if known:
            return known, False
        wanted = str((started or {})["id"])
        try:
            self._named_ephemeral(mark, wanted, order)
            result = self.api.wait("deployVirtualMachine", str((started or {})["jobid"]))
            vm: Row = result["virtualmachine"]
            self.require_membership(vm, place)
        except (Refusal, CpiError) as error:
            raise self.undone(wanted, error) from error
        return vm, True

    def vm_marked(self, mark: Mark) -> Row | None:
        """The VM of this mark; one that a broken deploy left is removed, so that it can be made anew."""
        for row in self.api.every("listVirtualMachines", name=mark.name()):
            if mark_of(row, mark.director) != mark or row.get("state") in ("Destroyed", "Expunging"):
                continue
            if row.get("state") == "Error":
                self.remove_vm(str(row["id"]))
            elif row.get("state") != "Starting":
                # one that starts is somebody's job: joining that job is `started_once`'s business
                return row
        return None

    def undone(self, wanted: str, error: Exception) -> CpiError:
        """Remove the half-made VM, then say why it failed; whatever was in doubt is certain once it is gone."""
        told = _told(error)
        try:
            self.remove_vm(wanted)
        except (Refusal, CpiError) as trouble:
            return OutcomeUnknown(
                f"VM {wanted} failed and could not be removed",
                why=f"{told}; then {trouble}",
                remedy="look for it by its mark and delete it",
            )
        if isinstance(told, OutcomeUnknown):
            return VMCreationFailed(told.what, why=told.why, remedy=told.remedy, retryable=True)
        return told

    def vm_row(self, wanted: str) -> Row | None:
        """The VM with this id, if it is not on its way out."""
        row = self.row("listVirtualMachines", wanted)
        return None if row is None or row.get("state") in ("Destroyed", "Expunging", "Error") else row

    def _named_ephemeral(self, mark: Mark, wanted: str, order: Order) -> None:
        """A deploy names the disk it brings by itself; our name is what makes it ours."""
        if not order.ephemeral_disk_offering:
            return
        for row in self.api.every("listVolumes", virtualmachineid=wanted, type="DATADISK"):
            self.api.run("updateVolume", id=row["id"], name=mark.name("ephemeral"))

    def _explained(self, error: Refusal, place: Place | None) -> CpiError:
        """Refused before a VM was made."""
        if error.code == PARAMETER and place and place.affinity and not self.affinity_group(place.cid):
            return group_missing(place.cid)
        if error.code == CAPACITY:
            return VMCreationFailed(
                "CloudStack could not give the VM its addresses",
                why=error.text,
                remedy="use a free address; that of a destroyed VM is free when CloudStack expunges it",
            )
        return translate(error)


def deploy_parameters(
    order: Order, zone: Row, offering: Row, template: str, name: str, networks: Sequence[tuple[Row, str | None]]
) -> dict[str, Any]:
    """What the order and the networks mean to a deploy. None is left out."""
    details = dict(order.details)
    if offering.get("iscustomized"):
        details |= {"cpuNumber": str(order.cpu or 1), "memory": str(order.ram_mb or 1024)}
    cards = [{"networkid": row["id"], **({"ip": ip} if ip else {})} for row, ip in networks]
    return {
        "zoneid": zone["id"],
        "serviceofferingid": offering["id"],
        "templateid": template,
        "name": name,
        "iptonetworklist": cards or None,
        "details": [details] if details else None,
        "rootdisksize": gib(order.root_disk_size) if order.root_disk_size else None,
    }


def _told(error: Exception) -> CpiError:
    if not isinstance(error, Refusal):
        assert isinstance(error, CpiError)
        return error
    if error.code not in _FAILED_START:
        return translate(error)
    return VMCreationFailed(
        f"CloudStack could not start the VM ({error.code})",
        why=error.text,
        remedy="repeat; if it happens again, look at the host in CloudStack",
        retryable=True,
    )
