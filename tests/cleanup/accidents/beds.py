"""The clouds of the suite: sandbox, emulated CloudStack, simulated vCenter, simulated EC2 and Azure, real OpenStack and
Incus."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from unittest import mock

import yaml
from peers.aws_bed import AwsBed
from peers.azure_bed import AzureBed
from peers.cloudstack_bed import CloudstackBed
from peers.gcp_bed import PUBLIC_IMAGE, GcpBed, path_of
from peers.incus_bed import CLUSTER, IncusBed
from peers.incus_operator import ROOT, VOLUMES, IncusOperator
from peers.openstack_bed import OpenstackBed
from peers.openstack_operator import PATHS, until
from peers.sandbox_bed import list_account
from peers.sandbox_operator import SandboxFaults, SandboxOperator
from peers.vsphere_bed import CLUSTERS, VsphereFaults
from peers.vsphere_image import write_image
from peers.vsphere_operator import VsphereOperator
from pyVmomi import vim

from coterie.cpi.contract import Cpi, GroupResource, Kind, Mark, Runtime
from coterie.cpi.drivers.aws.driver import AwsCpi
from coterie.cpi.drivers.azure.driver import AzureCpi
from coterie.cpi.drivers.cloudstack.driver import CloudstackCpi
from coterie.cpi.drivers.gcp.driver import GcpCpi
from coterie.cpi.drivers.gcp.marks import describe_mark
from coterie.cpi.drivers.incus.marks import USER, mark_config
from coterie.cpi.drivers.openstack import rows
from coterie.cpi.drivers.vsphere.driver import VsphereCpi
from coterie.cpi.kit.marking import DIRECTOR, GROUP, mark_tags
from coterie.engine.coordinator import LedgerCoordinator
from coterie.ids import director_prefix
from coterie.sandbox import disks, images, networks, security_groups, server_groups, vms
from coterie.sandbox.accounts import open_account
from coterie.sandbox.datacenter import open_datacenter
from coterie.sandbox.fit import Demand
from coterie.sandbox.nics import NicRequest
from coterie.sandbox.tags import set_tags
from tests.cleanup.accidents.ground import OTHER_DIRECTOR, Bed, Inventory
from tests.cpi.drivers.incus import place as incus
from tests.cpi.drivers.openstack import place as openstack
from tests.cpi.drivers.vsphere import place as vsphere
from tests.ledger.blank import sqlite_ledger
from tests.peers.incus.cluster import NETWORK, POOL
from tests.peers.vcenter import vcenter
from tests.requests import test_on_aws as aws
from tests.requests import test_on_azure as azure
from tests.requests import test_on_cloudstack as cloudstack
from tests.requests import test_on_gcp as gcp
from tests.requests.site import CONFIG, Site


class SandboxGround:
    driver = "sandbox"
    adoptable = "anti-affinity"

    def open_site(self, folder: Path) -> Site:
        state = folder / "sandbox.db"
        datacenter = open_datacenter(state)
        site = _site(Site, folder, self.config())
        site.cpi().has_vm("none")  # opens the account, as its first user would
        self._account = open_account(datacenter, "lab", operator=True)
        self.operator = SandboxOperator(self._account, single_writer=False)
        self.faults = SandboxFaults(datacenter.store, "create_server_group")
        return site

    def config(self, **more: Any) -> str:
        return _with_properties(CONFIG, **more)

    def config_elsewhere(self) -> str:
        return self.config(account="other")

    def inventory(self) -> Inventory:
        return list_account(self._account)

    def forge(self, kind: Kind, mark: Mark) -> str:
        account, tags = self._account, mark_tags(mark)
        match kind:
            case "vm":
                image = self.operator._image
                return vms.create_vm(account, name="clone", size=Demand(1, 1, 0, "z1"), image=image, tags=tags).id
            case "disk":
                return disks.create_disk(account, name="clone", size_mb=1, tags=tags).id
            case "image":
                return images.create_image(account, name="clone", tags=tags).id
            case "security_group":
                return security_groups.create_security_group(account, name="clone", tags=tags).id
            case "server_group":
                tags = {**tags, GROUP: mark.group_cid}
                return server_groups.create_server_group(account, name="clone", policy="anti-affinity", tags=tags).id
        raise AssertionError(kind)

    def give_away(self, vm_cid: str) -> None:
        set_tags(self._account, vm_cid, "vm", {DIRECTOR: OTHER_DIRECTOR})

    def use_security_group(self, cid: str) -> str:
        size, image = Demand(1, 1, 0, "z1"), self.operator._image
        return vms.create_vm(self._account, name="theirs", size=size, image=image, security_groups=[cid]).id

    def unshare(self, image_cid: str) -> None:
        raise AssertionError("an account cannot share an image")

    def close(self) -> None:
        """Its state goes with the folder of the test."""


class AwsSite(Site):
    bed: AwsBed

    def cpi(self, cloud: str = "lab", properties: Any = None, director: str | None = None) -> Cpi:
        runtime = Runtime(director or self.director.uuid, LedgerCoordinator(self.ledger, "test"))
        return AwsCpi(cloud, self.bed.properties(), runtime)


class AwsGround(SandboxGround):
    """People use the account behind EC2: its tags are EC2's."""

    driver = "aws"

    def open_site(self, folder: Path) -> Site:
        (folder / "cloud").mkdir()
        self._bed = AwsBed(folder / "cloud")
        self._account = self._bed.account
        self.operator, self.faults = self._bed.operator, self._bed.faults
        self.inventory = self._bed.inventory
        site = _site(AwsSite, folder, self.config())
        site.bed = self._bed
        return site

    def config(self, **more: Any) -> str:
        return aws.config(self._bed, **more)

    def config_elsewhere(self) -> str:
        return self.config(region="eu-west-1")

    def use_security_group(self, cid: str) -> str:
        """EC2's security groups are of network interfaces."""
        network = networks.list_networks(self._account).items[0].id
        return vms.create_vm(
            self._account,
            name="theirs",
            size=Demand(1, 1, 0, "z1"),
            image=self.operator._image,
            nics=[NicRequest("0", network, nic="eth0")],
            security_groups=[cid],
        ).id

    def unshare(self, image_cid: str) -> None:
        self._bed.operator.unshare(image_cid)

    def close(self) -> None:
        self._bed.close()


