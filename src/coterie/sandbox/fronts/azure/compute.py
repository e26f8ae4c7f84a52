"""Virtual machines, and what the region has for them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from coterie.sandbox import disks, quotas, vm_shape, vms
from coterie.sandbox.errors import NoSuch, SandboxError
from coterie.sandbox.fit import Demand
from coterie.sandbox.fronts.azure.call import LOCATION, Call, Handler
from coterie.sandbox.fronts.azure.disks import DISK, IMAGE, SNAPSHOT, Disks
from coterie.sandbox.fronts.azure.groups import HOST_GROUP, SCALE_SET, SET, VM, Groups
from coterie.sandbox.fronts.azure.network import NIC, Network, shout
from coterie.sandbox.fronts.azure.operations import moment
from coterie.sandbox.fronts.azure.refusals import ApiError, bad_reference, not_found, translate
from coterie.sandbox.fronts.azure.shelf import Body, Resource, own
from coterie.sandbox.fronts.azure.sizes import SIZES, show_size
from coterie.sandbox.fronts.http_server import Reply
from coterie.sandbox.nics import NicRequest

if TYPE_CHECKING:
    from coterie.sandbox.fronts.azure.front import Front

_SET_MEMBERS, _SCALE_SET_MEMBERS = 200, 1000
_DISK_MB, _SECRETS = 10_240, ("customData", "adminPassword")
_IMMUTABLE = ("availabilitySet", "hostGroup", "host", "proximityPlacementGroup")


class Compute:
    def __init__(self, front: Front, network: Network) -> None:
        self._front = front
        self._network = network
        self._account = front.account
        self.groups = Groups(front, self._remove)
        self.disks = Disks(front, self.groups)

    def handlers(self) -> dict[str, Handler]:
        found: dict[str, Handler] = {
            **self.groups.handlers(),
            **self.disks.handlers(),
            "PUT virtualMachines": self.put_vm,
            "PATCH virtualMachines": self.patch_vm,
            "DELETE virtualMachines": self.delete_vm,
            "GET virtualMachines/instanceView": self.get_instance_view,
            "POST virtualMachines/attachDetachDataDisks": self.attach_detach,
            "POST virtualMachines/restart": self.start_vm,
            "POST virtualMachines/start": self.start_vm,
            "POST virtualMachines/deallocate": self.deallocate,
            "POST virtualMachines/powerOff": self.deallocate,
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
        if one.type in (SET, SCALE_SET, HOST_GROUP):
            return self.groups.show(one)
        if one.type in (DISK, SNAPSHOT, IMAGE):
            return self.disks.show(one)
        shown = one.show()
        self._show_vm(one, shown, expand)
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
        one = Resource(call.path, VM, call.name, own(call.body), time.time(), "Creating")
        one.facts |= self.groups.choose_domain(group)
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
        zone, rack = self.groups.where(one, group)
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
            self._require_attachable(one, self.groups.scale_set_of(has), "detaching")
        if target:
            group = self.groups.scale_set_of({"id": target})
            self._require_attachable(one, group, "attaching")
            self.groups.require_zone(group, one.body.get("zones") or [])
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
        group = self.groups.of(given)
        if group is None:
            if any(zone not in self.groups.zones() for zone in zones):
                raise ApiError(400, "InvalidAvailabilityZone", f"The zone(s) {zones} are not supported in {LOCATION}.")
            return None
        if group.type == SET and zones:
            raise ApiError(400, "BadRequest", "Virtual machines in an availability set cannot be in a zone.")
        sizes, size = group.facts.get("sizes"), given["hardwareProfile"]["vmSize"]
        if sizes and size not in sizes:
            text = f"Allocation failed. VM size {size} is not supported in the cluster of {group.name}."
            raise ApiError(409, "AllocationFailed", text)
        members, most = len(self.groups.members(group)), _SET_MEMBERS if group.type == SET else _SCALE_SET_MEMBERS
        if members >= most:
            text = f"The maximum number of virtual machines in {group.name} is {most}."
            raise ApiError(409, "OperationNotAllowed", text)
        self.groups.require_zone(group, zones)
        return group

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

    # -- the region --

    def usages(self, call: Call) -> Reply:
        if "Microsoft.Network" in call.path:
            return self._network.usages(call)
        used = quotas.get_quotas(self._account)
        rows = {
            "availabilitySets": (sum(1 for _ in self._front.shelf.every(SET)), self.groups.ceiling()),
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
        rows = [show_size(name, sorted(self.groups.zones())) for name in SIZES]
        aligned = {"resourceType": "availabilitySets", "name": "Aligned", "locations": [LOCATION]}
        counts = [{"name": "MaximumPlatformFaultDomainCount", "value": str(len(self.groups.domains()))}]
        rows.append({**aligned, "capabilities": counts, "restrictions": []})
        return self._front.page(call, rows)

    def patch_tags(self, call: Call) -> Reply:
        one = self._front.require(call)
        if "tags" in call.body:
            one.body["tags"] = dict(call.body["tags"])
        one.revision += 1
        self._front.shelf.put(one)
        return Reply(200, self.show(one))

    def _vm(self, call: Call) -> Resource:
        found = self._front.shelf.get(call.path.rsplit("/", 1)[0])
        if found is None:
            raise not_found(VM, call.names["vmName"], call.group)
        return found

    def _require_idle(self, one: Resource) -> None:
        if self._front.operations.open_for(one.id):
            raise ApiError(
                409, "Conflict", f"The request failed due to conflict with a concurrent request on {one.name}."
            )


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


def _limit(ceiling: int | None) -> int:
    return 100_000 if ceiling is None else ceiling
