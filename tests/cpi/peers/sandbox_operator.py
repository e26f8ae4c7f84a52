"""The operator of a sandbox account, and its faults, in the words of the kit."""

from __future__ import annotations

from contextlib import suppress

from coterie.cpi.conformance.hands import Faults, Operator
from coterie.cpi.contract import KEEP, GroupResource, Kind
from coterie.cpi.kit.marking import GROUP
from coterie.sandbox import (
    disks,
    faults,
    images,
    labels,
    networks,
    security_groups,
    server_groups,
    snapshots,
    vm_shape,
    vms,
)
from coterie.sandbox.datacenter import Account
from coterie.sandbox.errors import NoSuch
from coterie.sandbox.fit import Demand
from coterie.sandbox.pages import Filter
from coterie.sandbox.store import Store
from coterie.sandbox.tags import set_tags

DELETES = {
    "vm": vms.delete_vm,
    "server_group": server_groups.delete_server_group,
    "security_group": security_groups.delete_security_group,
    "disk": disks.delete_disk,
    "snapshot": snapshots.delete_snapshot,
    "image": images.delete_image,
    "network": networks.delete_network,
}
GETS = {
    "vm": vm_shape.get_vm,
    "server_group": server_groups.get_server_group,
    "security_group": security_groups.get_security_group,
}
# methods of the contract are called alike in the sandbox, but for these
NAMES = {"create_stemcell": "create_image", "delete_stemcell": "delete_image", "snapshot_disk": "create_snapshot"}


class SandboxOperator(Operator):
    def __init__(self, account: Account, single_writer: bool) -> None:
        self._account = account
        self._single_writer = single_writer
        self._image = images.create_image(account, name="operators-image").id
        self._firsts: dict[str, str] = {}  # group → the member that it could not be without

    def create_vm(self, name: str, az: str) -> str:
        return self._boot(name, az, None)

    def create_group(self, name: str, policy: str, az: str) -> str:
        if not self._single_writer:
            return server_groups.create_server_group(self._account, name=name, policy=policy).id
        first = self._boot(f"{name}-first", az, None)
        group = server_groups.create_server_group(self._account, name=name, policy=policy, zone=az, members=[first])
        self._firsts[group.id] = first
        return group.id

    def create_security_group(self, name: str) -> str:
        return security_groups.create_security_group(self._account, name=name).id

    def create(self, kind: Kind, az: str) -> str | None:
        account, name = self._account, f"{kind} of somebody"
        match kind:
            case "vm":
                return self.create_vm(name, az)
            case "disk":
                return disks.create_disk(account, name=name, size_mb=1).id
            case "snapshot":
                disk = disks.create_disk(account, name=name, size_mb=1).id
                made = snapshots.create_snapshot(account, disk, name=name).id
                disks.delete_disk(account, disk)
                return made
            case "image":
                return images.create_image(account, name=name).id
            case "network":
                return networks.create_network(account, name=name, range="10.77.0.0/24").id
            case "security_group":
                return self.create_security_group(name)
            case "server_group":
                return self.create_group(name, "soft-anti-affinity", az)
        return None

    def keep(self, kind: Kind, cid: str) -> bool:
        where, which = kind, cid
        if kind == "server_group":
            where = "label" if self._single_writer else kind
            listing = labels.list_labels if self._single_writer else server_groups.list_server_groups
            which = listing(self._account, Filter(tag=(GROUP, cid))).items[0].id
        set_tags(self._account, which, where, {KEEP: "yes"})
        return True

    def copy(self, kind: Kind, cid: str) -> str | None:
        assert kind == "security_group"
        tags = security_groups.get_security_group(self._account, cid).tags
        return security_groups.create_security_group(self._account, name="copy-of-ours", tags=tags).id

    def share(self, image_cid: str) -> bool:
        return False

    def join(self, vm_cid: str, resource: GroupResource) -> str:
        """A direct group is joined by booting, so there the operator boots another VM."""
        if self._single_writer:
            members, _ = server_groups.list_members(self._account, resource.cid)
            server_groups.write_members(self._account, resource.cid, [*(one.vm for one in members), vm_cid])
            return vm_cid
        old = vm_shape.get_vm(self._account, vm_cid)
        vms.delete_vm(self._account, vm_cid)
        return self._boot(old.name, str(old.zone), resource.cid)

    def delete(self, kind: Kind, cid: str) -> None:
        with suppress(NoSuch):
            DELETES[kind](self._account, cid)
        if cid in self._firsts:
            self.delete("vm", self._firsts.pop(cid))

    def exists(self, kind: Kind, cid: str) -> bool:
        try:
            GETS[kind](self._account, cid)
        except NoSuch:
            return False
        return True

    def _boot(self, name: str, az: str, group: str | None) -> str:
        size = Demand(1, 512, 1024, az)
        return vms.create_vm(self._account, name=name, size=size, image=self._image, group=group).id


class SandboxFaults(Faults):
    def __init__(self, store: Store, holder: str) -> None:
        self._store = store
        self._names = {**NAMES, "create_server_group": holder}

    def fail(self, method: str) -> None:
        self._add(method, "error")

    def throttle(self, method: str) -> None:
        self._add(method, "throttle")

    def lose_answer(self, method: str) -> None:
        self._add(method, "timeout-after-commit")

    def late(self, method: str) -> None:
        faults.add(self._store, self._names.get(method, method), "late-visibility", times=1, ms=300)

    def clear(self) -> None:
        faults.clear(self._store)

    def _add(self, method: str, mode: str) -> None:
        faults.add(self._store, self._names.get(method, method), mode, times=1)