class AzureSite(Site):
    bed: AzureBed

    def cpi(self, cloud: str = "lab", properties: Any = None, director: str | None = None) -> Cpi:
        runtime = Runtime(director or self.director.uuid, LedgerCoordinator(self.ledger, "test"))
        return AzureCpi(cloud, self.bed.peer.properties(), runtime)


class AzureGround:
    driver = "azure"
    adoptable = "soft-anti-affinity"  # a set of a person says no more

    def open_site(self, folder: Path) -> Site:
        (folder / "cloud").mkdir()
        self._bed, self._folder = AzureBed(folder / "cloud"), folder
        self.operator, self.faults = self._bed.operator, self._bed.faults
        self.inventory = self._bed.inventory
        site = _site(AzureSite, folder, self.config())
        site.bed = self._bed
        return site

    def config(self, **more: Any) -> str:
        return _with_properties(json.dumps(azure.config(self._bed, self._folder)), **more)

    def config_elsewhere(self) -> str:
        self._bed.peer.front.groups["others"] = "others"
        return self.config(resource_group="others")

    def forge(self, kind: Kind, mark: Mark) -> str:
        return self._bed.operator.make(kind, "clone", mark_tags(mark))

    def give_away(self, vm_cid: str) -> None:
        self._bed.operator.tag("vm", vm_cid, {DIRECTOR: OTHER_DIRECTOR})

    def use_security_group(self, cid: str) -> str:
        return self._bed.operator.boot("theirs", security_group=cid)

    def unshare(self, image_cid: str) -> None:
        self._bed.operator.unshare(image_cid)

    def close(self) -> None:
        self._bed.close()


