"""Public addresses mapped one to one to VMs. One that is not the account's yet is taken, and given back by us only
if we took it."""

from __future__ import annotations

from coterie.cpi.contract import CpiError, Mark
from coterie.cpi.drivers.cloudstack.api import Row
from coterie.cpi.drivers.cloudstack.lookups import Lookups
from coterie.cpi.drivers.cloudstack.marking import DIRECTOR, VIP, job_id, mark_of, tags_of
from coterie.cpi.drivers.cloudstack.nics import Wish
from coterie.cpi.drivers.cloudstack.refusals import CONFLICT, Refusal

_KIND = "PublicIpAddress"


class Vips(Lookups):
    def map(self, wish: Wish, vm: Row, mark: Mark) -> None:
        """The address leads to the VM when this returns."""
        network = str(vm["nic"][0]["networkid"])
        row = self.public_ip(str(wish.ip))
        if row is None or self._half_taken(row, mark):
            row = self._taken(str(wish.ip), network, mark)
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
        """No public address leads to this VM any more; those that we took for it are given back."""
        wished = tags_of(vm).get(VIP, "").split(",")
        mark = mark_of(vm, self.runtime.director_uuid)
        for row in list(self.api.every("listPublicIpAddresses")):
            mapped = row.get("virtualmachineid") == vm["id"]
            if mapped:
                self.api.run("disableStaticNat", ipaddressid=row["id"])
            elif row["ipaddress"] not in wished or row.get("virtualmachineid"):
                continue
            ours = tags_of(row).get(DIRECTOR) == self.runtime.director_uuid
            if ours or (mark and self._half_taken(row, mark)):
                self.api.run("disassociateIpAddress", id=row["id"])

    def public_ip(self, ip: str) -> Row | None:
        rows, _ = self.api.page("listPublicIpAddresses", 1, ipaddress=ip)
        return rows[0] if rows else None

    def _taken(self, ip: str, network: str, mark: Mark) -> Row:
        """Taken and tagged; whoever died between the two left a job that tells."""
        started, known = self.started_once(
            mark, "associateIpAddress", lambda _: self.public_ip(ip), ipaddress=ip, networkid=network
        )
        if started:
            known = self.api.wait("associateIpAddress", str(started["jobid"]))["ipaddress"]
        if known is None:
            raise CpiError(f"address {ip} was taken and is not there", remedy="repeat")
        self.tag(_KIND, str(known["id"]), {**self.mark_tags(mark), "coterie-intent": mark.intent})
        return known

    def _half_taken(self, row: Row, mark: Mark) -> bool:
        """Whether we took it under this mark, and died before it was tagged."""
        if DIRECTOR in tags_of(row):
            return False
        job = self.job(job_id(mark, "associateIpAddress", 0))
        return bool(job) and (job or {}).get("jobinstanceid") == row["id"]
