"""What the flows of a node are given, and what they remember between their labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from coterie.engine.flow import Work
from coterie.engine.intent_life import Uncalled
from coterie.engine.stored import OMIT_NONE, as_key, in_place
from coterie.plan.spec import NodeSpec


@dataclass(frozen=True, slots=True)
class NodeToMake:
    """The node as it shall be. `server_group`: an intent. `director`: the Director's name, for the VM's metadata."""

    director: str
    deployment: str
    instance_group: str
    index: int
    spec: NodeSpec = field(metadata=as_key("wish", NodeSpec))
    addresses: Mapping[str, str]
    server_group: str | None
    reason: str

    @property
    def name(self) -> str:
        return f"{self.instance_group}/{self.index}"


@dataclass(frozen=True, slots=True)
class CreateNode:
    """No undo: a node that fails half-way keeps what was made for a person to look at, and the next plan says what
    becomes of it; nothing of it is unknown to the ledger."""

    node: NodeToMake = field(metadata=in_place(NodeToMake))
    again: bool = False  # after a task that failed or was cancelled: what that one created late goes first


@dataclass(frozen=True, slots=True)
class RecreateNode:
    """Removes the old VM (its disk is kept), then makes a new one. No undo: the old VM cannot come back.

    `leaves_disk`: the intent of a disk that the node leaves behind in another az."""

    node: NodeToMake = field(metadata=in_place(NodeToMake))
    leaves_disk: str | None = field(default=None, metadata=OMIT_NONE)


@dataclass(frozen=True, slots=True)
class StopNode:
    """Removes the VM, and keeps the node with its disk and its addresses. `node`: as it is made when it is started.
    Undone by a start."""

    node: NodeToMake = field(metadata=in_place(NodeToMake))
    leaves_disk: str | None = field(default=None, metadata=OMIT_NONE)


@dataclass(frozen=True, slots=True)
class RestartNode:
    """Reboots the VM of a node and waits until it is up. No undo."""

    node: NodeToMake = field(metadata=in_place(NodeToMake))


@dataclass(frozen=True, slots=True)
class AttachDisk:
    """Attaches the disk that the ledger has given to a running node. `replaced`: the CID of the one that it had before,
    which is kept. Undone by another one."""

    node: NodeToMake = field(metadata=in_place(NodeToMake))
    replaced: str | None


@dataclass(frozen=True, slots=True)
class UpdateNode:
    """Changes a node in place: its server group, its disk, its tags, its health check. Undone by another update."""

    node: NodeToMake = field(metadata=in_place(NodeToMake))
    regrouped: bool
    disk_changes: bool


@dataclass(frozen=True, slots=True)
class ReclaimNode:
    """A VM that was created after its step had failed becomes the node's VM. `finding`: of the cleanup that found it.

    No undo: a node that is up is what the manifest asks for.
    """

    node: NodeToMake = field(metadata=in_place(NodeToMake))
    finding: int
    disk_changes: bool = False  # read by release 0.1.0


@dataclass(frozen=True, slots=True)
class DeleteNode:
    """Removes the VM, then keeps or deletes the disks, then forgets the node. No undo."""

    reason: str
    delete_disks: bool


@dataclass(slots=True)
class NodeProgress:
    leaves: Mapping[str, str] = field(default_factory=dict)  # addresses to free with the VM that has them
    vm: str | None = None  # intent
    agent_id: str | None = None
    cid: str | None = field(default=None, metadata=OMIT_NONE)  # of the VM
    disk: str | None = field(default=None, metadata=OMIT_NONE)  # intent
    uncalled: Uncalled | None = field(default=None, metadata=as_key("clear", Uncalled))
    tries: int = 0  # VMs that came up broken
    up_by: float | None = field(default=None, metadata=OMIT_NONE)  # the database's time


class MakesNode(Protocol):
    """Parameters of every flow that leaves a running node behind."""

    @property
    def node(self) -> NodeToMake: ...


NodeWork = Work[MakesNode, NodeProgress]
