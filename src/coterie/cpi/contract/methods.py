"""The methods that every driver has. Their comments are the contract; the conformance kit checks it.

Rules for all of them: raise only errors of `contract.errors`; hold no lock; after a failure leave nothing half-made;
with one `mark`, a repeated create answers the first object and makes no second; "already gone" is success for deletes.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

from coterie.cpi.contract.capabilities import Capabilities
from coterie.cpi.contract.errors import NotSupported
from coterie.cpi.contract.forms import Forms
from coterie.cpi.contract.mark import Mark
from coterie.cpi.contract.parts import PartRecords, UnrecordedParts
from coterie.cpi.contract.types import (
    CheckItem,
    CloudObject,
    DiskHint,
    Expected,
    GroupMetadata,
    GroupView,
    Json,
    Kind,
    Needs,
    NetworkCreated,
    Networks,
    Proof,
    SurveyPage,
    Trial,
    VmCreated,
)
from coterie.slotted import dataclass, field


class Coordinator(Protocol):
    """Serialises changes to cloud objects that take one writer at a time; drivers never lock."""

    def submit(self, cpi: Cpi, domain: str, change: Json) -> Json:
        """The outcome that `apply` gave this change, once it is visible in the cloud or refused.

        Waiting changes of one domain go to `apply` together, those of other processes included. Each then says in
        `waited_s` how many seconds ago it was submitted, by the clock of what keeps it.
        """

    def hold(self, domain: str) -> None:
        """Called inside `apply` right before each write: returns with a whole lease ahead, or raises Unavailable if the
        domain has another writer by now. Then nothing is written; the other writer applies the same changes."""


def always_held() -> None:
    """For a process that works alone."""


def log_only(kind: str, body: str) -> None:
    """For a process that keeps no events."""
    import logging  # most calls of a program report nothing

    logging.getLogger(__name__).warning("%s: %s", kind, body)


EVERY_SOURCE = "*"


@dataclass(frozen=True, slots=True)
class Runtime:
    """What surrounds a driver: the Director that it works for, the coordinator of its single-writer domains, and a
    folder of this machine where it may keep state of its own (None: there is none).

    `require_lease` raises LeaseLost once this process may no longer change a cloud. To be called right before each
    request that changes something: earlier requests of the same call may have taken long, or the process was paused.
    `exec_paths`: the programs of this machine that a driver may run; properties of a cloud may name no others.
    `credential_sources`: the credentials of this machine that a driver may use: `environment`, `instance`,
    `profile:NAME`, full paths of files, or `EVERY_SOURCE`.
    `parts`: records of what the driver creates beside objects, in this cloud.
    `report`: tells operators what else happened in this cloud, as an event of this kind.
    """

    director_uuid: str
    coordinator: Coordinator
    state_folder: Path | None = None
    require_lease: Callable[[], None] = always_held
    exec_paths: Sequence[str] = ()
    credential_sources: Sequence[str] = ()
    parts: PartRecords = field(default_factory=UnrecordedParts)
    report: Callable[[str, str], None] = log_only


class Cpi(metaclass=ABCMeta):
    """One configured cloud. Constructed as `Driver(cloud_name, properties, runtime)`; construction calls nothing."""

    cloud: str
    forms: ClassVar[Forms] = {}
    """What users may write for this driver. What has no form is checked only when it is used."""

    def __init__(self, cloud: str, properties: Mapping[str, Any], runtime: Runtime) -> None:
        self.cloud = cloud
        self.properties = properties
        self.runtime = runtime

    # -- what it is --

    @abstractmethod
    def capabilities(self) -> Capabilities:
        """Static facts about this cloud as configured. Touches no cloud unless `unsupported` must be learnt."""

    @abstractmethod
    def info(self) -> Json:
        """`{"api_version": 3, "stemcell_formats": [...]}`; touches no cloud."""

    @abstractmethod
    def ping(self) -> str:
        """Any answer proves that the driver runs."""

    @abstractmethod
    def check(self, needs: Needs | None = None) -> list[CheckItem]:
        """Credentials, privileges, quotas, hosts, reachability; each finding with its remedy. Changes nothing."""

    def identity(self) -> str | None:
        """The account that everything of this cloud is in, by an id that the cloud itself gives and never gives to
        another: a project in a region, an account, a datacenter of a vCenter. None: the cloud does not tell. A renewed
        password does not change it.
        """
        return None

    # -- stemcells --

    @abstractmethod
    def create_stemcell(self, image_path: str, cloud_properties: Json, env: Json | None = None, *, mark: Mark) -> str:
        """Make an image of the local file (or, for a light stemcell, of what cloud_properties name); its cid."""

    @abstractmethod
    def delete_stemcell(self, stemcell_cid: str) -> None: ...

    # -- machines --

    @abstractmethod
    def create_vm(
        self,
        agent_id: str,
        stemcell_cid: str,
        cloud_properties: Json,
        networks: Networks,
        disk_cids: Sequence[str],
        env: Json,
        *,
        mark: Mark,
    ) -> VmCreated:
        """A powered-on VM; does not wait for its boot. Joins `env["bosh"]["server_group_cid"]` before power-on.
        `env["bosh"]["server_group_member"]`: its number in the group, which no other member in its az has and which it
        keeps when it is recreated; for drivers that choose failure domains. Callers that count no members omit it.

        A group that is gone → GroupMissing with the remedy. No host → NoPlacement that names hosts and reasons.
        On any certain failure the half-made VM is gone again.
        """

    @abstractmethod
    def delete_vm(self, vm_cid: str) -> None:
        """Leaves its group; persistent disks are detached, never deleted. Gone already → return, or VMNotFound."""

    @abstractmethod
    def has_vm(self, vm_cid: str) -> bool: ...

    @abstractmethod
    def vm_owner(self, vm_cid: str) -> str | None:
        """Whose mark this VM carries, read from the VM itself: the Director's uuid, or as much of it as the mark holds;
        None: it has no mark. Any trace of a mark counts, also one that `find` would not believe. Gone → VMNotFound."""

    @abstractmethod
    def reboot_vm(self, vm_cid: str) -> None: ...

    @abstractmethod
    def set_vm_metadata(self, vm_cid: str, metadata: Mapping[str, str]) -> None: ...

    @abstractmethod
    def calculate_vm_cloud_properties(self, requirements: Mapping[str, int]) -> Json:
        """Smallest cloud_properties for {"cpu", "ram" MiB, "ephemeral_disk_size" MB}; an error if nothing fits."""

    # -- disks --

    @abstractmethod
    def create_disk(self, size_mb: int, cloud_properties: Json, vm_cid: str | None = None, *, mark: Mark) -> str: ...

    @abstractmethod
    def delete_disk(self, disk_cid: str) -> None: ...

    @abstractmethod
    def has_disk(self, disk_cid: str) -> bool: ...

    @abstractmethod
    def attach_disk(self, vm_cid: str, disk_cid: str) -> DiskHint:
        """A non-empty hint. Attached to that VM already → the same hint again."""

    @abstractmethod
    def detach_disk(self, vm_cid: str, disk_cid: str) -> None: ...

    @abstractmethod
    def get_disks(self, vm_cid: str) -> list[str]:
        """Persistent disks only."""

    @abstractmethod
    def set_disk_metadata(self, disk_cid: str, metadata: Mapping[str, str]) -> None: ...

    @abstractmethod
    def resize_disk(self, disk_cid: str, new_size_mb: int) -> None:
        """The disk is detached. Shrinking → NotSupported."""

    @abstractmethod
    def update_disk(self, disk_cid: str, new_size_mb: int, cloud_properties: Json) -> str | None:
        """Change size or type in place; a new cid where the cloud had to replace it."""

    @abstractmethod
    def snapshot_disk(self, disk_cid: str, metadata: Mapping[str, Any], *, mark: Mark) -> str: ...

    @abstractmethod
    def delete_snapshot(self, snapshot_cid: str) -> None: ...

    # -- networks --

    @abstractmethod
    def create_network(self, subnet: Json, *, mark: Mark) -> NetworkCreated: ...

    @abstractmethod
    def delete_network(self, network_cid: str) -> None: ...

    # -- old BOSH methods --

    @abstractmethod
    def current_vm_id(self) -> str: ...

    @abstractmethod
    def configure_networks(self, vm_cid: str, networks: Networks) -> None:
        """v1 only; NotSupported everywhere."""

    # -- server groups --

    @abstractmethod
    def create_server_group(self, metadata: GroupMetadata, *, mark: Mark) -> str:
        """`mark.group_cid`, or `ext-…` for an adopted group. A repeat finds or completes the first."""

    @abstractmethod
    def update_server_group(self, cid: str, metadata: GroupMetadata) -> None:
        """Azs, security groups, and the options that `group_changes` declares; the CID never changes. Where living VMs
        can join (`moves_members`), what was removed of the group behind our back is made again."""

    @abstractmethod
    def delete_server_group(self, cid: str) -> None:
        """Gone already = fine; any member left → GroupInUse (`details.foreign_only`: all of them are others', and will
        not go by themselves), nothing changed; adopted → only forgotten."""

    @abstractmethod
    def inspect_server_group(self, cid: str) -> GroupView:
        """`policy`: what the cloud keeps now, as far as it tells; if it is not as asked, a plan makes another group."""

    def change_server_group(self, vm_cid: str, server_group_cid: str | None) -> None:
        """Move a living VM into this group, or (None) out of the one it is in; it is not restarted. Repeatable; where
        it fails the VM is still in its old group. Only drivers that declare `moves_members` have it."""
        raise NotSupported("VMs of this cloud keep their server group for life", remedy="recreate the VM")

    def grant(self, user: str, *, groups: bool) -> list[str]:
        """Give a user of the cloud the rights that this driver needs, those for server groups if `groups`; what was
        done, in words. Repeatable. Only drivers that declare `grants` have it."""
        raise NotSupported("this driver cannot grant rights", remedy="have the cloud's administrator do it")

    def proofs(self) -> Sequence[str]:
        """What a deep check tries in this cloud beyond what it tries in every cloud, in this order. Calls no cloud."""
        return ()

    def prove(self, what: str, trial: Trial) -> Proof:
        """Try one of `proofs` on what the check has made, and leave that as it was. Repeatable, also after a call that
        was killed."""
        raise NotSupported(f"this driver cannot prove {what!r}", remedy="look at its `proofs`")

    # -- what is there --

    @abstractmethod
    def find(self, kind: Kind, mark: Mark) -> CloudObject | None:
        """The object with exactly this mark, or None if the cloud shows none now."""

    @abstractmethod
    def survey(self, kind: Kind, director_uuid: str, cursor: str | None = None) -> SurveyPage:
        """One page of everything of `kind` that may be that Director's; the caller re-checks each mark."""

    @abstractmethod
    def delete_object(self, kind: Kind, cid: str, expected: Expected) -> None:
        """Re-read, compare with `expected` (differs → Changed, nothing done), then delete."""

    # -- single-writer domains --

    def apply(self, domain: str, changes: Sequence[Json]) -> list[Json]:
        """Called by the coordinator as the one writer of `domain`: make all changes visible, one outcome each.

        An outcome is `{"ok": true, ...}` or `{"ok": false, "error": facts}`. Drivers without such domains keep this.
        """
        raise NotImplementedError(f"{type(self).__name__} submits no changes, so it has no domain {domain!r}")
