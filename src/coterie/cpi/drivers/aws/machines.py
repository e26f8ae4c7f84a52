"""Instances that are there: read, deleted, rebooted, described; and the id of the one that this process runs in."""

from __future__ import annotations

from collections.abc import Mapping

from coterie.cpi.contract import CpiError, Json, NoPlacement, QuotaExceeded, VMCreationFailed
from coterie.cpi.drivers.aws import ec2
from coterie.cpi.drivers.aws.client import Client, Row, meaning
from coterie.cpi.kit.checks import vm_missing
from coterie.cpi.kit.metadata_service import read_metadata
from coterie.cpi.kit.sizes import Size, instance_type_for
from coterie.slotted import dataclass, field

METADATA = "http://169.254.169.254/latest"
_NO_ID = "InvalidInstanceID.Malformed"  # of what cannot be an instance


@dataclass(frozen=True, slots=True)
class Machines:
    client: Client
    nvme: dict[str, bool] = field(default_factory=dict)  # instance type → whether its volumes are NVMe devices

    def exists(self, cid: str) -> bool:
        return ec2.read(self.client, "vm", cid) is not None

    def require(self, cid: str) -> Row:
        row = ec2.read(self.client, "vm", cid)
        if row is None:
            raise vm_missing(cid)
        return row

    def delete(self, cid: str) -> None:
        """Persistent volumes are detached by the termination; the instance's own volumes and interfaces go with it.
        One that no list shows yet, which another process may have created just now, can be terminated all the same."""
        row = ec2.look(self.client, "vm", cid)
        if row is None or not ec2.is_gone(row):
            was_there = self.client.delete(f"instance {cid}", "terminate_instances", _NO_ID, InstanceIds=[cid])
            if row is None and not was_there:
                self.client.require_settled(cid)
                return
        self.client.waits.until(f"the termination of {cid}", lambda: self._is_terminated(cid))
        self.client.forget_created(cid)

    def wait_until_running(self, cid: str) -> Row:
        """Right after its creation an instance may not be visible. Why one ended is told in AWS's own words."""

        def look_again() -> Row | None:
            row = ec2.look(self.client, "vm", cid)
            if row is not None and (ec2.is_gone(row) or row["State"]["Name"] in ("stopped", "stopping")):
                raise ended(row)
            return row if row is not None and row["State"]["Name"] == "running" else None

        return self.client.waits.until(f"instance {cid} running", look_again)

    def reboot(self, cid: str) -> None:
        row = self.require(cid)
        operation = "start_instances" if row["State"]["Name"] == "stopped" else "reboot_instances"
        self.client.change(f"reboot {cid}", operation, InstanceIds=[cid])

    def set_metadata(self, cid: str, metadata: Mapping[str, str]) -> None:
        tags = ec2.user_tags(metadata)
        self.require(cid)
        ec2.write_tags(self.client, cid, tags)

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
        rows = ec2.list_rows(self.client, "instance_type", current_generation="true")
        sizes = [
            Size(str(row["InstanceType"]), int(row["VCpuInfo"]["DefaultVCpus"]), int(row["MemoryInfo"]["SizeInMiB"]))
            for row in rows
            if not row.get("BareMetal")
        ]
        return instance_type_for(requirements, sizes, "instance type", self.client.settings.region)

    def current_id(self) -> str:
        ttl = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
        token = read_metadata(f"{METADATA}/api/token", method="PUT", headers=ttl).decode("ascii", "replace")
        asked = {"X-aws-ec2-metadata-token": token}
        return read_metadata(f"{METADATA}/meta-data/instance-id", headers=asked).decode("ascii", "replace")

    def _is_terminated(self, cid: str) -> bool | None:
        row = ec2.look(self.client, "vm", cid)
        return True if row is None or row["State"]["Name"] == "terminated" else None


def ended(row: Row) -> CpiError:
    """An instance that came to its end before it ran."""
    reason = row.get("StateReason") or {}
    code, text = str(reason.get("Code") or ""), str(reason.get("Message") or "")
    why = (
        f"{code}: {text}" if code and not text.startswith(code) else text or str(row.get("StateTransitionReason") or "")
    )
    what = f"instance {row['InstanceId']} was terminated while it was starting"
    kind, remedy = meaning(code.partition(".")[2])
    if kind in (NoPlacement, QuotaExceeded):
        return kind(what, why=why, remedy=remedy)
    is_encryption = code == "Client.InternalError"
    remedy = "check the rights to the KMS key of its volumes" if is_encryption else "see the reason; repeat"
    return VMCreationFailed(what, why=why or "AWS gives no reason", remedy=remedy, retryable=True)
