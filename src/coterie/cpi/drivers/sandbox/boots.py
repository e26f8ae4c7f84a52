"""From a VM that was made to one that runs in its group, or to none at all."""

from __future__ import annotations

from coterie.cpi.contract import OutcomeUnknown, VMCreationFailed
from coterie.cpi.drivers.sandbox.joining import Joining, Place
from coterie.cpi.drivers.sandbox.refusals import translate
from coterie.errors import CoterieError
from coterie.sandbox import vms
from coterie.sandbox.errors import NoSuch, SandboxError
from coterie.sandbox.vm_shape import Vm, get_vm

_BUILD_LIMIT_S = 120.0
_LOOK_AGAIN_S = 0.02


class Boots(Joining):
    def whole(self, vm: Vm, place: Place | None) -> Vm:
        """The VM joined and running. What cannot be made whole is removed before the failure is told."""
        try:
            return self._running(vm, place)
        except CoterieError as error:
            self._removed(vm, error)
            raise _certain(error) from error

    def _running(self, vm: Vm, place: Place | None) -> Vm:
        if place and self.settings.single_writer and not vm.host:
            self.join(place.cid, vm)
        if vm.state == "stopped":
            vm = vms.start_vm(self.account, vm.id)
        vm = self._built(vm)
        if vm.state != "error":
            return vm
        raise VMCreationFailed(
            f"VM {vm.id} came up in state error",
            why=f"host {vm.host} could not run it",
            remedy="repeat; if it happens again, look at the host",
            retryable=True,
        )

    def _built(self, vm: Vm) -> Vm:
        datacenter = self.account.datacenter
        deadline = datacenter.clock() + _BUILD_LIMIT_S
        while vm.state == "building" and datacenter.clock() < deadline:
            datacenter.sleep(_LOOK_AGAIN_S)
            vm = get_vm(self.account, vm.id)
        if vm.state != "building":
            return vm
        raise VMCreationFailed(
            f"VM {vm.id} was still building after {_BUILD_LIMIT_S:.0f} s",
            remedy="repeat; if it happens again, look at the host",
            retryable=True,
        )

    def _removed(self, vm: Vm, cause: CoterieError) -> None:
        try:
            vms.delete_vm(self.account, vm.id)
        except NoSuch:
            return
        except SandboxError as error:
            raise OutcomeUnknown(
                f"VM {vm.id} failed and could not be removed",
                why=f"{cause}; then {error}",
                remedy="look for it by its mark and delete it",
            ) from error


def _certain(error: CoterieError) -> CoterieError:
    """The VM is proven gone, so what was in doubt is a plain failure now."""
    told = translate(error) if isinstance(error, SandboxError) else error
    if not isinstance(told, OutcomeUnknown):
        return told
    return VMCreationFailed(told.what, why=told.why, remedy="repeat", retryable=True)
