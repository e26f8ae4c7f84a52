"""A bed on the sandbox's EC2: the AWS driver through botocore, over HTTP, to the front."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coterie.cpi.conformance.bed import Inventory
from coterie.cpi.contract import EVERY_SOURCE, Cpi, Json, Networks, Reason, Runtime
from coterie.cpi.drivers.aws.driver import AwsCpi
from coterie.engine.coordinator import LedgerCoordinator
from coterie.engine.part_records import LedgerPartRecords
from coterie.sandbox.accounts import open_account
from coterie.sandbox.datacenter import Account, open_datacenter
from coterie.sandbox.fronts.aws.front import Front
from coterie.sandbox.fronts.aws.server import Server
from coterie.sandbox.layout import SIZES
from peers.foreign import SmallBed
from peers.sandbox_bed import _ledger, list_account
from peers.sandbox_operator import SandboxFaults, SandboxOperator

FRIEND = {"UserId": "210987654321"}


class AwsOperator(SandboxOperator):
    def __init__(self, front: Front, account: Account) -> None:
        super().__init__(account, single_writer=False)
        self._front = front

    def share(self, image_cid: str) -> bool:
        return self._permit(image_cid, "Add")

    def unshare(self, image_cid: str) -> None:
        self._permit(image_cid, "Remove")

    def _permit(self, image_cid: str, what: str) -> bool:
        self._front.run("ModifyImageAttribute", {"ImageId": image_cid, "LaunchPermission": {what: [FRIEND]}})
        return True


class AwsBed(SmallBed):
    driver = "aws"
    page_size = 50
    hosts = SIZES["racks"] * SIZES["hosts_per_rack"]
    limits: Mapping[str, Reason] = {
        "expire": Reason("every call is signed by itself", "AWS Signature Version 4, IAM User Guide")
    }

    def __init__(self, folder: Path, layout: Json | None = None) -> None:
        super().__init__(folder)
        self.datacenter = open_datacenter(folder / "sandbox.db", layout)
        self._server = Server(open_account(self.datacenter, "kit"))
        self._server.start()
        self.front = self._server.front
        self.account = open_account(self.datacenter, "kit", operator=True)
        self._coordinator = LedgerCoordinator(_ledger(), "kit")
        self.operator = AwsOperator(self.front, self.account)
        self.faults = SandboxFaults(self.datacenter.store, "create_server_group")

    def properties(self) -> dict[str, Any]:
        return {
            "region": "eu-central-1",
            "access_key_id": "AKIATEST",
            "secret_access_key": "secret",
            "endpoint": self._server.endpoint,
            "default_availability_zone": "z1",
            "partition_count": SIZES["racks"],
            "page_size": self.page_size,
            "poll_s": 0.01,
            "settle_s": 2,
            "state_timeout": 20,
            **self.more,
        }

    def open(self, director_uuid: str | None = None) -> Cpi:
        parts = LedgerPartRecords(_ledger, "lab")
        director = director_uuid or self.director_uuid
        runtime = Runtime(director, self._coordinator, parts=parts, credential_sources=(EVERY_SOURCE,))
        return AwsCpi("lab", self.properties(), runtime)

    def az_properties(self, az: str) -> Json:
        return {"availability_zone": az}

    def vm_properties(self, az: str) -> Json:
        return {"instance_type": "t3.nano", "availability_zone": az}

    def huge_vm_properties(self, az: str) -> Json:
        return {"instance_type": "u-24tb1.metal", "availability_zone": az}

    def networks(self, az: str, address: str | None) -> Networks:
        return {"default": {"type": "manual", "ip": address, "cloud_properties": {"subnet": f"subnet-{az}"}}}

    def disk_properties(self, az: str) -> Json:
        return {"availability_zone": az}

    def inventory(self) -> Inventory:
        """The snapshot of an image is part of it."""
        return list_account(self.account) | {("snapshot", cid) for cid in self.front.loose_uploads()}

    def close(self) -> None:
        self._server.close()