class GcpSite(Site):
    bed: GcpBed

    def cpi(self, cloud: str = "lab", properties: Any = None, director: str | None = None) -> Cpi:
        runtime = Runtime(director or self.director.uuid, LedgerCoordinator(self.ledger, "test"))
        return GcpCpi(cloud, self.bed.properties(), runtime)


class GcpGround:
    driver = "gcp"
    adoptable = "soft-anti-affinity"  # a policy of a person says no more

    def open_site(self, folder: Path) -> Site:
        (folder / "cloud").mkdir()
        self._bed = GcpBed(folder / "cloud")
        self._ask = self._bed.operator.witness.ask
        self.operator, self.faults = self._bed.operator, self._bed.faults
        self.inventory = self._bed.inventory
        site = _site(GcpSite, folder, self.config())
        site.bed = self._bed
        return site

    def config(self, **more: Any) -> str:
        return gcp.config(self._bed, **more)

    def config_elsewhere(self) -> str:
        return self.config(region="elsewhere1")

    def forge(self, kind: Kind, mark: Mark) -> str:
        labels = {"labels": mark_tags(mark)}
        match kind:
            case "vm":
                return self.operator.boot("cloned-vm", "z1", **labels)
            case "disk":
                self._ask("POST", "zones/z1/disks", {"name": "clone", "sizeGb": "1", **labels})
                return "z1/clone"
            case "image":
                self._ask("POST", "global/images", {"name": "clone", "sourceImage": PUBLIC_IMAGE, **labels})
                return "clone"
            case "security_group":
                name = f"cot-sg-{director_prefix(mark.director)}-{'c' * 26}"  # as long as ours
                body = {"name": name, "description": describe_mark(mark), "denied": [{"IPProtocol": "all"}]}
                self._ask("POST", "global/firewalls", {**body, "sourceRanges": ["0.0.0.0/0"], "targetTags": [name]})
                return name
        raise AssertionError(kind)

    def give_away(self, vm_cid: str) -> None:
        row = self._ask("GET", path_of("vm", vm_cid))
        body = {"labels": {**row["labels"], DIRECTOR: OTHER_DIRECTOR}, "labelFingerprint": row["labelFingerprint"]}
        self._ask("POST", f"{path_of('vm', vm_cid)}/setLabels", body)

    def use_security_group(self, cid: str) -> str:
        return self.operator.boot("theirs", "z1", tags={"items": [cid]})

    def unshare(self, image_cid: str) -> None:
        self.operator.unshare(image_cid)

    def close(self) -> None:
        self._bed.close()


class CloudstackSite(Site):
    bed: CloudstackBed

    def cpi(self, cloud: str = "lab", properties: Any = None, director: str | None = None) -> Cpi:
        runtime = Runtime(director or self.director.uuid, LedgerCoordinator(self.ledger, "test"))
        return CloudstackCpi(cloud, self.bed.properties(), runtime)


