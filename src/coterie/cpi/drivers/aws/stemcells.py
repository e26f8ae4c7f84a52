"""Stemcells: the blocks of a disk are written into a snapshot by the EBS direct APIs, and the snapshot is registered as
an image; no bucket, no role for imports and no helper instance. A light one is an image that is there already, or a
copy of one."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

from coterie.cpi.contract import CpiError, InvalidCall, Json, Mark, StemcellNotFound
from coterie.cpi.drivers.aws import ec2
from coterie.cpi.drivers.aws.client import Client, Refusal, look_before_failing
from coterie.cpi.kit.create_once import wait_or_remove
from coterie.cpi.kit.marking import mark_tags
from coterie.cpi.kit.stemcell_files import open_disk
from coterie.slotted import dataclass

LIGHT = " light"  # the end of the CID of an image that is not ours
_BLOCK = 512 * 1024
_GIB = 2**30
_UPLOADS = 8
_SNAPSHOT_S = 60.0  # for how long a snapshot may be in use after its image was deregistered
_OWN = (
    *("ami", "architecture", "boot_mode", "ena_support", "root_device_name", "virtualization_type", "encrypted"),
    "kms_key_arn",
)
_IGNORED = (
    *("name", "version", "infrastructure", "hypervisor", "disk", "disk_format", "container_format", "os_type"),
    *("os_distro", "os", "kernel_id", "image_format", "stemcell_formats"),
)


@dataclass(frozen=True, slots=True)
class Stemcells:
    client: Client

    def create(self, image_path: str, cloud_properties: Json, env: Json, mark: Mark) -> str:
        with look_before_failing(lambda: ec2.find(self.client, "image", mark) or self._snapshots_of(mark)):
            return self._create(image_path, cloud_properties, env, mark)

    def _create(self, image_path: str, cloud_properties: Json, env: Json, mark: Mark) -> str:
        properties = _read_properties(cloud_properties)
        if "ami" in properties:
            region, source = self._source(properties["ami"])
            if region == self.client.settings.region and not properties.get("encrypted"):
                return self._light(source) + LIGHT
            return self._use(self._copy(region, source, properties, env, mark))
        path = Path(image_path)
        if not path.is_file():
            raise CpiError(f"there is no image {image_path}", remedy="give the path of the unpacked stemcell's image")
        known = ec2.find(self.client, "image", mark)
        if known:
            return self._use(str(known["ImageId"]))
        with open_disk(path) as disk:
            snapshot = self._upload(disk, mark)
        image = wait_or_remove(
            lambda: self._register(snapshot, properties, env, mark), lambda: self._delete_snapshot(snapshot)
        )
        return self._use(image)

    def delete(self, stemcell_cid: str) -> None:
        """A light one is only forgotten: the image was never ours."""
        if not stemcell_cid.endswith(LIGHT):
            self.delete_image(stemcell_cid)

    def delete_image(self, cid: str) -> None:
        """And its snapshots that bear its mark: a copied mark alone, as on a backup of one, makes none of them ours.
        Those of an image that is gone already are found by their mark, one by one."""
        row = ec2.look(self.client, "image", cid)
        if row is None:
            self.client.require_settled(cid)
            return
        self.client.delete(f"image {cid}", "deregister_image", ImageId=cid)
        self.client.forget_created(cid)
        mapped = {(one.get("Ebs") or {}).get("SnapshotId") for one in row.get("BlockDeviceMappings") or ()}
        for snapshot in self._snapshots_of(ec2.mark_of(row)):
            if snapshot in mapped:
                self._delete_snapshot(snapshot)

    def _source(self, given: object) -> tuple[str, str]:
        """`ami`: the id of an image here, or ids by region; one of another region is copied into ours."""
        own = self.client.settings.region
        images = {own: given} if isinstance(given, str) else dict(given) if isinstance(given, Mapping) else {}
        known = {str(region): one for region, one in images.items() if isinstance(one, str) and one}
        region = own if own in known else min(known, default=None)
        if region is None:
            raise InvalidCall("cloud_properties.ami names no image", remedy=f"write ami: {{{own}: ami-…}}")
        return region, known[region]

    def _light(self, image: str) -> str:
        if ec2.look(self.client, "image", image) is None:
            where = self.client.settings.region
            raise StemcellNotFound(f"there is no image {image} in {where}", remedy="name one that this account sees")
        return image

    def _copy(self, region: str, source: str, properties: Json, env: Json, mark: Mark) -> str:
        """The token makes it once; the copy and its snapshots bear the mark."""
        key = properties.get("kms_key_arn") or self.client.settings.kms_key_arn
        body: Json = {
            "Name": mark.name(),
            "SourceRegion": region,
            "SourceImageId": source,
            "ClientToken": mark.intent,
            "TagSpecifications": [
                *ec2.marked("image", mark, **ec2.user_tags(env.get("tags") or {})),
                *ec2.marked("snapshot", mark),
            ],
            **({"Encrypted": True} if properties.get("encrypted") else {}),
            **({"KmsKeyId": key} if properties.get("encrypted") and key else {}),
        }
        return str(self.client.change(f"copy image {source}", "copy_image", **body)["ImageId"])

    def _upload(self, disk: IO[bytes], mark: Mark) -> str:
        """Zero blocks are left out. A repeat under the mark goes on with the snapshot that was begun: the same blocks
        are written again."""
        size = disk.seek(0, 2)
        answer = self.client.change(
            "start a snapshot",
            "start_snapshot",
            "ebs",
            VolumeSize=max(1, -(-size // _GIB)),
            ClientToken=mark.intent,
            Description=mark.name(),
            Tags=ec2.tag_list({"Name": mark.name(), **mark_tags(mark)}),
        )
        cid = str(answer["SnapshotId"])
        if answer.get("Status") != "completed":
            wait_or_remove(lambda: self._fill(cid, disk), lambda: self._delete_snapshot(cid))
        return cid

    def _fill(self, cid: str, disk: IO[bytes]) -> None:
        with ThreadPoolExecutor(_UPLOADS) as pool:
            written = 0
            for batch in _batches(disk):
                list(pool.map(lambda one: self._put(cid, *one), batch))
                written += len(batch)
        self.client.change(
            "complete a snapshot", "complete_snapshot", "ebs", SnapshotId=cid, ChangedBlocksCount=written
        )
        if not ec2.becomes_ready(self.client, "snapshot", cid, ("completed",)):
            raise CpiError(f"snapshot {cid} was deleted meanwhile", remedy="upload it again", retryable=True)

    def _put(self, cid: str, index: int, block: bytes) -> None:
        """Idempotent, so it is repeated like a question."""
        self.client.ask(
            "write a block",
            "put_snapshot_block",
            "ebs",
            SnapshotId=cid,
            BlockIndex=index,
            BlockData=block,
            DataLength=len(block),
            Checksum=base64.b64encode(hashlib.sha256(block).digest()).decode(),
            ChecksumAlgorithm="SHA256",
        )

    def _register(self, snapshot: str, properties: Json, env: Json, mark: Mark) -> str:
        """The name makes it once: it is unique in an account and region."""
        device = str(properties.get("root_device_name") or "/dev/xvda")
        body: Json = {
            "Name": mark.name(),
            "Architecture": str(properties.get("architecture") or "x86_64"),
            "RootDeviceName": device,
            "VirtualizationType": str(properties.get("virtualization_type") or "hvm"),
            "EnaSupport": bool(properties.get("ena_support", True)),
            "BlockDeviceMappings": [{"DeviceName": device, "Ebs": {"SnapshotId": snapshot, "VolumeType": "gp3"}}],
            "TagSpecifications": ec2.marked("image", mark, **ec2.user_tags(env.get("tags") or {})),
            **({"BootMode": str(properties["boot_mode"])} if properties.get("boot_mode") else {}),
        }
        try:
            return str(self.client.change("register an image", "register_image", **body)["ImageId"])
        except Refusal as error:
            if not error.is_one("InvalidAMIName.Duplicate"):
                raise
        row = ec2.wait_until_visible(self.client, f"image {mark.name()}", lambda: ec2.find(self.client, "image", mark))
        return str(row["ImageId"])

    def _use(self, cid: str) -> str:
        ec2.wait_for_new(self.client, "image", cid, ("available",), self.delete_image)
        return cid

    def _snapshots_of(self, mark: Mark | None) -> list[str]:
        rows = ec2.list_marked(self.client, "snapshot", mark) if mark else ()
        return [str(row["SnapshotId"]) for row in rows]

    def _delete_snapshot(self, cid: str) -> None:
        """For a while after its image was deregistered, AWS takes it for used."""
        self.client.delete_when_free(
            f"snapshot {cid}", "delete_snapshot", "InvalidSnapshot.InUse", _SNAPSHOT_S, SnapshotId=cid
        )


def _batches(disk: IO[bytes]) -> Iterator[list[tuple[int, bytes]]]:
    disk.seek(0)
    batch: list[tuple[int, bytes]] = []
    index, zero = 0, bytes(_BLOCK)
    while block := disk.read(_BLOCK):
        block = block.ljust(_BLOCK, b"\0")
        if block != zero:
            batch.append((index, block))
        if len(batch) == _UPLOADS:
            yield batch
            batch = []
        index += 1
    if batch:
        yield batch


def _read_properties(properties: Json) -> Json:
    for key in properties:
        if key not in (*_OWN, *_IGNORED):
            raise InvalidCall(f"cloud_properties.{key} is not known", remedy=f"use some of: {', '.join(_OWN)}")
    return {key: value for key, value in properties.items() if key in _OWN and value is not None}
