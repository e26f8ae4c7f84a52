"""Virtual machines, and the groups, disks, snapshots and images around them. Fault domains of a region are groups of
hosts of the datacenter that share none: one in each of its first zones, or the racks of the only one."""

from __future__ import annotations

import math
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from coterie.sandbox import disks, images, quotas, server_groups, snapshots, vm_shape, vms
from coterie.sandbox.errors import NoSuch, SandboxError
from coterie.sandbox.fit import Demand
from coterie.sandbox.fronts.azure.call import LOCATION, Call, Handler
from coterie.sandbox.fronts.azure.network import NIC, Network, shout
from coterie.sandbox.fronts.azure.operations import moment
from coterie.sandbox.fronts.azure.refusals import ApiError, bad_reference, not_found, translate
from coterie.sandbox.fronts.azure.shelf import Body, Resource
from coterie.sandbox.fronts.serving import Reply
from coterie.sandbox.hosts import all_hosts
from coterie.sandbox.nics import NicRequest

if TYPE_CHECKING:
    from coterie.sandbox.fronts.azure.front import Front

VM = "Microsoft.Compute/virtualMachines"
SET = "Microsoft.Compute/availabilitySets"
SCALE_SET = "Microsoft.Compute/virtualMachineScaleSets"
HOST_GROUP = "Microsoft.Compute/hostGroups"
DISK = "Microsoft.Compute/disks"
SNAPSHOT = "Microsoft.Compute/snapshots"
IMAGE = "Microsoft.Compute/images"
# name → cpu, MiB, data disks, disk controllers
SIZES = {
    "Standard_B1s": (1, 1024, 2, "SCSI"),
    "Standard_B2s": (2, 4096, 4, "SCSI"),
    "Standard_D2s_v5": (2, 8192, 4, "SCSI"),
    "Standard_D2s_v6": (2, 8192, 4, "NVMe"),
    "Standard_D4s_v5": (4, 16_384, 8, "SCSI"),
    "Standard_D8s_v5": (8, 32_768, 16, "SCSI"),
    "Standard_D16s_v5": (16, 65_536, 32, "SCSI"),
    "Standard_M416ms_v2": (416, 11_673_600, 64, "SCSI"),
}
_SET_MEMBERS, _SCALE_SET_MEMBERS = 200, 1000
_DISK_MB, _SECRETS = 10_240, ("customData", "adminPassword")
_NEW_SETS = 2000  # per region
_IMMUTABLE = ("availabilitySet", "hostGroup", "host", "proximityPlacementGroup")