class CloudstackGround:
    driver = "cloudstack"
    adoptable = "anti-affinity"

    def open_site(self, folder: Path) -> Site:
        (folder / "cloud").mkdir()
        self._bed = CloudstackBed(folder / "cloud")
        self._client = self._bed.client()
        self.operator, self.faults = self._bed.operator, self._bed.faults
        self.inventory = self._bed.inventory
        site = _site(CloudstackSite, folder, self.config())
        site.bed = self._bed
        return site

    def config(self, **more: Any) -> str:
        return _with_properties(cloudstack.config(self._bed), **more)

    def config_elsewhere(self) -> str:
        keys = self._bed._keys["user"]
        return self.config(api_key=keys.api_key, secret_access_key=keys.secret_key, host_visibility=False)

    def forge(self, kind: Kind, mark: Mark) -> str:
        name = mark.name()
        match kind:
            case "vm":
                made = self.operator.create_vm(name, "z2")  # the names of VMs are unique in a network
                return self._tag("UserVm", made, mark)
            case "disk":
                offerings = self._client.listDiskOfferings()["diskoffering"]
                fixed = next(one["id"] for one in offerings if not one["iscustomized"])
                zone = self._client.listZones(name="z1")["zone"][0]["id"]
                made = self._client.createVolume(name=name, zoneid=zone, diskofferingid=fixed)["volume"]["id"]
                return self._tag("Volume", made, mark)
            case "image":
                return self._tag("Template", self.operator.create_image(name), mark)
            case "security_group":
                made = self._client.createSecurityGroup(name="clone", description=f"{name} {mark.director}")
                return str(made["securitygroup"]["id"])
            case "ip":
                made = self.operator.create("ip", "z1")
                assert made
                tags = [{"key": key, "value": value} for key, value in mark_tags(mark).items()]
                self._client.createTags(resourcetype="PublicIpAddress", resourceids=made, tags=tags)
                return made
        raise AssertionError(kind)

    def give_away(self, vm_cid: str) -> None:
        self._client.deleteTags(resourceids=vm_cid, resourcetype="UserVm", tags=[{"key": DIRECTOR}])
        self._tag("UserVm", vm_cid, Mark(OTHER_DIRECTOR, "0" * 26))

    def use_security_group(self, cid: str) -> str:
        return self.operator.create_vm_with(cid, "z1")

    def unshare(self, image_cid: str) -> None:
        self._client.updateTemplatePermissions(id=image_cid, op="reset")

    def close(self) -> None:
        self._bed.close()

    def _tag(self, kind: str, cid: str, mark: Mark) -> str:
        tags = [{"key": DIRECTOR, "value": mark.director}]
        self._client.createTags(resourcetype=kind, resourceids=cid, tags=tags)
        return str(cid)


class VsphereGround:
    driver = "vsphere"
    adoptable = "anti-affinity"

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._server = self._stack.enter_context(vcenter())
        self.operator = VsphereOperator(self._server, CLUSTERS)
        self.faults = VsphereFaults(self._server)
        # every simulated vCenter has the same uuid
        self._stack.enter_context(mock.patch.object(VsphereCpi, "identity", lambda cpi: f"vCenter {cpi.settings.url}"))

    def open_site(self, folder: Path) -> Site:
        site = _site(vsphere.Place, folder, self.config())
        site.server, site.operator = self._server, self.operator
        write_image(site.folder / "stemcells" / "image")
        return site

    def config(self, **more: Any) -> str:
        return _with_properties(vsphere.CONFIG.replace("URL", self._server.url), **more)

    def config_elsewhere(self) -> str:
        return self.config(url=self._stack.enter_context(vcenter()).url)

    def inventory(self) -> Inventory:
        """Without folders: those of ours come and go with what is in them."""
        return frozenset(one for one in self._server.inventory() if one[0] != "folder")

    def forge(self, kind: Kind, mark: Mark) -> str:
        match kind:
            case "vm" | "image":
                machine = self.operator.boot("clone", "z1")
                self.operator.run(machine.Rename_Task(mark.name()))  # beside our folder: in it, names are unique
                return str(self.operator.get(machine, "config.instanceUuid"))
            case "disk":
                return self._forge_disk(mark)
            case "server_group":
                return self.operator.create_group(f"dep.web.{mark.group_cid}", "anti-affinity", "z2")
        raise AssertionError(kind)

    def _forge_disk(self, mark: Mark) -> str:
        """On a datastore that has no such file yet."""
        datacenter, disk_manager = self.operator.find("DC0"), self.operator.content.virtualDiskManager
        spec = vim.VirtualDiskManager.FileBackedVirtualDiskSpec(
            diskType="thin", adapterType="lsiLogic", capacityKb=1024
        )
        for store in ("LocalDS_1", "LocalDS_0"):
            folder = f"[{store}] coterie/{mark.director}/disks"
            self.operator.content.fileManager.MakeDirectory(folder, datacenter, True)
            with suppress(vim.fault.FileAlreadyExists):
                path = f"{folder}/{mark.name()}.vmdk"
                self.operator.run(disk_manager.CreateVirtualDisk_Task(path, datacenter, spec))
                return f"{mark.name()}@{store}"
        raise AssertionError("both have it")

    def give_away(self, vm_cid: str) -> None:
        machine = self.operator.machine(vm_cid)
        self.operator.run(machine.Rename_Task(Mark(OTHER_DIRECTOR, "0" * 26).name()))

    def use_security_group(self, cid: str) -> str:
        raise AssertionError("a vCenter has none")

    def unshare(self, image_cid: str) -> None:
        raise AssertionError("a template has no owner")

    def close(self) -> None:
        self.operator.close()
        self._stack.close()


