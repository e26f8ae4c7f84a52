"""The driver of the shelf: each contract method is one or two calls of the cloud, and the kit does the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from coterie.cpi import contract
from coterie.cpi.contract import (
    Capabilities,
    CheckItem,
    CloudObject,
    Cpi,
    CpiError,
    DiskHint,
    Expected,
    Form,
    Forms,
    GroupMetadata,
    GroupView,
    Json,
    Kind,
    Mark,
    Needs,
    NetworkCreated,
    Networks,
    NotSupported,
    Reason,
    Runtime,
    SurveyPage,
    VmCreated,
)
from coterie.cpi.kit.call_limit import call_limit
from coterie.cpi.kit.calls import translate_errors
from coterie.cpi.kit.check_items import kind_items, policy_items
from coterie.cpi.kit.marking import DIRECTOR, INTENT, mark_tags, metadata_tags, read_mark_tags
from coterie.cpi.kit.objects import ObjectKind, ObjectTable, RowPage
from coterie.cpi.kit.profile import WITHOUT_CONFIGURE_NETWORKS, Profile, refuse_configure_networks
from coterie.cpi.kit.readers import size, text, whole
from coterie_shelf.cloud import Refused, Row, Shelf

_PAGE = "the shelf's cloud.py: it has no such call"
_LACKING = {
    **dict.fromkeys(("resize_disk", "update_disk"), Reason("disks of the shelf keep their size", _PAGE)),
    **dict.fromkeys(("snapshot_disk", "delete_snapshot"), Reason("the shelf has no snapshots", _PAGE)),
    **dict.fromkeys(("create_network", "delete_network"), Reason("the shelf has one network", _PAGE)),
    "current_vm_id": Reason("VMs of the shelf run no processes", _PAGE),
    **{
        f"{verb}_server_group": Reason("the shelf has no server groups", _PAGE)
        for verb in ("create", "update", "delete", "inspect")
    },
}
_ERRORS: dict[str, tuple[type[CpiError], str]] = {
    "no_vm": (contract.VMNotFound, "create it again"),
    "no_disk": (contract.DiskNotFound, "create it again"),
    "no_image": (contract.StemcellNotFound, "upload the stemcell again"),
    "no_host": (contract.NoPlacement, "ask for a smaller VM"),
    "address_taken": (contract.VMCreationFailed, "use another address"),
}


def translate(refused: Refused) -> CpiError:
    error, remedy = _ERRORS.get(refused.reason, (CpiError, "end its use first"))
    return error(f"the shelf refused: {refused}", why=refused.reason, remedy=remedy)


@translate_errors(Refused, translate)
class ShelfCpi(Cpi):
    forms: ClassVar[Forms] = {
        "cloud": Form({"state": text, "cpus": whole(1), "max_parallel_calls": whole(1)}),
        "vm": Form({"cpu": size, "ram_mb": size, "disk_mb": whole(0), "zone": text}),
        "disk": Form({}),
        "network": Form({}),
    }

    def __init__(self, cloud: str, properties: Mapping[str, Any], runtime: Runtime) -> None:
        super().__init__(cloud, properties, runtime)
        given = self.forms["cloud"].read(properties, "properties")
        state = Path(given.get("state") or (runtime.state_folder or Path()) / "shelf.json")
        parallel = given.get("max_parallel_calls", 8)
        self._limit = call_limit(cloud, parallel, runtime.director_uuid)
        self._cpus = given.get("cpus", 64)
        self._shelf = Shelf(state, self._cpus)
        kinds: tuple[Kind, ...] = ("image", "vm", "disk")
        self._objects = ObjectTable(runtime.director_uuid, {kind: self._kind(kind) for kind in kinds})
        self._profile = Profile(
            ["shelf"],
            Capabilities(
                driver="shelf",
                kinds=self._objects.markings,
                filtered=self._objects.filtered,
                zone_property="zone",
                settle_s=1.0,
                max_parallel_calls=parallel,
                unsupported={**WITHOUT_CONFIGURE_NETWORKS, **_LACKING},
            ),
        )

    def _kind(self, kind: Kind) -> ObjectKind[Row]:
        def search(mark: Mark) -> Iterable[Row]:
            return self._shelf.list(kind, INTENT, mark.intent)

        def page(director_uuid: str, cursor: str | None) -> RowPage[Row]:
            return RowPage(self._shelf.list(kind, DIRECTOR, director_uuid))

        def read(cid: str, director_uuid: str) -> Row | None:
            with suppress(Refused):
                return self._shelf.get(kind, cid)
            return None

        def describe(row: Row, director_uuid: str) -> CloudObject:
            return CloudObject(
                kind,
                row["id"],
                row["name"],
                created_at=row["created"],
                mark=read_mark_tags(row["tags"]),
                in_use_by=(row["vm"],) if row.get("vm") else (),
                az=row.get("zone"),
                state="running" if kind == "vm" else None,
                tags=row["tags"],
            )

        return ObjectKind(
            search, page, read, describe, lambda cid, _: self._delete(kind, cid), lambda row: row["tags"].get(DIRECTOR)
        )

    def _delete(self, kind: Kind, cid: str) -> None:
        """Gone already is fine."""
        try:
            with self._limit:
                self._shelf.delete(kind, cid)
        except Refused as refused:
            if refused.reason != f"no_{kind}":
                raise

    # -- what it is --

    def capabilities(self) -> Capabilities:
        return self._profile.capabilities

    def info(self) -> Json:
        return self._profile.info()

    def ping(self) -> str:
        return self._profile.ping()

    def check(self, needs: Needs | None = None) -> list[CheckItem]:
        needs = needs or Needs()
        return [
            CheckItem("credentials", True, "the shelf needs none"),
            *policy_items(needs, ()),
            *kind_items(needs, self._objects.markings),
        ]

    # -- images, machines, disks --

    def create_stemcell(self, image_path: str, cloud_properties: Json, env: Json | None = None, *, mark: Mark) -> str:
        if image_path and not Path(image_path).is_file():
            raise contract.InvalidCall(f"image_path {image_path!r} is no file", remedy="give the image file")
        with self._limit:
            return str(self._shelf.create("image", mark.intent, mark_tags(mark), name=mark.name())["id"])

    def delete_stemcell(self, stemcell_cid: str) -> None:
        self._delete("image", stemcell_cid)

    def create_vm(
        self,
        agent_id: str,
        stemcell_cid: str,
        cloud_properties: Json,
        networks: Networks,
        disk_cids: Sequence[str],
        env: Json,
        *,
        mark: Mark,
    ) -> VmCreated:
        if ((env or {}).get("bosh") or {}).get("server_group_cid"):
            self._refuse("create_server_group")
        spec = self.forms["vm"].read(cloud_properties, "cloud_properties")
        ips = [one["ip"] for one in networks.values() if one.get("type") == "manual"]
        with self._limit:
            row = self._shelf.create(
                "vm",
                mark.intent,
                mark_tags(mark),
                name=mark.name(),
                image=stemcell_cid,
                cpu=spec.get("cpu", 1),
                zone=spec.get("zone"),
                ips=ips,
            )
        return VmCreated(row["id"], {name: dict(one) for name, one in networks.items()})

    def delete_vm(self, vm_cid: str) -> None:
        self._delete("vm", vm_cid)

    def has_vm(self, vm_cid: str) -> bool:
        return self._objects.read("vm", vm_cid) is not None

    def vm_owner(self, vm_cid: str) -> str | None:
        return self._objects.vm_owner(vm_cid)

    def reboot_vm(self, vm_cid: str) -> None:
        self._shelf.get("vm", vm_cid)

    def set_vm_metadata(self, vm_cid: str, metadata: Mapping[str, str]) -> None:
        self._shelf.tag("vm", vm_cid, metadata_tags(metadata))

    def calculate_vm_cloud_properties(self, requirements: Mapping[str, int]) -> Json:
        if requirements["cpu"] > self._cpus:
            raise contract.NoPlacement(f"no host has {requirements['cpu']} cpus", remedy="ask for less")
        sizes = (requirements["cpu"], requirements["ram"], requirements["ephemeral_disk_size"])
        return dict(zip(("cpu", "ram_mb", "disk_mb"), sizes, strict=True))

    def create_disk(self, size_mb: int, cloud_properties: Json, vm_cid: str | None = None, *, mark: Mark) -> str:
        self.forms["disk"].read(cloud_properties, "cloud_properties")
        if size_mb < 1:
            raise contract.InvalidCall(f"size_mb is {size_mb}", remedy="give a size from 1 MB")
        with self._limit:
            made = self._shelf.create("disk", mark.intent, mark_tags(mark), name=mark.name(), size_mb=size_mb, vm=None)
        return str(made["id"])

    def delete_disk(self, disk_cid: str) -> None:
        self._delete("disk", disk_cid)

    def has_disk(self, disk_cid: str) -> bool:
        return self._objects.read("disk", disk_cid) is not None

    def attach_disk(self, vm_cid: str, disk_cid: str) -> DiskHint:
        with self._limit:
            self._shelf.attach(disk_cid, vm_cid)
        return {"volume_id": disk_cid}

    def detach_disk(self, vm_cid: str, disk_cid: str) -> None:
        with self._limit:
            self._shelf.detach(disk_cid, vm_cid)

    def get_disks(self, vm_cid: str) -> list[str]:
        return self._shelf.disks_of(vm_cid)

    def set_disk_metadata(self, disk_cid: str, metadata: Mapping[str, str]) -> None:
        self._shelf.tag("disk", disk_cid, metadata_tags(metadata))

    # -- what is there --

    def find(self, kind: Kind, mark: Mark) -> CloudObject | None:
        return self._objects.find(kind, mark)

    def survey(self, kind: Kind, director_uuid: str, cursor: str | None = None) -> SurveyPage:
        return self._objects.survey(kind, director_uuid, cursor)

    def delete_object(self, kind: Kind, cid: str, expected: Expected) -> None:
        self._objects.delete_object(kind, cid, expected)

    # -- what the shelf does not have --

    def resize_disk(self, disk_cid: str, new_size_mb: int) -> None:
        self._refuse("resize_disk")

    def update_disk(self, disk_cid: str, new_size_mb: int, cloud_properties: Json) -> str | None:
        self._refuse("update_disk")

    def snapshot_disk(self, disk_cid: str, metadata: Mapping[str, Any], *, mark: Mark) -> str:
        self._refuse("snapshot_disk")

    def delete_snapshot(self, snapshot_cid: str) -> None:
        self._refuse("delete_snapshot")

    def create_network(self, subnet: Json, *, mark: Mark) -> NetworkCreated:
        self._refuse("create_network")

    def delete_network(self, network_cid: str) -> None:
        self._refuse("delete_network")

    def current_vm_id(self) -> str:
        self._refuse("current_vm_id")

    def configure_networks(self, vm_cid: str, networks: Networks) -> None:
        refuse_configure_networks()

    def create_server_group(self, metadata: GroupMetadata, *, mark: Mark) -> str:
        self._refuse("create_server_group")

    def update_server_group(self, cid: str, metadata: GroupMetadata) -> None:
        self._refuse("update_server_group")

    def delete_server_group(self, cid: str) -> None:
        self._refuse("delete_server_group")

    def inspect_server_group(self, cid: str) -> GroupView:
        self._refuse("inspect_server_group")

    def _refuse(self, method: str) -> NoReturn:
        raise NotSupported(f"the shelf cannot {method}", why=_LACKING[method].why, remedy="use another cloud for this")
