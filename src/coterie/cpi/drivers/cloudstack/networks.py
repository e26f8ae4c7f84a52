"""Networks that we create: isolated ones, one zone each; and public addresses mapped one to one to VMs."""

from __future__ import annotations

import ipaddress

from coterie.cpi.contract import Changed, CpiError, Form, InvalidCall, Json, Mark, NetworkCreated
from coterie.cpi.drivers.cloudstack.catalog import Catalog
from coterie.cpi.drivers.cloudstack.client import CONFLICT, INTERNAL, Client, Refusal, Row, read_tags
from coterie.cpi.drivers.cloudstack.marks import VIP, address_mark_of, mark_of, mark_tags
from coterie.cpi.kit.calls import translate
from coterie.cpi.kit.create_vm import NetworkRequest
from coterie.cpi.kit.marking import DIRECTOR
from coterie.cpi.kit.marking import mark_tags as whole_mark_tags
from coterie.cpi.kit.parts import Parts
from coterie.cpi.kit.readers import text
from coterie.slotted import dataclass

_SUBNET = Form({"zone": text, "network_offering": text})


@dataclass(frozen=True, slots=True)
class Networks:
    client: Client
    catalog: Catalog

    def create(self, subnet: Json, mark: Mark) -> NetworkCreated:
        """Creating a network is no job, so two calls under one mark may both do it: the first that is tagged counts."""
        properties = _SUBNET.read(subnet.get("cloud_properties") or {}, "cloud_properties")
        zone = self.catalog.zone(properties.get("zone"))
        found = self._find_tagged(mark)
        if found is None:
            created = self.client.call(
                "createNetwork",
                name=mark.name(),
                displaytext=mark.name(),
                zoneid=zone["id"],
                networkofferingid=self.catalog.network_offering(properties.get("network_offering"))["id"],
                **_read_range(subnet),
            )["network"]
            found = self._keep_one(created, mark)
        addresses = {"range": found["cidr"], "gateway": found["gateway"], "reserved": []}
        return NetworkCreated(str(found["id"]), addresses, {"id": str(found["id"])})

    def delete(self, cid: str) -> None:
        def read() -> Row | None:
            return self.client.read("listNetworks", cid)

        try:
            if read():
                self.client.remove("deleteNetwork", read, id=cid)
        except Refusal as error:
            raise self._explain(cid, error) from error

    def _explain(self, cid: str, error: Refusal) -> CpiError:
        """The commonest reason is a VM on it; users do not see one that is destroyed already."""
        rows = self.client.list_all("listVirtualMachines", networkid=cid)
        users = [f"{row['id']} ({row.get('state')})" for row in rows]
        if not users and error.errorcode != INTERNAL:
            return translate(error)
        return CpiError(
            f"network {cid} cannot be deleted",
            why=f"VMs on it: {', '.join(users[:5])}" if users else error.why,
            remedy="delete its VMs first; one that is destroyed leaves it when CloudStack expunges it",
            retryable=True,
        )

    def _find_tagged(self, mark: Mark) -> Row | None:
        for row in self.client.list_all("listNetworks", keyword=mark.name()):
            if row["name"] == mark.name() and read_tags(row).get(DIRECTOR) == mark.director:
                return row
        return None

    def _keep_one(self, created: Row, mark: Mark) -> Row:
        kept = self.client.tag_once(
            mark, "Network", str(created["id"]), mark_tags(mark), lambda: (self._find_tagged(mark) or {}).get("id")
        )
        if kept == created["id"]:
            return created
        self.client.run("deleteNetwork", id=created["id"])
        return self.client.read("listNetworks", kept) or created


