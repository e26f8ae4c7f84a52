"""Volumes that come and go with a VM: its root disk where it boots from a volume, and an ephemeral disk. They bear the
VM's mark, and Nova deletes them with it."""

from __future__ import annotations

from coterie.cpi.contract import CpiError, InvalidCall, Json, Mark
from coterie.cpi.openstack.api import Row
from coterie.cpi.openstack.kinds import is_gone
from coterie.cpi.openstack.lookups import Lookups
from coterie.cpi.openstack.marking import ROLE, metadata
from coterie.cpi.openstack.order import Order, VolumeWish
from coterie.cpi.openstack.refusals import MISSING, Refusal

_BYTES_PER_GIB = 2**30


class OwnVolumes(Lookups):
    def block_devices(self, order: Order, image: Row, flavor: Row, mark: Mark) -> list[Json]:
        """Made and ready; empty where flavor and image are all that the VM needs."""
        root = self._root_wish(order, image, flavor)
        if root is None and order.ephemeral_disk is None:
            return []
        source = {"imageRef": image["id"]}
        first = (
            _device(self._volume("root", root, order, mark, source), 0)
            if root
            else {
                "uuid": image["id"],
                "source_type": "image",
                "destination_type": "local",
                "boot_index": 0,
                "delete_on_termination": True,
            }
        )
        more = (
            [_device(self._volume("ephemeral", order.ephemeral_disk, order, mark, {}), -1)]
            if order.ephemeral_disk
            else []
        )
        return [first, *more]

    def drop_volumes(self, mark: Mark) -> None:
        """What Nova left of them, or never got."""
        for row in self.marked("disk", mark):
            if (row.get("metadata") or {}).get(ROLE) and not is_gone(row):
                self.remove_volume(str(row["id"]))

    def remove_volume(self, wanted: str) -> None:
        """Gone when this returns."""
        try:
            self.api.send("DELETE", f"delete volume {wanted}", "block-storage", f"/volumes/{wanted}")
        except Refusal as error:
            if error.status == MISSING:
                return
            raise
        self.awaited(f"the deletion of volume {wanted}", lambda: True if self._removed(wanted) else None)

    def ready_volume(self, wanted: str, *states: str) -> Row:
        """The volume once it is in one of these states; one that failed is removed by whom made it."""

        def look() -> Row | None:
            row = self.row("disk", wanted)
            if row is None:
                raise CpiError(f"volume {wanted} is gone", why="somebody deleted it", remedy="repeat", retryable=True)
            if str(row["status"]).startswith("error"):
                raise CpiError(
                    f"Cinder could not make volume {wanted} ready",
                    why=f"its status is {row['status']}",
                    remedy="repeat; if it happens again, look at Cinder's log",
                    retryable=True,
                )
            return row if row["status"] in states else None

        return self.awaited(f"volume {wanted} being {' or '.join(states)}", look)

    def volume_zone(self, wanted: str | None) -> str | None:
        """Cinder has zones of its own; one that it does not know is left to its default."""
        name = wanted or self.settings.default_availability_zone
        return name if name in self.volume_zones() else None

    def _root_wish(self, order: Order, image: Row, flavor: Row) -> VolumeWish | None:
        wanted = self.settings.boot_from_volume if order.boot_from_volume is None else order.boot_from_volume
        if order.root_disk:
            return order.root_disk
        if not wanted:
            return None
        needed = max(int(image.get("min_disk") or 0), -(-int(image.get("virtual_size") or 0) // _BYTES_PER_GIB))
        size = max(int(flavor.get("disk") or 0), needed)
        if size < 1:
            raise InvalidCall("nobody says how large the root volume is", remedy="set cloud_properties.root_disk.size")
        return VolumeWish(size)

    def _volume(self, role: str, wish: VolumeWish | None, order: Order, mark: Mark, source: Json) -> str:
        assert wish
        for row in self.marked("disk", mark):
            if (row.get("metadata") or {}).get(ROLE) == role and not is_gone(row):
                return str(self.ready_volume(str(row["id"]), "available")["id"])
        body: Json = {
            "size": wish.size,
            "name": mark.name(role),
            "metadata": {**metadata(mark), ROLE: role},
            "volume_type": self.volume_type(wish.type),
            "availability_zone": self.volume_zone(order.availability_zone),
            **source,
        }
        made = self.made("disk", mark, body)
        return str(self.ready_volume(str(made["id"]), "available")["id"])

    def _removed(self, wanted: str) -> bool:
        row = self.row("disk", wanted)
        if row is not None and row["status"] == "error_deleting":
            raise CpiError(f"volume {wanted} cannot be deleted", why="error_deleting", remedy="repeat", retryable=True)
        return row is None


def _device(volume: str, index: int) -> Json:
    return {
        "uuid": volume,
        "source_type": "volume",
        "destination_type": "volume",
        "boot_index": index,
        "delete_on_termination": True,
    }