class Compute:
    def __init__(self, front: Front, network: Network) -> None:
        self._front = front
        self._network = network
        self._account = front.account
        self._domains: list[tuple[str, str | None]] = []

    def handlers(self) -> dict[str, Handler]:
        found: dict[str, Handler] = {
            "PUT virtualMachines": self.put_vm,
            "PATCH virtualMachines": self.patch_vm,
            "DELETE virtualMachines": self.delete_vm,
            "GET virtualMachines/instanceView": self.get_instance_view,
            "POST virtualMachines/attachDetachDataDisks": self.attach_detach,
            "POST virtualMachines/restart": self.start_vm,
            "POST virtualMachines/start": self.start_vm,
            "POST virtualMachines/deallocate": self.deallocate,
            "POST virtualMachines/powerOff": self.deallocate,
            "PUT availabilitySets": self.put_set,
            "DELETE availabilitySets": self.delete_set,
            "GET availabilitySets/vmSizes": self.list_sizes,
            "PUT virtualMachineScaleSets": self.put_scale_set,
            "DELETE virtualMachineScaleSets": self.delete_scale_set,
            "PUT hostGroups": self.put_host_group,
            "DELETE hostGroups": self.delete_host_group,
            "PUT disks": self.put_disk,
            "PATCH disks": self.patch_disk,
            "DELETE disks": self.delete_disk,
            "POST disks/beginGetAccess": self.grant_access,
            "POST disks/endGetAccess": self.revoke_access,
            "PUT snapshots": self.put_snapshot,
            "DELETE snapshots": self.delete_snapshot,
            "PUT images": self.put_image,
            "DELETE images": self.delete_image,
            "GET locations/usages": self.usages,
            "GET skus": self.skus,
        }
        for type_ in ("virtualMachines", "availabilitySets", "virtualMachineScaleSets", "hostGroups", "disks"):
            found[f"GET {type_}"] = self.get
        found |= {"GET snapshots": self.get, "GET images": self.get}
        for type_ in ("availabilitySets", "snapshots", "images", "virtualMachineScaleSets", "hostGroups"):
            found[f"PATCH {type_}"] = self.patch_tags
        return found

    # -- reading --

    def get(self, call: Call) -> Reply:
        type_ = f"Microsoft.Compute/{call.type}"
        expand = call.query.get("$expand", "").lower() == "instanceview"
        if call.operation.is_list:
            rows = self._front.listed(type_, call.names.get("resourceGroupName"))
            wanted = call.query.get("$filter", "")
            if expand and not wanted:
                raise ApiError(
                    400, "InvalidParameter", "$expand can only be specified if a valid $filter is specified."
                )
            if wanted:
                rows = [one for one in rows if _is_chosen(one, wanted)]
            if call.query.get("statusOnly", "").lower() == "true":
                return self._front.page(call, [self._status(one) for one in rows])
            return self._front.page(call, [self.show(one, expand) for one in rows])
        one = self._front.require(call, type_)
        return Reply(200, self.show(one, expand), {"ETag": _etag(one)} if one.type == VM else {})

    def show(self, one: Resource, expand: bool = False) -> Body:
        shown: Body = {"name": one.name, "id": one.id, "type": one.type, "tags": {}, **one.body}
        shown["properties"] = {**one.properties, "provisioningState": one.state}
        if one.type == VM:
            self._show_vm(one, shown, expand)
        elif one.type in (SET, HOST_GROUP):
            del shown["properties"]["provisioningState"]
            if one.type == SET:
                shown["properties"]["virtualMachines"] = [{"id": shout(vm.id).upper()} for vm in self._members(one)]
            else:
                shown["properties"]["hosts"] = []
        elif one.type in (DISK, SNAPSHOT):
            self._show_disk(one, shown)
        elif one.type == IMAGE:
            shown["properties"].setdefault("hyperVGeneration", "V1")
        elif one.type == SCALE_SET:
            shown["properties"] |= {
                "timeCreated": moment(one.created),
                "uniqueId": str(uuid.uuid5(uuid.NAMESPACE_URL, one.id)),
            }
        return shown

    def _status(self, one: Resource) -> Body:
        """Of a virtual machine in a list of states."""
        shown: Body = {"name": one.name, "id": shout(one.id), "type": one.type, "location": LOCATION}
        return {**shown, "properties": {"provisioningState": one.state, "instanceView": self.instance_view(one)}}

    def _show_vm(self, one: Resource, shown: Body, expand: bool) -> None:
        shown["etag"] = _etag(one)
        properties = shown["properties"]
        profile = {key: value for key, value in (properties.get("osProfile") or {}).items() if key not in _SECRETS}
        properties["osProfile"] = {**profile, "secrets": [], "allowExtensionOperations": True}
        properties.pop("userData", None)
        properties["vmId"] = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{one.id.lower()}/{one.created}"))
        properties["timeCreated"] = moment(one.created)
        for key in (*_IMMUTABLE, "virtualMachineScaleSet"):
            if properties.get(key):
                properties[key] = {"id": shout(properties[key]["id"]).upper()}
        if expand:
            properties["instanceView"] = self.instance_view(one)

    def instance_view(self, one: Resource) -> Body:
        power = {"running": "running", "building": "starting", "stopped": "deallocated"}.get(
            self._power(one), "unknown"
        )
        statuses = [{"code": f"ProvisioningState/{one.state.lower()}", "level": "Info", "displayStatus": one.state}]
        if power != "unknown":
            statuses.append({"code": f"PowerState/{power}", "level": "Info", "displayStatus": f"VM {power}"})
        found: Body = {"statuses": statuses, "disks": []}
        if "fault_domain" in one.facts:
            found["platformFaultDomain"] = one.facts["fault_domain"]
            found["platformUpdateDomain"] = one.facts["update_domain"]
        if one.facts.get("host"):
            found["assignedHost"] = one.facts["host"]
        return found

    def _power(self, one: Resource) -> str:
        with suppress(NoSuch):
            if one.inner:
                return vm_shape.get_vm(self._account, one.inner).state
        return "unknown"

    def _show_disk(self, one: Resource, shown: Body) -> None:
        properties = shown["properties"]
        sku = dict(shown.get("sku") or {"name": "Standard_LRS"})
        shown["sku"] = {**sku, "tier": str(sku["name"]).partition("_")[0]}
        size = int(properties.get("diskSizeGB") or 1)
        properties |= {
            "diskSizeBytes": size * 2**30,
            "timeCreated": moment(one.created),
            "uniqueId": str(uuid.uuid5(uuid.NAMESPACE_URL, f"{one.id.lower()}/{one.created}")),
            "encryption": {"type": "EncryptionAtRestWithPlatformKey"},
            "networkAccessPolicy": "AllowAll",
            "publicNetworkAccess": "Enabled",
            "diskState": one.facts.get("state", "Attached" if one.facts.get("vm") else "Unattached"),
        }
        if one.type == DISK:
            properties |= {"diskIOPSReadWrite": 500, "diskMBpsReadWrite": 60, "tier": "P2"}
            if one.facts.get("vm"):
                shown["managedBy"] = shout(one.facts["vm"])
        else:
            properties |= {"incremental": bool(properties.get("incremental")), "completionPercent": 100.0}

    # -- virtual machines --

    def put_vm(self, call: Call) -> Reply:
        old = self._front.shelf.get(call.path)
        if old and call.headers.get("if-none-match") == "*":
            raise ApiError(412, "PreconditionFailed", f"The resource {call.path} exists already.")
        if call.headers.get("if-match") and (old is None or call.headers["if-match"] not in ("*", _etag(old))):
            raise ApiError(
                412, "ConditionNotMet", "The condition specified using HTTP conditional header(s) is not met."
            )
        if old:
            return self._change_vm(call, old)
        self._require_whole(call.body)
        given = call.body["properties"]
        group = self._placement(given, call.body.get("zones") or [])
        nics = self._nics(given, call.path)
        image = self._image(given["storageProfile"])
        one = Resource(call.path, VM, call.name, _own(call.body), time.time(), "Creating")
        one.facts |= self._choose_domain(group)
        self._front.shelf.put(one)
        try:
            self._boot(one, group, nics, image)
            error = None
        except SandboxError as refusal:
            error = translate(refusal)
            if error.status == 429:
                self._front.shelf.drop(one)
                raise error from refusal
            for nic in nics:
                self._network.reserve(nic, one.id)
        self._front.shelf.put(one)
        reply = self._front.begin(call, one, 201, self.show(one), error=error)
        reply.headers["ETag"] = _etag(one)
        return reply

    def _boot(self, one: Resource, group: Resource | None, nics: list[Resource], image: tuple[str, bool]) -> None:
        given = one.properties
        cpu, ram = SIZES[given["hardwareProfile"]["vmSize"]][:2]
        requests = [
            NicRequest(f"{number}.{n}", network, address, f"eth{number}")
            for number, nic in enumerate(nics)
            for n, (network, address) in enumerate(self._network.addresses_of(nic))
        ]
        zone, rack = self._where(one, group)
        made = vms.create_vm(
            self._account,
            name=one.name,
            size=Demand(cpu, ram, _DISK_MB, zone, rack),
            image=image[0],
            shared_image=image[1],
            nics=requests,
            group=group.inner if group and group.type != HOST_GROUP else None,
            security_groups=list(dict.fromkeys(each for nic in nics for each in self._network.security_groups_of(nic))),
            user_data=str((given.get("osProfile") or {}).get("customData") or ""),
            tags=one.body.get("tags") or {},
        )
        one.inner = made.id
        self._front.shelf.put(one)
        macs = {each.label.partition(".")[0]: each.mac for each in made.nics}
        for number, nic in enumerate(nics):
            self._network.attach(nic, one, made.id, macs.get(str(number)), number == 0)
        self._own_disks(one)

    def _own_disks(self, one: Resource) -> None:
        """The disks that come with the VM; they inherit no tags."""
        group = one.id.split("/")[4]
        profile = one.properties["storageProfile"]
        system = profile.setdefault("osDisk", {})
        system.setdefault("name", f"{one.name}_OsDisk_1_{uuid.uuid4().hex}")
        system.setdefault("osType", "Linux")
        for disk in (system, *profile.setdefault("dataDisks", [])):
            id_ = self._front.path(group, DISK, disk["name"])
            if disk.get("createOption", "").lower() == "attach":
                continue
            size = int(disk.get("diskSizeGB") or 30)
            body = {"location": LOCATION, "sku": {"name": _sku(disk)}}
            body["properties"] = {"creationData": {"createOption": "FromImage"}, "diskSizeGB": size}
            made = Resource(id_, DISK, disk["name"], body, time.time(), facts={"vm": one.id, "own": True})
            self._front.shelf.put(made)
            disk["managedDisk"] = {**(disk.get("managedDisk") or {}), "id": id_}
            disk["diskSizeGB"] = size

    def _change_vm(self, call: Call, one: Resource) -> Reply:
        self._require_idle(one)
        for key in _IMMUTABLE:
            has, wanted = one.properties.get(key) or {}, call.body.get("properties", {}).get(key)
            if wanted is not None and str(has.get("id", "")).lower() != str(wanted.get("id", "")).lower():
                raise ApiError(409, "PropertyChangeNotAllowed", f"Changing property '{key}.id' is not allowed.")
        return self._update_vm(call, one)

    def patch_vm(self, call: Call) -> Reply:
        one = self._front.require(call)
        if call.headers.get("if-match") not in (None, "*", _etag(one)):
            raise ApiError(
                412, "ConditionNotMet", "The condition specified using HTTP conditional header(s) is not met."
            )
        return self._change_vm(call, one)

    def _update_vm(self, call: Call, one: Resource) -> Reply:
        given = call.body.get("properties", {})
        if "virtualMachineScaleSet" in given:
            self._move(one, given["virtualMachineScaleSet"])
        if call.body.get("tags") is not None:
            one.body["tags"] = dict(call.body["tags"])
        one.revision += 1
        one.state = "Updating"
        self._front.shelf.put(one)
        reply = self._front.begin(call, one, 200, self.show(one))
        reply.headers["ETag"] = _etag(one)
        return reply

    def _move(self, one: Resource, wanted: Mapping[str, Any] | None) -> None:
        """A living VM joins or leaves a scale set; from one to another it must leave first."""
        has, target = one.properties.get("virtualMachineScaleSet"), (wanted or {}).get("id")
        if target in ("", "null"):
            raise ApiError(
                409, "PropertyChangeNotAllowed", "Changing property 'virtualMachineScaleSet.id' is not allowed."
            )
        if has and target and has["id"].lower() != target.lower():
            text = "Changing property 'virtualMachineScaleSet.id' is not allowed."
            raise ApiError(409, "PropertyChangeNotAllowed", text)
        if has:
            self._require_attachable(one, self._scale_set_of(has), "detaching")
        if target:
            group = self._scale_set_of({"id": target})
            self._require_attachable(one, group, "attaching")
            self._require_zone(group, one.body.get("zones") or [])
            one.properties["virtualMachineScaleSet"] = {"id": group.id}
        else:
            one.properties.pop("virtualMachineScaleSet", None)

    def _require_attachable(self, one: Resource, group: Resource, what: str) -> None:
        """As the vendor's page on attaching and detaching says."""
        own, word = group.properties, f"does not support {what} an existing Virtual Machine"
        for key, code in (
            ("availabilitySet", "AvsetVM"),
            ("proximityPlacementGroup", "PPGVM"),
            ("hostGroup", "DedicatedHostVM"),
        ):
            if one.properties.get(key):
                code = f"VmssDoesNotSupportAttachingExisting{code}"
                raise ApiError(409, code, f"Referenced Virtual Machine '{one.name}' belongs to a {key}.")
        if int(own.get("platformFaultDomainCount") or 1) != 1:
            code = "VmssDoesNotSupportAttachingExistingVMMultiFD"
            raise ApiError(409, code, f"Virtual Machine Scale Set '{group.name}' {word}: it has several fault domains.")
        if own.get("singlePlacementGroup") is not False:
            code = "VmssDoesNotSupportAttachingWithSpg"
            raise ApiError(
                409, code, f"Virtual Machine Scale Set '{group.name}' {word}: singlePlacementGroup is not false."
            )

    def delete_vm(self, call: Call) -> Reply:
        one = self._front.shelf.get(call.path)
        if one is None:
            return Reply(204)
        self._remove(one)
        return self._front.delete_later(call, one)

    def _remove(self, one: Resource) -> None:
        """Its parts go or stay as their delete options say."""
        if one.inner:
            with suppress(NoSuch):
                vms.delete_vm(self._account, one.inner)
        for reference in one.properties["networkProfile"].get("networkInterfaces") or ():
            nic = self._front.shelf.get(reference["id"])
            goes = (reference.get("properties") or {}).get("deleteOption") == "Delete"
            if nic is None or nic.facts.get("vm", "").lower() != one.id.lower():
                continue
            self._network.release(nic)
            if goes:
                self._front.shelf.drop(nic)
        profile = one.properties["storageProfile"]
        for disk in (profile.get("osDisk") or {}, *(profile.get("dataDisks") or ())):
            found = self._front.shelf.get((disk.get("managedDisk") or {}).get("id", ""))
            if found is None or found.facts.get("vm", "").lower() != one.id.lower():
                continue
            found.facts.pop("vm")
            self._front.shelf.put(found)
            if disk.get("deleteOption") == "Delete":
                self._front.shelf.drop(found)

    def get_instance_view(self, call: Call) -> Reply:
        found = self._front.shelf.get(call.path.rsplit("/", 1)[0])
        if found is None:
            raise not_found(VM, call.names["vmName"], call.group)
        return Reply(200, self.instance_view(found))

    def start_vm(self, call: Call) -> Reply:
        one = self._vm(call)
        if call.path.endswith("/start"):
            vms.start_vm(self._account, str(one.inner))
        elif self._power(one) == "stopped":
            raise ApiError(409, "OperationNotAllowed", "Cannot restart a VM that is deallocated.")
        else:
            vms.reboot_vm(self._account, str(one.inner))
        return self._front.begin(call, one, 202, None, both=True)

    def deallocate(self, call: Call) -> Reply:
        one = self._vm(call)
        with self._account.datacenter.store.writing() as db:
            db.execute(
                "UPDATE vms SET state = 'stopped' WHERE object = (SELECT seq FROM objects WHERE id = ?)", (one.inner,)
            )
        return self._front.begin(call, one, 202, None, both=True)

    def attach_detach(self, call: Call) -> Reply:
        one = self._vm(call)
        self._require_idle(one)
        listed = one.properties["storageProfile"].setdefault("dataDisks", [])
        for wanted in call.body.get("dataDisksToDetach") or ():
            disk = next(
                (each for each in listed if each["managedDisk"]["id"].lower() == wanted["diskId"].lower()), None
            )
            if disk is None:
                raise ApiError(400, "InvalidParameter", f"Disk {wanted['diskId']} is not attached to the VM.")
            self._detach(one, listed, disk)
        for wanted in call.body.get("dataDisksToAttach") or ():
            self._attach(one, listed, wanted)
        one.revision += 1
        self._front.shelf.put(one)
        reply = self._front.begin(
            call, one, 200, one.properties["storageProfile"], output=one.properties["storageProfile"]
        )
        reply.headers["ETag"] = _etag(one)
        return reply

    def _attach(self, one: Resource, listed: list[Body], wanted: Body) -> None:
        disk = self._front.shelf.get(wanted["diskId"])
        if disk is None:
            raise ApiError(404, "NotFound", f"Disk {wanted['diskId']} was not found.")
        if disk.facts.get("vm"):
            text = f"Disk {disk.name} cannot be attached because it is already owned by VM {disk.facts['vm']}."
            raise ApiError(
                409, "AttachDiskWhileBeingDetached" if disk.facts["vm"] == one.id else "ConflictingUserInput", text
            )
        if (disk.body.get("zones") or []) != (one.body.get("zones") or []):
            text = f"Disk {disk.name} is in zones {disk.body.get('zones')}, the VM in {one.body.get('zones')}."
            raise ApiError(400, "BadRequest", text)
        most = SIZES[one.properties["hardwareProfile"]["vmSize"]][2]
        lun = wanted.get("lun", next(n for n in range(most + 1) if n not in {each["lun"] for each in listed}))
        if not 0 <= lun < most:
            raise ApiError(409, "OperationNotAllowed", f"The maximum number of data disks allowed is {most}.")
        if lun in {each["lun"] for each in listed}:
            raise ApiError(400, "InvalidParameter", f"LUN {lun} is used already.")
        disks.attach_disk(self._account, str(disk.inner), str(one.inner))
        disk.facts["vm"] = one.id
        self._front.shelf.put(disk)
        entry = {"lun": lun, "name": disk.name, "createOption": "Attach", "caching": wanted.get("caching", "None")}
        entry |= {"deleteOption": wanted.get("deleteOption", "Detach"), "managedDisk": {"id": disk.id}}
        listed.append({**entry, "diskSizeGB": disk.properties.get("diskSizeGB"), "toBeDetached": False})

    def _detach(self, one: Resource, listed: list[Body], entry: Body) -> None:
        listed.remove(entry)
        disk = self._front.shelf.get(entry["managedDisk"]["id"])
        if disk and disk.inner:
            disks.detach_disk(self._account, disk.inner, str(one.inner))
        if disk:
            disk.facts.pop("vm", None)
            self._front.shelf.put(disk)

    # -- what a new VM needs --

    def _require_whole(self, body: Body) -> None:
        """What the definition leaves open and ARM demands."""
        given = body["properties"]
        size, profile = (given.get("hardwareProfile") or {}).get("vmSize"), given.get("osProfile")
        if size not in SIZES:
            raise ApiError(400, "InvalidParameter", f"The value {size} provided for the VM size is not valid.")
        if given["storageProfile"].get("osDisk", {}).get("createOption") == "FromImage" and not profile:
            raise ApiError(400, "InvalidParameter", "Required parameter 'osProfile' is missing (null).")
        keys = ((profile.get("linuxConfiguration") or {}).get("ssh") or {}).get("publicKeys")
        if not profile.get("computerName") or not profile.get("adminUsername"):
            raise ApiError(400, "InvalidParameter", "Required parameter 'osProfile.adminUsername' is missing (null).")
        if not profile.get("adminPassword") and not keys:
            raise ApiError(400, "InvalidParameter", "Required parameter 'adminPassword' is missing (null).")
        if len(profile.get("customData") or "") > 87_380:
            raise ApiError(
                400, "InvalidParameter", "Custom data in OSProfile must be in Base64 and at most 65535 bytes."
            )
        luns = [disk["lun"] for disk in given["storageProfile"].get("dataDisks") or ()]
        if len(luns) > SIZES[size][2] or len(set(luns)) < len(luns):
            raise ApiError(409, "OperationNotAllowed", f"The maximum number of data disks allowed is {SIZES[size][2]}.")

    def _placement(self, given: Body, zones: list[str]) -> Resource | None:
        group = self._group_of(given)
        if group is None:
            if any(zone not in self._zones() for zone in zones):
                raise ApiError(400, "InvalidAvailabilityZone", f"The zone(s) {zones} are not supported in {LOCATION}.")
            return None
        if group.type == SET and zones:
            raise ApiError(400, "BadRequest", "Virtual machines in an availability set cannot be in a zone.")
        sizes, size = group.facts.get("sizes"), given["hardwareProfile"]["vmSize"]
        if sizes and size not in sizes:
            text = f"Allocation failed. VM size {size} is not supported in the cluster of {group.name}."
            raise ApiError(409, "AllocationFailed", text)
        members, most = len(self._members(group)), _SET_MEMBERS if group.type == SET else _SCALE_SET_MEMBERS
        if members >= most:
            text = f"The maximum number of virtual machines in {group.name} is {most}."
            raise ApiError(409, "OperationNotAllowed", text)
        self._require_zone(group, zones)
        return group

    def _scale_set_of(self, reference: Mapping[str, Any]) -> Resource:
        found = self._front.shelf.get(str(reference["id"]))
        if found is None:
            raise bad_reference(str(reference["id"]))
        return found

    def _group_of(self, given: Body) -> Resource | None:
        for key in ("availabilitySet", "virtualMachineScaleSet", "hostGroup"):
            wanted = (given.get(key) or {}).get("id")
            if wanted:
                found = self._front.shelf.get(wanted)
                if found is None:
                    raise bad_reference(wanted)
                return found
        return None

    def _require_zone(self, group: Resource, zones: list[str]) -> None:
        has = group.body.get("zones") or []
        if group.type in (SCALE_SET, HOST_GROUP) and sorted(has) != sorted(has if set(zones) & set(has) else zones):
            text = f"The zone(s) {zones} of the virtual machine are not those of {group.name}: {has}."
            raise ApiError(400, "BadRequest", text)

    def _nics(self, given: Body, vm: str) -> list[Resource]:
        references = given["networkProfile"].get("networkInterfaces") or []
        if not references:
            raise ApiError(400, "InvalidParameter", "Required parameter 'networkInterfaces' is missing (null).")
        found = []
        for reference in references:
            nic = self._front.shelf.get(reference.get("id", ""))
            if nic is None or nic.type != NIC:
                raise bad_reference(str(reference.get("id")))
            self._network.require_free(nic, vm)
            found.append(nic)
        return found

    def _image(self, profile: Body) -> tuple[str, bool]:
        """The datacenter's image, or a marketplace's, which all accounts share."""
        reference = profile.get("imageReference") or {}
        wanted = str(reference.get("id") or "")
        if not wanted:
            return f"{reference.get('publisher')}:{reference.get('offer')}:{reference.get('sku')}", True
        if "/galleries/" in wanted.lower():
            return wanted, True
        found = self._front.shelf.get(wanted)
        if found is None or found.type != IMAGE:
            raise bad_reference(wanted)
        return str(found.inner), False

    def _choose_domain(self, group: Resource | None) -> Body:
        """The domain with the fewest members; of equal ones the first."""
        if group is None or group.type == HOST_GROUP:
            return {}
        count = int(group.properties.get("platformFaultDomainCount") or 1)
        if group.type == SCALE_SET and count == 1:
            return {}
        held = Counter(vm.facts.get("fault_domain") for vm in self._members(group))
        made = int(group.facts.get("made", 0))
        group.facts["made"] = made + 1
        self._front.shelf.put(group)
        fault = min(range(count), key=lambda domain: (held[domain], domain))
        return {
            "fault_domain": fault,
            "update_domain": made % int(group.properties.get("platformUpdateDomainCount") or 5),
        }

    def _where(self, one: Resource, group: Resource | None) -> tuple[str | None, str | None]:
        zones = one.body.get("zones") or []
        if zones:
            return self._zones()[zones[0]], None
        if "fault_domain" in one.facts:
            return self.domains()[int(one.facts["fault_domain"]) % len(self.domains())]
        return None, None

    def domains(self) -> list[tuple[str, str | None]]:
        if not self._domains:
            hosts = all_hosts(self._account.datacenter.store)
            zones = sorted({host.zone for host in hosts})[:3]
            racks = sorted({(host.zone, host.rack) for host in hosts})[:3]
            self._domains = [(zone, None) for zone in zones] if len(zones) > 1 else list(racks)
        return self._domains

    def _zones(self) -> dict[str, str]:
        """Azure's names of zones → the datacenter's."""
        zones = sorted({host.zone for host in all_hosts(self._account.datacenter.store)})
        return {str(number): zone for number, zone in enumerate(zones, 1)}

    # -- groups --

    def put_set(self, call: Call) -> Reply:
        old, properties = self._front.shelf.get(call.path), call.body.setdefault("properties", {})
        most = len(self.domains())
        properties.setdefault("platformFaultDomainCount", most)
        properties.setdefault("platformUpdateDomainCount", 5)
        for key, limit in (("platformFaultDomainCount", most), ("platformUpdateDomainCount", 20)):
            if not 1 <= properties[key] <= limit:
                raise ApiError(
                    400, "InvalidParameter", f"The specified {key} {properties[key]} must fall in 1 to {limit}."
                )
            if old and old.properties[key] != properties[key]:
                raise ApiError(409, "PropertyChangeNotAllowed", f"Changing property '{key}' is not allowed.")
        if old is None and sum(1 for _ in self._front.shelf.every(SET)) >= self._ceiling():
            text = "Operation could not be completed as it results in exceeding approved AvailabilitySets quota."
            raise ApiError(409, "OperationNotAllowed", text)
        properties.pop("virtualMachines", None)
        one = self._save_group(call, SET, old)
        shown = self.show(one)
        del shown["properties"]["virtualMachines"]
        return Reply(200, shown)

    def delete_set(self, call: Call) -> Reply:
        one = self._front.shelf.get(call.path)
        if one is None:
            return Reply(204)
        if self._members(one):
            text = f"Availability Set '{one.name}' cannot be deleted. Before deleting it please ensure that it "
            raise ApiError(409, "OperationNotAllowed", text + "does not contain any VM.")
        self.forget_group(one)
        return Reply(200)

    def put_scale_set(self, call: Call) -> Reply:
        old, properties = self._front.shelf.get(call.path), call.body.get("properties") or {}
        if properties.get("orchestrationMode") != "Flexible" or properties.get("virtualMachineProfile"):
            raise ApiError(501, "NotSimulated", "This front has only Flexible scale sets without a profile.")
        if any(zone not in self._zones() for zone in call.body.get("zones") or []):
            raise ApiError(400, "InvalidAvailabilityZone", f"The zone(s) are not supported in {LOCATION}.")
        if old and not set(old.body.get("zones") or []) <= set(call.body.get("zones") or []):
            raise ApiError(409, "PropertyChangeNotAllowed", "Changing property 'zones' is not allowed.")
        one = self._save_group(call, SCALE_SET, old)
        return self._front.begin(call, one, 200 if old else 201, self.show(one))

    def delete_scale_set(self, call: Call) -> Reply:
        """Takes its members with it."""
        one = self._front.shelf.get(call.path)
        if one is None:
            return Reply(204)
        for vm in self._members(one):
            self._remove(vm)
            self._front.shelf.drop(vm)
        reply = self._front.delete_later(call, one)
        self.forget_group(one, keep_row=True)
        return reply

    def put_host_group(self, call: Call) -> Reply:
        old = self._front.shelf.get(call.path)
        one = Resource(call.path, HOST_GROUP, call.name, _own(call.body), old.created if old else time.time())
        self._front.shelf.put(one)
        return Reply(200 if old else 201, self.show(one))

    def delete_host_group(self, call: Call) -> Reply:
        one = self._front.shelf.get(call.path)
        if one:
            self._front.shelf.drop(one)
        return Reply(200 if one else 204)

    def forget_group(self, one: Resource, *, keep_row: bool = False) -> None:
        with suppress(NoSuch):
            server_groups.delete_server_group(self._account, str(one.inner))
        if not keep_row:
            self._front.shelf.drop(one)

    def _save_group(self, call: Call, type_: str, old: Resource | None) -> Resource:
        body = _own(call.body)
        if old:
            old.body, old.revision = body, old.revision + 1
            self._front.shelf.put(old)
            return old
        made = Resource(call.path, type_, call.name, body, time.time())
        tags = body.get("tags") or {}
        made.inner = server_groups.create_server_group(
            self._account, name=call.name, policy="soft-anti-affinity", tags=tags
        ).id
        self._front.shelf.put(made)
        return made

    def _members(self, group: Resource) -> list[Resource]:
        key = {SET: "availabilitySet", SCALE_SET: "virtualMachineScaleSet", HOST_GROUP: "hostGroup"}[group.type]
        return [
            vm
            for vm in self._front.shelf.every(VM)
            if str((vm.properties.get(key) or {}).get("id", "")).lower() == group.id.lower()
        ]

    def list_sizes(self, call: Call) -> Reply:
        """Of the hardware that the first VM of the set has chosen."""
        found = self._front.shelf.get(call.path.rsplit("/", 1)[0])
        if found is None:
            raise not_found(SET, call.names["availabilitySetName"], call.group)
        listed = [name for name in SIZES if name in found.facts.get("sizes", SIZES)]
        return Reply(200, {"value": [{"name": name, "numberOfCores": SIZES[name][0]} for name in listed]})

    # -- disks, snapshots, images --

    def put_disk(self, call: Call) -> Reply:
        old, given = self._front.shelf.get(call.path), call.body["properties"]
        option, size = given["creationData"]["createOption"], given.get("diskSizeGB")
        if option == "Upload":
            size = math.ceil(int(given["creationData"].get("uploadSizeBytes") or 0) / 2**30)
        if not size or size < 1:
            raise ApiError(400, "InvalidParameter", "Required parameter 'diskSizeGB' is missing (null).")
        if any(zone not in self._zones() for zone in call.body.get("zones") or []):
            raise ApiError(400, "InvalidAvailabilityZone", f"The zone(s) are not supported in {LOCATION}.")
        if old:
            if old.properties["creationData"] != given["creationData"]:
                raise ApiError(409, "PropertyChangeNotAllowed", "Changing property 'creationData' is not allowed.")
            old.body["tags"] = dict(call.body.get("tags") or {})
            old.revision += 1
            self._front.shelf.put(old)
            return self._passing_disk(call, old)
        zone = next((self._zones()[one] for one in call.body.get("zones") or []), None)
        tags = call.body.get("tags") or {}
        inner = disks.create_disk(
            self._account, name=call.name, size_mb=size * 1024, type=_sku_name(call.body), zone=zone, tags=tags
        ).id
        made = Resource(call.path, DISK, call.name, _own(call.body), time.time(), "Updating", inner)
        made.properties["diskSizeGB"] = size
        if option == "Upload":
            made.facts |= {"state": "ReadyToUpload", "pages": []}
        return self._passing_disk(call, made)

    def patch_disk(self, call: Call) -> Reply:
        one, given = self._front.require(call), call.body.get("properties") or {}
        size = int(given.get("diskSizeGB") or one.properties["diskSizeGB"])
        if size < one.properties["diskSizeGB"]:
            raise ApiError(409, "OperationNotAllowed", "Disk size cannot be reduced.")
        sku = (call.body.get("sku") or {}).get("name")
        if sku and one.facts.get("vm") and sku != _sku_name(one.body):
            raise ApiError(
                409, "OperationNotAllowed", "The SKU of an attached disk cannot be changed while the VM runs."
            )
        if size != one.properties["diskSizeGB"] or sku:
            disks.change_disk(self._account, str(one.inner), size_mb=size * 1024, type=sku)
        one.properties["diskSizeGB"] = size
        if sku:
            one.body["sku"] = {"name": sku}
        if "tags" in call.body:
            one.body["tags"] = dict(call.body["tags"])
        one.revision += 1
        return self._passing_disk(call, one)

    def delete_disk(self, call: Call) -> Reply:
        one = self._front.shelf.get(call.path)
        if one is None:
            return Reply(204)
        if one.facts.get("vm"):
            text = f"Disk {one.name} is attached to VM {one.facts['vm']}."
            raise ApiError(409, "OperationNotAllowed", text)
        if one.facts.get("state") == "ActiveUpload":
            raise ApiError(
                409, "OperationNotAllowed", "There is an active shared access signature outstanding for the disk."
            )
        if one.inner:
            disks.delete_disk(self._account, one.inner)
        return self._front.delete_later(call, one)

    def grant_access(self, call: Call) -> Reply:
        one = self._disk(call)
        if call.body["access"] == "Write":
            if one.facts.get("state") not in ("ReadyToUpload", "ActiveUpload"):
                raise ApiError(
                    409, "OperationNotAllowed", "Write access can be granted to disks that are to be uploaded only."
                )
            one.facts["state"] = "ActiveUpload"
        one.facts["sas"] = one.facts.get("sas") or uuid.uuid4().hex
        self._front.shelf.put(one)
        output = {"accessSAS": f"{call.origin}/upload/{one.facts['sas']}?sv=2018-03-28&sr=b&sig=signed"}
        return self._front.begin(call, one, 202, None, kind="DiskOperations", both=True, output=output)

    def revoke_access(self, call: Call) -> Reply:
        one = self._disk(call)
        one.facts.pop("sas", None)
        if one.facts.get("state") == "ActiveUpload":
            one.facts.pop("state")
        self._front.shelf.put(one)
        return self._front.begin(call, one, 202, None, kind="DiskOperations", both=True)

    def upload(self, sas: str, begin: int, raw: bytes) -> None:
        """A page of a disk, as its signed URL takes it."""
        one = next((each for each in self._front.shelf.every(DISK) if each.facts.get("sas") == sas), None)
        if one is None:
            raise ApiError(403, "AuthenticationFailed", "Server failed to authenticate the request.")
        if begin % 512 or len(raw) % 512 or len(raw) > 4 * 2**20:
            raise ApiError(416, "InvalidPageRange", "The page range specified is invalid.")
        if begin + len(raw) > one.properties["creationData"]["uploadSizeBytes"]:
            raise ApiError(416, "InvalidPageRange", "The page range specified is invalid.")
        one.facts["pages"] = sorted({*map(tuple, one.facts["pages"]), (begin, len(raw))})
        if raw[:8] == b"conectix":
            one.facts["footer"] = True
        self._front.shelf.put(one)

    def put_snapshot(self, call: Call) -> Reply:
        old, data = self._front.shelf.get(call.path), call.body["properties"]["creationData"]
        if old:
            return self._passing_disk(call, old)
        source = self._front.shelf.get(str(data.get("sourceResourceId") or ""))
        if source is None:
            raise ApiError(404, "NotFound", f"Source resource {data.get('sourceResourceId')} was not found.")
        tags = call.body.get("tags") or {}
        inner = snapshots.create_snapshot(self._account, str(source.inner), name=call.name, tags=tags).id
        made = Resource(call.path, SNAPSHOT, call.name, _own(call.body), time.time(), "Updating", inner)
        made.properties["diskSizeGB"] = source.properties["diskSizeGB"]
        return self._passing_disk(call, made)

    def delete_snapshot(self, call: Call) -> Reply:
        one = self._front.shelf.get(call.path)
        if one is None:
            return Reply(204)
        with suppress(NoSuch):
            snapshots.delete_snapshot(self._account, str(one.inner))
        return self._front.delete_later(call, one)

    def put_image(self, call: Call) -> Reply:
        old, properties = self._front.shelf.get(call.path), call.body.get("properties") or {}
        system = (properties.get("storageProfile") or {}).get("osDisk") or {}
        source = self._front.shelf.get(str((system.get("managedDisk") or {}).get("id", "")))
        if old:
            return self._front.begin(call, old, 200, self.show(old))
        if source is None:
            raise bad_reference(str((system.get("managedDisk") or {}).get("id")))
        if source.properties["creationData"]["createOption"] == "Upload" and not source.facts.get("footer"):
            raise ApiError(400, "InvalidParameter", "The uploaded disk is no fixed VHD: its footer is missing.")
        if source.facts.get("state") in ("ReadyToUpload", "ActiveUpload"):
            raise ApiError(409, "OperationNotAllowed", "The disk is being uploaded.")
        tags = call.body.get("tags") or {}
        inner = images.create_image(self._account, name=call.name, tags=tags).id
        made = Resource(call.path, IMAGE, call.name, _own(call.body), time.time(), "Creating", inner)
        self._front.shelf.put(made)
        return self._front.begin(call, made, 201, self.show(made))

    def delete_image(self, call: Call) -> Reply:
        one = self._front.shelf.get(call.path)
        if one is None:
            return Reply(204)
        with suppress(NoSuch):
            images.delete_image(self._account, str(one.inner))
        return self._front.delete_later(call, one)

    def _passing_disk(self, call: Call, one: Resource) -> Reply:
        one.state = "Updating"
        self._front.shelf.put(one)
        return self._front.begin(
            call, one, 202, _begun(self.show(one)), kind="DiskOperations", both=True, output=self.show(one)
        )

    # -- the region --

    def usages(self, call: Call) -> Reply:
        if "Microsoft.Network" in call.path:
            return self._network.usages(call)
        used = quotas.get_quotas(self._account)
        rows = {
            "availabilitySets": (sum(1 for _ in self._front.shelf.every(SET)), self._ceiling()),
            "cores": (used["cpu"].used, _limit(used["cpu"].ceiling)),
            "virtualMachines": (used["instances"].used, _limit(used["instances"].ceiling)),
            "virtualMachineScaleSets": (sum(1 for _ in self._front.shelf.every(SCALE_SET)), 2500),
        }
        listed = [
            {"currentValue": value, "limit": limit, "unit": "Count", "name": {"value": name, "localizedValue": name}}
            for name, (value, limit) in rows.items()
        ]
        return self._front.page(call, listed)

    def skus(self, call: Call) -> Reply:
        rows = [_size_sku(name, sorted(self._zones())) for name in SIZES]
        aligned = {"resourceType": "availabilitySets", "name": "Aligned", "locations": [LOCATION]}
        counts = [{"name": "MaximumPlatformFaultDomainCount", "value": str(len(self.domains()))}]
        rows.append({**aligned, "capabilities": counts, "restrictions": []})
        return self._front.page(call, rows)

    def patch_tags(self, call: Call) -> Reply:
        one = self._front.require(call)
        if "tags" in call.body:
            one.body["tags"] = dict(call.body["tags"])
        one.revision += 1
        self._front.shelf.put(one)
        return Reply(200, self.show(one))

    def _ceiling(self) -> int:
        found = quotas.get_quotas(self._account)["server_groups"].ceiling
        return _NEW_SETS if found is None else found

    def _vm(self, call: Call) -> Resource:
        found = self._front.shelf.get(call.path.rsplit("/", 1)[0])
        if found is None:
            raise not_found(VM, call.names["vmName"], call.group)
        return found

    def _disk(self, call: Call) -> Resource:
        found = self._front.shelf.get(call.path.rsplit("/", 1)[0])
        if found is None:
            raise not_found(DISK, call.names["diskName"], call.group)
        return found

    def _require_idle(self, one: Resource) -> None:
        if self._front.operations.open_for(one.id):
            raise ApiError(
                409, "Conflict", f"The request failed due to conflict with a concurrent request on {one.name}."
            )