def _read_range(subnet: Json) -> dict[str, str]:
    """Without a range, CloudStack gives the network the zone's own."""
    if not subnet.get("range"):
        return {}
    try:
        within = ipaddress.ip_network(str(subnet["range"]))
    except ValueError as error:
        raise InvalidCall(
            f"range {subnet['range']!r} is no network", remedy=f"write it like 10.1.0.0/24: {error}"
        ) from None
    return {"gateway": str(subnet.get("gateway") or within[1]), "netmask": str(within.netmask)}


@dataclass(frozen=True, slots=True)
class PublicAddresses:
    """An address that the account does not have yet is acquired, and given back only if we acquired it."""

    client: Client
    parts: Parts

    def map(self, request: NetworkRequest, vm: Row, mark: Mark) -> None:
        """The address leads to the VM when this returns."""
        network, ip = str(vm["nic"][0]["networkid"]), str(request.ip)
        row = self._find(ip)
        if row is None or self._is_half_acquired(row, mark):
            row = self._acquire(ip, network, mark)
        if row.get("virtualmachineid") == vm["id"]:
            return
        try:
            self.client.call("enableStaticNat", ipaddressid=row["id"], virtualmachineid=vm["id"], networkid=network)
        except Refusal as error:
            if error.errorcode != CONFLICT:
                raise
            raise CpiError(
                f"networks.{request.label}.ip {ip} leads to another VM",
                why=error.why,
                remedy="delete that VM, or use another address",
            ) from error

    def unmap(self, vm: Row) -> None:
        """No public address leads to this VM any more; those that we acquired for it are given back."""
        requested = read_tags(vm).get(VIP, "").split(",")
        mark = mark_of(vm, self.client.director_uuid)
        for row in list(self.client.list_all("listPublicIpAddresses")):
            if row.get("virtualmachineid") == vm["id"]:
                self.client.run("disableStaticNat", ipaddressid=row["id"])
            elif row["ipaddress"] not in requested or row.get("virtualmachineid"):
                continue
            if self._is_ours(row) or (mark and self._is_half_acquired(row, mark)):
                self.client.run("disassociateIpAddress", id=row["id"])

    def delete(self, cid: str, row: Row) -> None:
        """For the object table: give it back if no VM has it."""
        if row.get("virtualmachineid"):
            raise CpiError(
                f"address {row['ipaddress']} leads to VM {row['virtualmachineid']}", remedy="delete it first"
            )
        if not self._is_ours(row):
            raise Changed(
                f"address {row['ipaddress']} bears a copied mark",
                remedy="leave it: it was not acquired by this Director",
            )
        self.client.run("disassociateIpAddress", id=cid)

    def _find(self, ip: str) -> Row | None:
        rows, _ = self.client.page("listPublicIpAddresses", ipaddress=ip)
        return rows[0] if rows else None

    def _acquire(self, ip: str, network: str, mark: Mark) -> Row:
        return self.parts.create(
            mark, "ip", ip, lambda: self._acquire_and_tag(ip, network, mark), lambda row: str(row["id"])
        )

    def _acquire_and_tag(self, ip: str, network: str, mark: Mark) -> Row:
        """An interruption between the two leaves a job that shows whose it is."""
        row, is_own = self.client.start_once(
            mark, "associateIpAddress", lambda _: self._find(ip), ipaddress=ip, networkid=network
        )
        if is_own:
            row = self.client.wait("associateIpAddress", str(row["jobid"]))["ipaddress"]
        self.client.add_tags("PublicIpAddress", str(row["id"]), whole_mark_tags(mark))
        return row

    def _is_ours(self, row: Row) -> bool:
        held = address_mark_of(row, self.client.director_uuid)
        return held is not None and self.parts.is_ours(held, "ip", str(row["id"]), str(row["ipaddress"]))

    def _is_half_acquired(self, row: Row, mark: Mark) -> bool:
        """Whether it was acquired under this mark, and the call ended before it was tagged."""
        if DIRECTOR in read_tags(row):
            return False
        job = self.client.first_job(mark, "associateIpAddress")
        return job is not None and job.get("jobinstanceid") == row["id"]