class OpenstackGround:
    driver = "openstack"
    adoptable = "anti-affinity"

    def open_site(self, folder: Path) -> Site:
        (folder / "cloud").mkdir()
        self._bed = OpenstackBed(folder / "cloud")
        self.operator, self.faults, self._tenant = self._bed.operator, self._bed.faults, self._bed.tenant
        self._others: list[OpenstackBed] = []
        self.inventory = self._bed.inventory
        self._folder = folder
        site = _site(openstack.Place, folder, self.config())
        site.bed = self._bed
        return site

    def config(self, **more: Any) -> str:
        return _with_properties(openstack.config(self._bed), **more)

    def config_elsewhere(self) -> str:
        folder = self._folder / f"elsewhere-{len(self._others)}"
        folder.mkdir()
        self._others.append(OpenstackBed(folder))
        return openstack.config(self._bed, clouds=[openstack.openstack_cloud("lab", self._others[-1])])

    def forge(self, kind: Kind, mark: Mark) -> str:
        call, name = self._tenant.call, mark.name()
        described = {"description": rows.description(mark)}
        match kind:
            case "vm":
                made = self.operator.boot(name, "z1", metadata={"deployment": "dep"})
                call("PUT", "nova", f"/servers/{made}/tags", {"tags": rows.tags(mark)})
                return made
            case "disk":
                body = {"volume": {"name": name, "size": 1, "metadata": mark_tags(mark)}}
                made = str(call("POST", "cinder", "/volumes", body)["volume"]["id"])
                until(lambda: self._tenant.get("cinder", f"/volumes/{made}")["volume"]["status"] == "available")
                return made
            case "image":
                body = {"name": name, "disk_format": "raw", "container_format": "bare", "tags": rows.tags(mark)}
                return str(call("POST", "glance", "/images", body)["id"])
            case "server_group":
                return self.operator.create_group(mark.group_cid, "anti-affinity")
            case "security_group":
                body = {"security_group": {"name": "clone", **described}}
                return str(call("POST", "neutron", "/security-groups", body)["security_group"]["id"])
            case "port":
                about = rows.director_tag(mark.director)
                body = {"port": {"name": name, "network_id": self._tenant.network, "description": about}}
                return str(call("POST", "neutron", "/ports", body)["port"]["id"])
            case "ip":
                body = {"floatingip": {"floating_network_id": self._tenant.outer_network, **described}}
                return str(call("POST", "neutron", "/floatingips", body)["floatingip"]["id"])
        raise AssertionError(kind)

    def give_away(self, vm_cid: str) -> None:
        service, path = PATHS["vm"]
        body = {"tags": rows.tags(Mark(OTHER_DIRECTOR, "0" * 26))}
        self._tenant.call("PUT", service, f"{path}/{vm_cid}/tags", body)

    def use_security_group(self, cid: str) -> str:
        vm = self.operator.create_vm("theirs", "z1")
        return self.operator.join(vm, GroupResource("security_group", cid, None, True))

    def unshare(self, image_cid: str) -> None:
        members = self._tenant.get("glance", f"/images/{image_cid}/members")["members"]
        for one in members:
            self._tenant.call("DELETE", "glance", f"/images/{image_cid}/members/{one['member_id']}")

    def close(self) -> None:
        for one in (self._bed, *self._others):
            one.close()


