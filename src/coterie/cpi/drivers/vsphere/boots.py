"""From a VM that was cloned to one that runs in its group, or to none at all."""

from __future__ import annotations

from typing import Any

from coterie.cpi.contract import Json, Networks, OutcomeUnknown, VMCreationFailed
from coterie.cpi.drivers.vsphere import sdk
from coterie.cpi.drivers.vsphere.agent_settings import disc, document, guestinfo
from coterie.cpi.drivers.vsphere.making import disc_change, options
from coterie.cpi.drivers.vsphere.nics import Card, Nics, answered
from coterie.cpi.drivers.vsphere.reading import Row
from coterie.cpi.drivers.vsphere.refusals import Refusal, told
from coterie.cpi.drivers.vsphere.removal import Removal, iso_path
from coterie.errors import CoterieError

_POWER = "runtime.powerState"
_PATHS = ("name", "runtime.powerState", "config.files.vmPathName", "config.hardware.device")


class Boots(Removal, Nics):
    def whole(
        self, machine: Any, agent_id: str, networks: Networks, cards: list[Card], env: Json, group: str | None
    ) -> Json:
        """The networks of the VM, once it has joined and runs. What cannot be made whole is removed before the
        failure is told."""
        row = self.reader.one(machine, *_PATHS)
        answer = answered(networks, cards, row.get("config.hardware.device"))
        try:
            if row.get("runtime.powerState") != "poweredOn":
                self._tell(row, agent_id, answer, env)
                if group:
                    self.join(group, machine)
                self._power_on(machine)
            return answer
        except CoterieError as error:
            if self._runs(machine):
                return answer  # somebody else completed the same VM
            self._removed(machine, error)
            raise _certain(error) from error

    def _tell(self, row: Row, agent_id: str, networks: Json, env: Json) -> None:
        """Give the agent its settings, on a CD beside the VM's own files or as guest information."""
        devices = row.get("config.hardware.device")
        ephemeral = sum(isinstance(one, sdk.vim.vm.device.VirtualDisk) for one in devices) > 1
        settings = document(self.settings, agent_id, str(row.get("name")), row.ref._moId, networks, env, ephemeral)
        if self.settings.agent_settings == "guestinfo":
            spec = sdk.vim.vm.ConfigSpec(extraConfig=options(guestinfo(settings)))
        else:
            path = iso_path(row.get("config.files.vmPathName"))
            self.put_file(path, disc(settings))
            spec = sdk.vim.vm.ConfigSpec(deviceChange=[disc_change(devices, path)])
        self.tasks.run(row.ref.ReconfigVM_Task, spec)

    def _power_on(self, machine: Any) -> None:
        try:
            self.tasks.run(machine.PowerOnVM_Task)
        except Refusal as refusal:
            if not refusal.is_a("InvalidPowerState"):  # on already: somebody completes the same VM
                raise

    def _runs(self, machine: Any) -> bool:
        try:
            return bool(self.reader.one(machine, _POWER).get(_POWER) == "poweredOn")
        except CoterieError:
            return False

    def _removed(self, machine: Any, cause: CoterieError) -> None:
        try:
            self.remove(machine)
        except (Refusal, CoterieError) as error:
            raise OutcomeUnknown(
                "the VM failed and could not be removed",
                why=f"{cause}; then {error}",
                remedy="look for it by its mark and delete it",
            ) from error


def _certain(error: CoterieError) -> CoterieError:
    """The VM is proven gone, so what was in doubt is a plain failure now."""
    known = told(error) if isinstance(error, Refusal) else error
    if not isinstance(known, OutcomeUnknown):
        return known
    return VMCreationFailed(known.what, why=known.why, remedy="repeat", retryable=True)
