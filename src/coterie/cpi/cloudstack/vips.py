"""Public addresses mapped one to one to VMs. One that is not the account's yet is taken, and given back by us only
if we took it."""

from __future__ import annotations

from coterie.cpi.cloudstack.api import Row
from coterie.cpi.cloudstack.lookups import Lookups
from coterie.cpi.cloudstack.marking import DIRECTOR, tags_of
from coterie.cpi.cloudstack.nics import Wish
from coterie.cpi.cloudstack.refusals import CONFLICT, Refusal
from coterie.cpi.contract import CpiError, Mark

_KIND = "PublicIpAddress"


class Vips(Lookups):
    def map(self, wish: Wish, vm: Row, mark: Mark) -> None:
        """The address leads to the VM when this returns."""
        network = str(vm["nic"][0]["networkid"])
        row = self.public_ip(str(wish.ip)) or self._taken(str(wish.ip), network, mark)
        if row.get("virtualmachineid") == vm["id"]:
            return
        try:
            self.api.call("enableStaticNat", ipaddressid=row["id"], virtualmachineid=vm["id"], networkid=network)
        except Refusal as error:
            if error.code != CONFLICT:
                raise
            raise CpiError(
                f"networks.{wish.label}.ip {wish.ip} leads to another VM",
                why=error.text,
                remedy="delete that VM, or use another address",
            ) from error

    def unmap(self, vm: Row) -> None:
        """No public address leads to this VM any more."""
        for row in list(self.api.every("listPublicIpAddresses", isstaticnat=True)):
            if row.get("virtualmachineid") != vm["id"]:
                continue
            self.api.run("disableStaticNat", ipaddressid=row["id"])
            if tags_of(row).get(DIRECTOR) == self.runtime.director_uuid:
                self.api.run("disassociateIpAddress", id=row["id"])

    def public_ip(self, ip: str) -> Row | None:
        rows, _ = self.api.page("listPublicIpAddresses", 1, ipaddress=ip)
        return rows[0] if rows else None

    def _taken(self, ip: str, network: str, mark: Mark) -> Row:
        result = self.api.run("associateIpAddress", ipaddress=ip, networkid=network)
        row: Row = result["ipaddress"]
        self.tag(_KIND, row["id"], {**self.mark_tags(mark), "coterie-intent": mark.intent})
        return row