class IncusNeighbours(IncusOperator):
    def create_vm(self, name: str, az: str, **more: Any) -> str:
        """Where a volume of ours is: a VM elsewhere cannot have it."""
        homes = [row["location"] for row in self.rows(VOLUMES) if f"{USER}{DIRECTOR}" in row["config"]]
        return self.create_on(homes[0] if homes and az == "z1" else f"@{az}", name, **more)


class IncusGround:
    driver = "incus"
    adoptable = "anti-affinity"

    def open_site(self, folder: Path) -> Site:
        (folder / "cloud").mkdir()
        self._bed = IncusBed(folder / "cloud")
        self.operator, self.faults = IncusNeighbours(CLUSTER, self._bed.project), self._bed.faults
        self.inventory = self._bed.inventory
        self._projects: list[str] = []
        site = _site(incus.Place, folder, self.config())
        site.bed = self._bed
        (site.folder / "stemcells" / "image").write_bytes(Path(self._bed.image()[0]).read_bytes())
        return site

    def config(self, **more: Any) -> str:
        return _with_properties(incus.config(self._bed), **more)

    def config_elsewhere(self) -> str:
        if not self._projects:
            CLUSTER.call("POST", "/1.0/projects", {"name": "elsewhere"})
            self._projects.append("elsewhere")
        return self.config(project="elsewhere")

    def forge(self, kind: Kind, mark: Mark) -> str:
        """As `incus copy`, `incus storage volume copy` and `incus profile copy` make them, with the whole config."""
        config = mark_config(mark)
        match kind:
            case "vm":
                taken = self.operator.exists("vm", mark.name())
                return self.operator.create_vm("clone" if taken else mark.name(), "z1", config=config)
            case "disk":
                self.operator.call("POST", VOLUMES, {"name": "clone", "config": config})
                return f"{POOL}:clone"
            case "image":
                return self.operator.create_image(mark_tags(mark))
            case "security_group":
                self.operator.call("POST", "/1.0/network-acls", {"name": "clone", "config": config})
                return "clone"
            case "server_group":
                row = self.operator.call("GET", f"/1.0/profiles/{mark.group_cid}")
                self.operator.call("POST", "/1.0/profiles", {"name": "clone", "config": row["config"]})
                return "clone"
        raise AssertionError(kind)

    def give_away(self, vm_cid: str) -> None:
        config = {f"{USER}{DIRECTOR}": OTHER_DIRECTOR}
        self.operator.call("PATCH", f"/1.0/instances/{vm_cid}", {"config": config})

    def use_security_group(self, cid: str) -> str:
        nic = {"type": "nic", "name": "eth0", "network": NETWORK, "security.acls": cid}
        return self.operator.create_vm("theirs", "z1", devices={**ROOT, "eth0": nic})

    def unshare(self, image_cid: str) -> None:
        self.operator.call("PATCH", f"/1.0/images/{image_cid}", {"public": False})

    def close(self) -> None:
        """With what an accident left that went wrong: the next one begins in the same project."""
        self.operator.clear()
        for one in self._projects:
            CLUSTER.call("DELETE", f"/1.0/projects/{one}")
        self._bed.close()


BEDS: dict[str, Callable[[], Bed]] = {
    "sandbox": SandboxGround,
    "cloudstack": CloudstackGround,
    "vsphere": VsphereGround,
    "aws": AwsGround,
    "azure": AzureGround,
    "gcp": GcpGround,
    "openstack": OpenstackGround,
    "incus": IncusGround,
}


def _site(kind: type[Site], folder: Path, config: str) -> Any:
    site = kind(sqlite_ledger(folder / "ledger.db"), folder)
    site.config = config
    site.conductor.start()
    return site


def _with_properties(config: str, **more: Any) -> str:
    read: Any = yaml.safe_load(config)
    read["clouds"][0]["properties"] |= more
    return str(yaml.safe_dump(read))
