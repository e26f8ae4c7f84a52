"""Subnets that Coterie makes, and elastic addresses that operators own: these are associated, never allocated."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from coterie.cpi.contract import CpiError, InvalidCall, Json, Mark, NetworkCreated, NetworkNotFound, OutcomeUnknown
from coterie.cpi.drivers.aws import ec2
from coterie.cpi.drivers.aws.client import Client, Refusal, Row
from coterie.cpi.drivers.aws.properties import NETWORK
from coterie.cpi.kit.create_once import Created, Hold, SingleWriter, create_if_absent
from coterie.slotted import dataclass

_RESERVED = 4  # the first addresses of a subnet, and the last, are AWS's own


def require_subnet(client: Client, cid: str) -> Row:
    row = ec2.look(client, "network", cid)
    if row is None:
        raise NetworkNotFound(f"there is no subnet {cid}", remedy="name a subnet of this region")
    return row


def vpc_of(client: Client) -> str:
    """That of `default_subnet`, else the account's default one."""
    if client.settings.default_subnet:
        return str(require_subnet(client, client.settings.default_subnet)["VpcId"])
    rows = ec2.list_rows(client, "vpc", is_default="true")
    if rows:
        return str(rows[0]["VpcId"])
    raise CpiError("which VPC is meant is not known", remedy="set properties.default_subnet")


def require_address(client: Client, ip: str) -> Row:
    found = ec2.look(client, "address", ip)
    if found is None:
        raise CpiError(f"there is no elastic address {ip}", remedy="allocate it in this account and region first")
    return found


def associate_address(client: Client, ip: str, row: Row) -> None:
    """With the first interface. One that another instance has is not taken away from it."""
    found = require_address(client, ip)
    if found.get("InstanceId") == row["InstanceId"]:
        return
    nic = min(row["NetworkInterfaces"], key=lambda one: one["Attachment"]["DeviceIndex"])
    try:
        client.change(
            f"associate {ip}",
            "associate_address",
            AllocationId=found["AllocationId"],
            NetworkInterfaceId=nic["NetworkInterfaceId"],
            AllowReassociation=False,
        )
    except OutcomeUnknown:
        if require_address(client, ip).get("InstanceId") != row["InstanceId"]:
            raise


def require_leaving(client: Client, subnets: Sequence[str], ips: Sequence[str]) -> None:
    """Raise where one of these addresses is held by what will not go by itself."""
    held_by = {"subnet_id": subnets, "addresses.private-ip-address": ips}
    for nic in ec2.list_rows(client, "interface", **held_by):
        instance = (nic.get("Attachment") or {}).get("InstanceId")
        row = ec2.look(client, "vm", str(instance)) if instance else None
        if row is None or not ec2.is_gone(row):
            held = sorted({str(one["PrivateIpAddress"]) for one in nic["PrivateIpAddresses"]} & set(ips))
            raise InvalidCall(
                f"address {', '.join(held)} is held by {instance or nic['NetworkInterfaceId']}",
                remedy="use another address, or delete what holds it",
            )


@dataclass(frozen=True, slots=True)
class Subnets:
    client: Client
    writer: SingleWriter[Refusal]

    def create(self, subnet: Json, mark: Mark) -> NetworkCreated:
        """AWS takes no token: one writer looks for the mark, and creates."""
        given = NETWORK.read(subnet.get("cloud_properties") or {}, "cloud_properties")
        try:
            first = ipaddress.ip_network(str(subnet.get("range")), strict=False).network_address
        except ValueError:
            remedy = "AWS chooses none: write it like 10.9.0.0/24"
            raise InvalidCall(f"range is {subnet.get('range')!r}", remedy=remedy) from None
        body = {
            "VpcId": given.get("vpc") or vpc_of(self.client),
            "CidrBlock": str(subnet["range"]),
            "AvailabilityZone": given.get("availability_zone") or self.client.settings.default_availability_zone,
        }
        body = {key: value for key, value in body.items() if value}
        made = self.writer.submit("network", mark.intent, {"kind": "network", "mark": mark.wire(), "body": body})
        reserved = [str(first + number) for number in range(1, _RESERVED)]
        addresses = {"range": subnet["range"], "gateway": subnet.get("gateway") or reserved[0], "reserved": reserved}
        return NetworkCreated(made.cid, addresses, {"subnet": made.cid})

    def create_once(self, change: Json, hold: Hold) -> Created:
        mark, body = Mark.of_wire(change["mark"]), change["body"]

        def create() -> str:
            answer = self.client.change(
                "create a subnet", "create_subnet", **body, TagSpecifications=ec2.marked("subnet", mark)
            )
            return str(answer["Subnet"]["SubnetId"])

        return create_if_absent(lambda: self._list_marked(mark), create, self.delete, hold)

    def delete(self, cid: str) -> None:
        self.client.delete(f"subnet {cid}", "delete_subnet", SubnetId=cid)

    def _list_marked(self, mark: Mark) -> list[str]:
        return [str(row["SubnetId"]) for row in ec2.list_marked(self.client, "network", mark)]
