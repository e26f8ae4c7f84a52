"""Instances that are there: read, deleted, rebooted, described; and the id of the one that this process runs in."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Mapping

from coterie.cpi.contract import CpiError, Json, NoPlacement, QuotaExceeded, VMCreationFailed
from coterie.cpi.drivers.aws.client import Client, Refusal, Row, filters
from coterie.cpi.drivers.aws.server_groups import GONE
from coterie.cpi.drivers.aws.tags import tag_list, user_tags
from coterie.cpi.kit.checks import vm_missing
from coterie.cpi.kit.metadata_service import not_inside
from coterie.cpi.kit.sizes import Size, instance_type_for
from coterie.cpi.kit.waits import Waits
from coterie.slotted import dataclass, field

METADATA = "http://169.254.169.254/latest"
_TIMEOUT_S = 3.0
_TYPES_IN_A_PAGE = 100


@dataclass(frozen=True, slots=True)
class Machines:
    client: Client
    waits: Waits
    nvme: dict[str, bool] = field(default_factory=dict)  # instance type → whether its volumes are NVMe devices

    def read(self, cid: str) -> Row | None:
        """By a filter: an id that is not there is then no error. One that is on its way out is not there."""
        found = self.read_any(cid)
        return None if found is None or found["State"]["Name"] in GONE else found

    def read_any(self, cid: str) -> Row | None:
        found = self.client.ask("read an instance", "describe_instances", Filters=filters(instance_id=cid))
        rows = [row for one in found.get("Reservations") or () for row in one.get("Instances") or ()]
        return next((row for row in rows if row["InstanceId"] == cid), None)

    def exists(self, cid: str) -> bool:
        found = self.read_any(cid)
        if found is None:
            self.client.require_settled(cid)
        return found is not None and found["State"]["Name"] not in GONE

    def require(self, cid: str) -> Row:
        row = self.read(cid)
        if row is None:
            self.client.require_settled(cid)
            raise vm_missing(cid)
        return row

    def delete(self, cid: str) -> None:
        """Persistent volumes are detached by the termination; the instance's own volumes and interfaces go with it.
        One that no list shows yet, which another process may have created just now, can be terminated all the same."""
        found = self.read_any(cid)
        if found is None or found["State"]["Name"] not in GONE:
            try:
                self.client.change(f"terminate {cid}", "terminate_instances", InstanceIds=[cid])
            except Refusal as error:
                if not error.is_missing and not error.is_one("InvalidInstanceID.Malformed"):
                    raise
                if found is None:
                    self.client.require_settled(cid)
                    return
        self.wait_until_terminated(cid)
        self.client.forget_created(cid)

    def wait_until_terminated(self, cid: str) -> None:
        def look() -> bool | None:
            row = self.read_any(cid)
            return True if row is None or row["State"]["Name"] == "terminated" else None

        self.waits.until(f"the termination of {cid}", look)

    def wait_until_running(self, cid: str) -> Row:
        """Right after its creation an instance may not be visible. Why one ended is told in AWS's own words."""

        def look() -> Row | None:
            row = self.read_any(cid)
            if row is not None and row["State"]["Name"] in (*GONE, "stopped", "stopping"):
                raise ended(row)
            return row if row is not None and row["State"]["Name"] == "running" else None

        return self.waits.until(f"instance {cid} running", look)

    def reboot(self, cid: str) -> None:
        row = self.require(cid)
        operation = "start_instances" if row["State"]["Name"] == "stopped" else "reboot_instances"
        self.client.change(f"reboot {cid}", operation, InstanceIds=[cid])

    def set_metadata(self, cid: str, metadata: Mapping[str, str]) -> None:
        tags = user_tags(metadata)
        self.require(cid)
        if tags:
            self.client.change(f"describe {cid}", "create_tags", Resources=[cid], Tags=tag_list(tags))

    def list_disks(self, cid: str) -> list[str]:
        """Persistent ones: those that stay when the instance goes."""
        mapped = self.require(cid).get("BlockDeviceMappings") or ()
        return [str(one["Ebs"]["VolumeId"]) for one in mapped if not one["Ebs"].get("DeleteOnTermination")]

    def shows_nvme(self, instance_type: str) -> bool:
        if instance_type not in self.nvme:
            rows = self.client.ask("read a type", "describe_instance_types", InstanceTypes=[instance_type])
            info = (rows["InstanceTypes"] or [{}])[0].get("EbsInfo") or {}
            self.nvme[instance_type] = info.get("NvmeSupport") == "required"
        return self.nvme[instance_type]

    def smallest_fit(self, requirements: Mapping[str, int]) -> Json:
        rows = self.client.list_all(
            "list instance types",
            "describe_instance_types",
            "InstanceTypes",
            most=_TYPES_IN_A_PAGE,
            Filters=filters(current_generation="true"),
        )
        sizes = [
            Size(str(row["InstanceType"]), int(row["VCpuInfo"]["DefaultVCpus"]), int(row["MemoryInfo"]["SizeInMiB"]))
            for row in rows
            if not row.get("BareMetal")
        ]
        return instance_type_for(requirements, sizes, "instance type", self.client.settings.region)

    def current_id(self, url: str = METADATA) -> str:
        token = _read(f"{url}/api/token", "PUT", {"X-aws-ec2-metadata-token-ttl-seconds": "60"})
        return _read(f"{url}/meta-data/instance-id", "GET", {"X-aws-ec2-metadata-token": token})


def ended(row: Row) -> CpiError:
    """An instance that came to its end before it ran."""
    reason = row.get("StateReason") or {}
    code, text = str(reason.get("Code") or ""), str(reason.get("Message") or "")
    why = (
        f"{code}: {text}" if code and not text.startswith(code) else text or str(row.get("StateTransitionReason") or "")
    )
    what = f"instance {row['InstanceId']} was terminated while it was starting"
    makers: Mapping[str, Callable[..., CpiError]] = {
        "Server.InsufficientInstanceCapacity": NoPlacement,
        "Client.VolumeLimitExceeded": QuotaExceeded,
    }
    remedies = {
        "Server.InsufficientInstanceCapacity": "use another availability zone or instance type, or try later",
        "Client.VolumeLimitExceeded": "delete volumes, or have AWS raise the quota",
        "Client.InternalError": "check the rights to the KMS key of its volumes",
    }
    remedy = remedies.get(code, "see the reason; repeat once it is mended")
    if code in makers:
        return makers[code](what, why=why, remedy=remedy)
    return VMCreationFailed(what, why=why or "AWS gives no reason", remedy=remedy, retryable=True)


def _read(url: str, method: str, headers: Mapping[str, str]) -> str:
    request = urllib.request.Request(url, method=method, headers=dict(headers))  # noqa: S310 # the address is fixed
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310
            return str(answer.read(4096).decode())
    except (OSError, ValueError) as error:
        raise not_inside(url, error) from error