def _own(body: Body) -> Body:
    return {key: one for key, one in body.items() if key not in ("id", "name", "type", "etag")}


def _begun(shown: Body) -> Body:
    """The answer of the beginning has little of what comes."""
    kept = {"creationData", "diskSizeGB", "provisioningState", "incremental"}
    return {**shown, "properties": {key: one for key, one in shown["properties"].items() if key in kept}}


def _etag(one: Resource) -> str:
    return f'"{one.revision}"'


def _is_chosen(one: Resource, wanted: str) -> bool:
    """Only the filter by scale set."""
    key, _, value = wanted.partition(" eq ")
    if "virtualmachinescaleset/id" not in key.lower():
        raise ApiError(400, "InvalidParameter", f"The filter {wanted} is not supported.")
    return str((one.properties.get("virtualMachineScaleSet") or {}).get("id", "")).lower() == value.strip("' ").lower()


def _sku(disk: Mapping[str, Any]) -> str:
    return str((disk.get("managedDisk") or {}).get("storageAccountType") or "Premium_LRS")


def _sku_name(body: Mapping[str, Any]) -> str:
    return str((body.get("sku") or {}).get("name") or "Standard_LRS")


def _limit(ceiling: int | None) -> int:
    return 100_000 if ceiling is None else ceiling


def _size_sku(name: str, zones: Iterable[str]) -> Body:
    cpu, ram, data_disks, controllers = SIZES[name]
    capabilities = {
        "vCPUs": cpu,
        "MemoryGB": ram / 1024,
        "MaxDataDiskCount": data_disks,
        "DiskControllerTypes": controllers,
        "PremiumIO": True,
    }
    return {
        "resourceType": "virtualMachines",
        "name": name,
        "locations": [LOCATION],
        "locationInfo": [{"location": LOCATION, "zones": list(zones), "zoneDetails": []}],
        "capabilities": [{"name": key, "value": str(value)} for key, value in capabilities.items()],
        "restrictions": [],
    }
