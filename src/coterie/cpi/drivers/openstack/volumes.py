"""Volumes: those that come and go with a VM, which Nova makes and deletes with it, so that they are never without
one; and what all volumes share, waiting for them."""

from __future__ import annotations

from coterie.cpi.contract import CpiError, InvalidCall, Json
from coterie.cpi.drivers.openstack.api import Row
from coterie.cpi.drivers.openstack.kinds import is_gone
from coterie.cpi.drivers.openstack.lookups import Lookups
from coterie.cpi.drivers.openstack.order import Order, VolumeWish
from coterie.cpi.drivers.openstack.refusals import MISSING, Refusal

_BYTES_PER_GIB = 2**30


class Volumes(Lookups):
    def block_devices(self, order: Order, image: Row, flavor: Row) -> list[Json]:
        """Its root disk where it boots from a volume, and an ephemeral disk; empty where flavor and image are all that
        the VM needs."""
        root, more = self._root_wish(order, image, flavor), order.ephemeral_disk
        if root is None and more is None:
            return []
        first = {"uuid": image["id"], "source_type": "image", "boot_index": 0, **self._destination(root)}
        return [first, *([{"source_type": "blank", "boot_index": -1, **self._destination(more)}] if more else ())]

    def passing_volumes(self, server: str) -> list[str]:
        """Those that go with this server."""
        rows = self.attachments(server)
        return [str(row["volumeId"]) for row in rows if row.get("delete_on_termination")]

    def attachments(self, server: str) -> list[Row]:
        answer = self.api.look(f"list disks of {server}", "compute", f"/servers/{server}/os-volume_attachments")
        rows: list[Row] = (answer or {}).get("volumeAttachments", [])
        return rows

    def remove_volume(self, wanted: str) -> None:
        """Gone when this returns."""
        try:
            self.api.send("DELETE", f"delete volume {wanted}", "block-storage", f"/volumes/{wanted}")
        except Refusal as error:
            row = self.row("disk", wanted)
            if error.status != MISSING and row and not is_gone(row):  # Nova may be deleting it already
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

    def second_disk(self, order: Order) -> bool:
        """Whether the VM is born with an ephemeral disk: a volume, or what its flavor brings."""
        return bool(order.ephemeral_disk or self.flavor(order.instance_type).get("OS-FLV-EXT-DATA:ephemeral"))

    def _root_wish(self, order: Order, image: Row, flavor: Row) -> VolumeWish | None:
        """Flavors without a disk of their own boot from volumes only."""
        wanted = self.settings.boot_from_volume if order.boot_from_volume is None else order.boot_from_volume
        if order.root_disk:
            return order.root_disk
        if not wanted and flavor.get("disk"):
            return None
        needed = max(int(image.get("min_disk") or 0), -(-int(image.get("virtual_size") or 0) // _BYTES_PER_GIB))
        size = max(int(flavor.get("disk") or 0), needed)
        if size < 1:
            raise InvalidCall("nobody says how large the root volume is", remedy="set cloud_properties.root_disk.size")
        return VolumeWish(size)

    def _destination(self, wish: VolumeWish | None) -> Json:
        """None: on the host itself."""
        if wish is None:
            return {"destination_type": "local", "delete_on_termination": True}
        kind = self.volume_type(wish.type)
        made = {"destination_type": "volume", "volume_size": wish.size, "delete_on_termination": True}
        return {**made, **({"volume_type": kind} if kind else {})}

    def _removed(self, wanted: str) -> bool:
        row = self.row("disk", wanted)
        if row is not None and row["status"] == "error_deleting":
            raise CpiError(f"volume {wanted} cannot be deleted", why="error_deleting", remedy="repeat", retryable=True)
        return row is None
