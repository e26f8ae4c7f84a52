"""Subnets that Coterie makes, and elastic addresses that operators own: these are associated, never allocated."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any

from coterie.cpi.contract import CpiError, InvalidCall, Json, Mark, NetworkCreated, OutcomeUnknown
from coterie.cpi.drivers.aws.client import Client, Refusal, Row, filters
from coterie.cpi.drivers.aws.machines import Machines
from coterie.cpi.drivers.aws.properties import NETWORK
from coterie.cpi.drivers.aws.security_groups import Ec2SecurityGroups
from coterie.cpi.drivers.aws.server_groups import GONE
from coterie.cpi.drivers.aws.tags import marked, of_mark, with_mark
from coterie.cpi.kit.create_once import Created, Hold, SingleWriter, create_if_absent
from coterie.cpi.kit.waits import Waits
from coterie.slotted import dataclass

_RESERVED = 4  # the first addresses of a subnet, and the last, are AWS's own


@dataclass(frozen=True, slots=True)
class Addresses:
    client: Client
    machines: Machines

    def require(self, ip: str) -> Row:
        rows = self.client.ask("find the address", "describe_addresses", Filters=filters(public_ip=ip))["Addresses"]
        found: Row | None = next((one for one in rows if one.get("PublicIp") == ip), None)
        if found is None:
            raise CpiError(f"there is no elastic address {ip}", remedy="allocate it in this account and region first")
        return found

    def associate(self, ip: str, row: Row) -> None:
        """With the first interface. One that another instance has is not taken away from it."""
        found = self.require(ip)
        if found.get("InstanceId") == row["InstanceId"]:
            return
        nic = min(row["NetworkInterfaces"], key=lambda one: one["Attachment"]["DeviceIndex"])
        try:
            self.client.change(
                f"associate {ip}",
                "associate_address",
                AllocationId=found["AllocationId"],
                NetworkInterfaceId=nic["NetworkInterfaceId"],
                AllowReassociation=False,
            )
        except OutcomeUnknown:
            if self.require(ip).get("InstanceId") != row["InstanceId"]:
                raise

    def require_leaving(self, subnets: Sequence[str], ips: Sequence[str]) -> None:
        """Raise where one of these addresses is held by what will not go by itself."""
        rows = self.client.list_all(
            "find who holds an address",
            "describe_network_interfaces",
            "NetworkInterfaces",
            Filters=filters(subnet_id=subnets, **{"addresses.private-ip-address": ips}),
        )
        for nic in rows:
            instance = (nic.get("Attachment") or {}).get("InstanceId")
            row = self.machines.read_any(str(instance)) if instance else None
            if row is None or row["State"]["Name"] not in GONE:
                held = sorted({str(one["PrivateIpAddress"]) for one in nic["PrivateIpAddresses"]} & set(ips))
                raise InvalidCall(
                    f"address {', '.join(held)} is held by {instance or nic['NetworkInterfaceId']}",
                    remedy="use another address, or delete what holds it",
                )


@dataclass(frozen=True, slots=True)
class Subnets:
    client: Client
    security_groups: Ec2SecurityGroups
    writer: SingleWriter[Refusal]
    waits: Waits

    def create(self, subnet: Json, mark: Mark) -> NetworkCreated:
        """AWS takes no token: one writer looks for the mark, and creates."""
        given = NETWORK.read(subnet.get("cloud_properties") or {}, "cloud_properties")
        try:
            first = ipaddress.ip_network(str(subnet.get("range")), strict=False).network_address
        except ValueError:
            remedy = "AWS chooses none: write it like 10.9.0.0/24"
            raise InvalidCall(f"range is {subnet.get('range')!r}", remedy=remedy) from None
        body = {
            "VpcId": given.get("vpc") or self.security_groups.vpc(),
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
                "create a subnet", "create_subnet", **body, TagSpecifications=marked("subnet", mark)
            )
            return str(answer["Subnet"]["SubnetId"])

        return create_if_absent(lambda: self.list_marked(mark), create, self.delete, hold)

    def list_marked(self, mark: Mark) -> list[str]:
        return [str(row["SubnetId"]) for row in with_mark(self.rows(of_mark(mark)), mark)]

    def rows(self, wanted: list[Mapping[str, Any]] | list[dict[str, Any]]) -> list[Row]:
        return list(self.client.list_all("list subnets", "describe_subnets", "Subnets", Filters=list(wanted)))

    def delete(self, cid: str) -> None:
        try:
            self.client.change(f"delete subnet {cid}", "delete_subnet", SubnetId=cid)
        except Refusal as error:
            if not error.is_missing:
                raise
