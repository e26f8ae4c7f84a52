"""A bed on moto, a simulated EC2 that is not ours: unpatched, over HTTP. It lacks placement groups, client tokens and
much else."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from moto.server import ThreadedMotoServer

from coterie.cpi.conformance.bed import Inventory, TestBed
from coterie.cpi.contract import Cpi, Json, Networks, Reason, Runtime
from coterie.cpi.drivers.aws.driver import AwsCpi

ZONES = ("us-east-1a", "us-east-1b")
_NOT_MADE = Reason("there is none for this peer", "moto 5.2, which is used as it is")


@contextmanager
def served() -> Iterator[ThreadedMotoServer]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        yield server
    finally:
        server.stop()


class Alone:
    """The coordinator of a process that works alone."""

    def submit(self, cpi: Cpi, domain: str, change: Json) -> Json:
        return cpi.apply(domain, [change])[0]

    def hold(self, domain: str) -> None: ...


class MotoBed(TestBed):
    driver = "aws"
    azs = ZONES
    director_uuid = "8d8c4a1e-54c2-4f8e-9d53-1f0b6f2a7c10"
    parallel = 4
    _addresses = itertools.count(20)  # of all beds: it gives none a second time
    limits: Mapping[str, Reason] = dict.fromkeys(("operator", "faults", "expire", "hosts", "page_size"), _NOT_MADE)

    def __init__(self, server: ThreadedMotoServer) -> None:
        host, port = server.get_host_and_port()
        self.endpoint = f"http://{host}:{port}"
        rows = self.open().client.ask("list subnets", "describe_subnets")["Subnets"]
        self._subnets = {str(row["AvailabilityZone"]): row for row in rows}

    def open(self, director_uuid: str | None = None, **more: Any) -> AwsCpi:
        properties: dict[str, Any] = {
            "region": ZONES[0][:-1],
            "access_key_id": "a",
            "secret_access_key": "b",
            "endpoint": self.endpoint,
            "poll_s": 0.02,
            "settle_s": 0.1,
            "state_timeout": 20,
            "retries": 1,
            "default_availability_zone": ZONES[0],
            **more,
        }
        return AwsCpi("lab", properties, Runtime(director_uuid or self.director_uuid, Alone()))

    def image(self) -> tuple[str, Json]:
        """One of its own: of an image that is registered it makes a volume and a snapshot that never go."""
        return "", {"ami": "ami-12c6146b"}

    def vm_properties(self, az: str) -> Json:
        return {"instance_type": "t3.nano", "availability_zone": az}

    def az_properties(self, az: str) -> Json:
        return {"availability_zone": az}

    def disk_properties(self, az: str) -> Json:
        return {"availability_zone": az}

    def huge_vm_properties(self, az: str) -> Json:
        return {"instance_type": "u-24tb1.metal", "availability_zone": az}

    def address(self, az: str) -> str | None:
        base = str(self._subnets[az]["CidrBlock"]).rpartition(".")[0]
        return f"{base}.{next(self._addresses)}"

    def networks(self, az: str, address: str | None) -> Networks:
        subnet = {"subnet": self._subnets[az]["SubnetId"]}
        return {"default": {"type": "manual", "ip": address, "cloud_properties": subnet}}

    def subnet(self) -> Json:
        return {"type": "manual", "range": "172.31.240.0/24", "gateway": "172.31.240.1", "cloud_properties": {}}

    def inventory(self) -> Inventory:
        """As moto lists it, past the driver."""
        client, own = self.open().client, {"Owners": ["self"]}
        instances = [one for row in client.ask("", "describe_instances")["Reservations"] for one in row["Instances"]]
        found = {("vm", row["InstanceId"]) for row in instances if row["State"]["Name"] != "terminated"}
        for kind, operation, key, cid, more in (
            ("disk", "describe_volumes", "Volumes", "VolumeId", {}),
            ("snapshot", "describe_snapshots", "Snapshots", "SnapshotId", {"OwnerIds": ["self"]}),
            ("image", "describe_images", "Images", "ImageId", own),
            ("security_group", "describe_security_groups", "SecurityGroups", "GroupId", {}),
            ("network", "describe_subnets", "Subnets", "SubnetId", {}),
            ("port", "describe_network_interfaces", "NetworkInterfaces", "NetworkInterfaceId", {}),
        ):
            found |= {(kind, row[cid]) for row in client.ask("", operation, **more)[key]}
        return frozenset(found)
