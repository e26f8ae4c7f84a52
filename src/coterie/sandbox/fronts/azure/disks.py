"""Disks, snapshots and images."""

from __future__ import annotations

import math
import time
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING

from coterie.sandbox import disks, images, snapshots
from coterie.sandbox.errors import NoSuch
from coterie.sandbox.fronts.azure.call import LOCATION, Call, Handler
from coterie.sandbox.fronts.azure.groups import Groups
from coterie.sandbox.fronts.azure.network import shout
from coterie.sandbox.fronts.azure.operations import moment
from coterie.sandbox.fronts.azure.refusals import ApiError, bad_reference, not_found
from coterie.sandbox.fronts.azure.shelf import Body, Resource, own
from coterie.sandbox.fronts.http_server import Reply

if TYPE_CHECKING:
    from coterie.sandbox.fronts.azure.front import Front

DISK = "Microsoft.Compute/disks"
SNAPSHOT = "Microsoft.Compute/snapshots"
IMAGE = "Microsoft.Compute/images"


class Disks:
    def __init__(self, front: Front, groups: Groups) -> None:
        self._front = front
        self._account = front.account
        self._groups = groups

    def handlers(self) -> dict[str, Handler]:
        return {
            "PUT disks": self.put_disk,
            "PATCH disks": self.patch_disk,
            "DELETE disks": self.delete_disk,
            "POST disks/beginGetAccess": self.grant_access,
            "POST disks/endGetAccess": self.revoke_access,
            "PUT snapshots": self.put_snapshot,
            "DELETE snapshots": self.delete_snapshot,
            "PUT images": self.put_image,
            "DELETE images": self.delete_image,
        }

    def show(self, one: Resource) -> Body:
        shown = one.show()
        properties = shown["properties"]
        if one.type == IMAGE:
            properties.setdefault("hyperVGeneration", "V1")
            return shown
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
        return shown

    def put_disk(self, call: Call) -> Reply:
        old, given = self._front.shelf.get(call.path), call.body["properties"]
        option, size = given["creationData"]["createOption"], given.get("diskSizeGB")
        if option == "Upload":
            size = math.ceil(int(given["creationData"].get("uploadSizeBytes") or 0) / 2**30)
        if not size or size < 1:
            raise ApiError(400, "InvalidParameter", "Required parameter 'diskSizeGB' is missing (null).")
        if any(zone not in self._groups.zones() for zone in call.body.get("zones") or []):
            raise ApiError(400, "InvalidAvailabilityZone", f"The zone(s) are not supported in {LOCATION}.")
        if old:
            if old.properties["creationData"] != given["creationData"]:
                raise ApiError(409, "PropertyChangeNotAllowed", "Changing property 'creationData' is not allowed.")
            old.body["tags"] = dict(call.body.get("tags") or {})
            old.revision += 1
            self._front.shelf.put(old)
            return self._passing_disk(call, old)
        zone = next((self._groups.zones()[one] for one in call.body.get("zones") or []), None)
        tags = call.body.get("tags") or {}
        inner = disks.create_disk(
            self._account, name=call.name, size_mb=size * 1024, type=_sku_name(call.body), zone=zone, tags=tags
        ).id
        made = Resource(call.path, DISK, call.name, own(call.body), time.time(), "Updating", inner)
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
        made = Resource(call.path, SNAPSHOT, call.name, own(call.body), time.time(), "Updating", inner)
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
        made = Resource(call.path, IMAGE, call.name, own(call.body), time.time(), "Creating", inner)
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

    def _disk(self, call: Call) -> Resource:
        found = self._front.shelf.get(call.path.rsplit("/", 1)[0])
        if found is None:
            raise not_found(DISK, call.names["diskName"], call.group)
        return found


def _begun(shown: Body) -> Body:
    """The answer of the beginning has little of what comes."""
    kept = {"creationData", "diskSizeGB", "provisioningState", "incremental"}
    return {**shown, "properties": {key: one for key, one in shown["properties"].items() if key in kept}}


def _sku_name(body: Body) -> str:
    return str((body.get("sku") or {}).get("name") or "Standard_LRS")
