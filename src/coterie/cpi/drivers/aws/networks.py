"""Subnets that Coterie makes, and elastic addresses that operators own: these are associated, never allocated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coterie.cpi.contract import CpiError, InvalidCall, Json, Mark, NetworkCreated
from coterie.cpi.drivers.aws.client import Client, Refusal, Row, filters
from coterie.cpi.drivers.aws.properties import NETWORK
from coterie.cpi.drivers.aws.security_groups import Ec2SecurityGroups
from coterie.cpi.drivers.aws.tags import marked, of_mark, with_mark
from coterie.cpi.kit.create_once import Created, Hold, SingleWriter, create_if_absent
from coterie.cpi.kit.waits import Waits

_RESERVED = 4  # the first addresses of a subnet, and the last, are AWS's own


@dataclass(frozen=True, slots=True)
class Addresses:
    client: Client

    def associate(self, ip: str, row: Row) -> None:
        """With the first interface. One that another instance has is not taken away from it."""
        rows = self.client.ask("find the address", "describe_addresses", Filters=filters(public_ip=ip))["Addresses"]
        found = next((one for one in rows if one.get("PublicIp") == ip), None)
        if found is None:
            raise CpiError(f"there is no elastic address {ip}", remedy="allocate it in this account and region first")
        if found.get("InstanceId") == row["InstanceId"]:
            return
        nic = min(row["NetworkInterfaces"], key=lambda one: one["Attachment"]["DeviceIndex"])
        self.client.change(
            f"associate {ip}",
            "associate_address",
            AllocationId=found["AllocationId"],
            NetworkInterfaceId=nic["NetworkInterfaceId"],
            AllowReassociation=False,
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
        if not subnet.get("range"):
            raise InvalidCall("range is missing", remedy="AWS chooses none: write it like 10.9.0.0/24")
        body = {
            "VpcId": given.get("vpc") or self.security_groups.vpc(),
            "CidrBlock": str(subnet["range"]),
            "AvailabilityZone": given.get("availability_zone") or self.client.settings.default_availability_zone,
        }
        body = {key: value for key, value in body.items() if value}
        made = self.writer.submit("network", mark.intent, {"kind": "network", "mark": mark.wire(), "body": body})
        base = str(subnet["range"]).partition("/")[0].rpartition(".")[0]
        reserved = [f"{base}.{last}" for last in range(1, _RESERVED)]
        addresses = {
            "range": subnet["range"],
            "gateway": subnet.get("gateway") or f"{base}.1",
            "reserved": reserved,
        }
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
