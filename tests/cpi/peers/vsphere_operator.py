"""Another client with a session of the same vCenter, which knows no marks and does not use the coordinator."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from pyVmomi import SoapStubAdapter, vim, vmodl
from tests.peers.vcenter import Vcenter

from coterie.cpi.conformance.hands import Operator
from coterie.cpi.contract import KEEP, GroupResource, Kind

QUERY = vmodl.query.PropertyCollector
RULES = {"anti-affinity": vim.cluster.AntiAffinityRuleSpec, "affinity": vim.cluster.AffinityRuleSpec}


class VsphereOperator(Operator):
    def __init__(self, server: Vcenter, clusters: Mapping[str, str], user: str = "root") -> None:
        where = urlsplit(server.url)
        self._stub = SoapStubAdapter(
            host=where.hostname, port=-int(where.port or 80), path="/sdk", version="vim.version.version13"
        )
        self.content = vim.ServiceInstance("ServiceInstance", self._stub).RetrieveContent()
        self.content.sessionManager.Login(user, "secret")
        self._server = server
        self._clusters = clusters
        self._firsts: dict[str, list[str]] = {}  # group → the members that it could not be without
        self._names = itertools.count()

    def create_vm(self, name: str, az: str) -> str:
        return str(self.get(self.boot(name, az), "config.instanceUuid"))

    def boot(self, name: str, az: str) -> Any:
        folder = self.find("DC0/vm")
        spec = vim.vm.ConfigSpec(
            name=f"{name}-{next(self._names)}-{time.monotonic_ns()}",
            guestId="otherGuest",
            numCPUs=1,
            memoryMB=128,
            files=vim.vm.FileInfo(vmPathName="[LocalDS_0]"),
            deviceChange=[_controller()],
        )
        pool = self.get(self.cluster(az), "resourcePool")
        return self.run(folder.CreateVM_Task(spec, pool))

    def boot_linked(self, name: str, az: str, parent: str) -> str:
        """A VM with a disk that grows from this file, as a linked clone has it."""
        machine = self.boot(name, az)
        backing = vim.vm.device.VirtualDisk.FlatVer2BackingInfo
        disk = vim.vm.device.VirtualDisk(
            key=-1,
            controllerKey=1000,
            unitNumber=3,
            capacityInKB=1024,
            backing=backing(fileName="[LocalDS_0]", diskMode="persistent", parent=backing(fileName=parent)),
        )
        add = vim.vm.device.VirtualDeviceSpec(operation="add", fileOperation="create", device=disk)
        self.run(machine.ReconfigVM_Task(vim.vm.ConfigSpec(deviceChange=[add])))
        return str(self.get(machine, "config.instanceUuid"))

    def templates(self, name: str) -> list[Any]:
        """VMs whose name begins so: a template and its replicas."""
        view = self.content.viewManager.CreateContainerView(self.content.rootFolder, [vim.VirtualMachine], True)
        found = []
        for one in self.get(view, "view"):
            with suppress(vmodl.fault.ManagedObjectNotFound):  # the simulator's views show VMs that are gone
                found += [one] if str(self.get(one, "name")).startswith(name) else []
        view.DestroyView()
        return found

    def disk_files(self, machine: Any) -> list[str]:
        devices = self.get(machine, "config.hardware.device")
        return [one.backing.fileName for one in devices if isinstance(one, vim.vm.device.VirtualDisk)]

    def create_group(self, name: str, policy: str, az: str) -> str:
        members = [self.boot(f"{name}-member", az) for _ in range(2)]
        spec = vim.cluster.ConfigSpecEx(groupSpec=[_group("add", name, members)])
        rule = RULES.get(policy.removeprefix("soft-"))
        if rule:
            mandatory = not policy.startswith("soft-")
            info = rule(name=name, enabled=True, mandatory=mandatory, vm=members)
            spec.rulesSpec = [vim.cluster.RuleSpec(operation="add", info=info)]
        self.run(self.cluster(az).ReconfigureComputeResource_Task(spec, True))
        cid = f"{self._clusters[az]}/{name}"
        self._firsts[cid] = [str(self.get(member, "config.instanceUuid")) for member in members]
        return cid

    def create_security_group(self, name: str) -> str:
        raise AssertionError("a vCenter has none")

    def create(self, kind: Kind, az: str) -> str | None:
        """Disks, snapshots and images of others are no objects of theirs, but files and VMs."""
        if kind == "vm":
            return self.create_vm("somebody", az)
        return self.create_group("somebody", "anti-affinity", az) if kind == "server_group" else None

    def keep(self, kind: Kind, cid: str) -> bool:
        """In the notes of a VM or a template."""
        if kind not in ("vm", "image"):
            return False
        self.run(self.machine(cid).ReconfigVM_Task(vim.vm.ConfigSpec(annotation=f"ask ops first; {KEEP}")))
        return True

    def copy(self, kind: Kind, cid: str) -> str | None:
        return None

    def share(self, image_cid: str) -> bool:
        return False

    def join(self, vm_cid: str, resource: GroupResource) -> str:
        self.rejoin(resource.cid, add=[self.machine(vm_cid)])
        return vm_cid

    def rejoin(self, cid: str, add: list[Any] = (), drop: list[Any] = ()) -> None:  # type: ignore[assignment]
        """Read, change, write: as people and other programs do it, without a lock."""
        cluster, name = self._split(cid)
        group = self.group(cid)
        members = [one for one in group.vm if one not in drop] + [one for one in add if one not in group.vm]
        spec = vim.cluster.ConfigSpecEx(groupSpec=[_group("edit", name, members)])
        self.run(cluster.ReconfigureComputeResource_Task(spec, True))

    def delete(self, kind: Kind, cid: str) -> None:
        if kind in ("vm", "image"):
            machine = self.machine(cid)
            if machine is not None:
                with suppress(vmodl.MethodFault):
                    self.run(machine.PowerOffVM_Task())
                self.run(machine.Destroy_Task())
            return
        if kind == "disk":
            stem, _, store = cid.partition("@")
            files = [path for what, path in self._server.inventory() if what == "file"]
            (path,) = [one for one in files if stem in one and store in one]
            self.run(self.content.virtualDiskManager.DeleteVirtualDisk_Task(path, self.find("DC0")))
            return
        if self.group(cid) is not None:
            self.remove(cid)
        for member in self._firsts.pop(cid, []):
            self.delete("vm", member)

    def remove(self, cid: str) -> None:
        """A group, with the rule of its name."""
        cluster, name = self._split(cid)
        spec = vim.cluster.ConfigSpecEx(groupSpec=[vim.cluster.GroupSpec(operation="remove", removeKey=name)])
        rules = [one for one in self.get(cluster, "configurationEx").rule or () if one.name == name]
        spec.rulesSpec = [vim.cluster.RuleSpec(operation="remove", removeKey=one.key) for one in rules]
        self.run(cluster.ReconfigureComputeResource_Task(spec, True))

    def remove_rule(self, az: str, name: str) -> None:
        key = self.rules(az)[name].key
        spec = vim.cluster.ConfigSpecEx(rulesSpec=[vim.cluster.RuleSpec(operation="remove", removeKey=key)])
        self.run(self.cluster(az).ReconfigureComputeResource_Task(spec, True))

    def switch_drs(self, az: str, on: bool) -> None:
        spec = vim.cluster.ConfigSpecEx(drsConfig=vim.cluster.DrsConfigInfo(enabled=on))
        self.run(self.cluster(az).ReconfigureComputeResource_Task(spec, True))

    def exists(self, kind: Kind, cid: str) -> bool:
        return (self.machine(cid) if kind == "vm" else self.group(cid)) is not None

    def close(self) -> None:
        for cid in list(self._firsts):
            self.delete("server_group", cid)
        self._stub.DropConnections()

    def machine(self, cid: str) -> Any:
        return self.content.searchIndex.FindByUuid(None, cid, True, True)

    def group(self, cid: str) -> Any:
        cluster, name = self._split(cid)
        return next((one for one in self.get(cluster, "configurationEx").group or () if one.name == name), None)

    def rules(self, az: str) -> dict[str, Any]:
        return {one.name: one for one in self.get(self.cluster(az), "configurationEx").rule or ()}

    def cluster(self, az: str) -> Any:
        return self.find(f"DC0/host/{self._clusters[az]}")

    def find(self, path: str) -> Any:
        return self.content.searchIndex.FindByInventoryPath(path)

    def get(self, ref: Any, path: str) -> Any:
        spec = QUERY.FilterSpec(
            objectSet=[QUERY.ObjectSpec(obj=ref)], propSet=[QUERY.PropertySpec(type=type(ref), pathSet=[path])]
        )
        found = self.content.propertyCollector.RetrievePropertiesEx([spec], QUERY.RetrieveOptions())
        return next((prop.val for prop in found.objects[0].propSet), None)

    def run(self, task: Any) -> Any:
        while self.get(task, "info.state") not in ("success", "error"):
            time.sleep(0.005)
        if self.get(task, "info.state") == "error":
            raise self.get(task, "info.error")
        return self.get(task, "info.result")

    def _split(self, cid: str) -> tuple[Any, str]:
        cluster, _, name = cid.partition("/")
        return self.find(f"DC0/host/{cluster}"), name


def _controller() -> Any:
    bus = vim.vm.device.VirtualSCSIController.Sharing.noSharing
    device = vim.vm.device.ParaVirtualSCSIController(key=1000, busNumber=0, sharedBus=bus)
    return vim.vm.device.VirtualDeviceSpec(operation="add", device=device)


def _group(operation: str, name: str, members: list[Any]) -> Any:
    return vim.cluster.GroupSpec(operation=operation, info=vim.cluster.VmGroup(name=name, vm=members))
