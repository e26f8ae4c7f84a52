"""A number of like nodes, and all that they have in common."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from coterie.manifest.schema.addresses import AddressRange
from coterie.manifest.schema.health import Health
from coterie.manifest.schema.part import Part
from coterie.manifest.schema.placement import Placement
from coterie.manifest.schema.ssh import Ssh
from coterie.manifest.schema.update import Update
from coterie.manifest.schema.words import (
    CloudName,
    ConductorGroup,
    GroupOf,
    Mebibytes,
    Name,
    Properties,
    Some,
    TagKey,
    TagValue,
    Text,
    Whole,
)


class GroupNetwork(Part):
    """A network that each node of the group is attached to."""

    name: Name = Field(description="A network of the cloud config.", examples=["default"])
    static_ips: tuple[AddressRange, ...] = Field(
        (),
        description="Fixed addresses, as many as instances, in their order: single ones, ranges `a - b`, or blocks. "
        "In a manual network they must lie in a subnet's `static` ranges; the subnet decides the node's az.",
        examples=[["10.20.1.10", "10.20.1.20 - 10.20.1.21"]],
    )
    default: tuple[Literal["dns", "gateway"], ...] = Field(
        (),
        description="What this network provides for the node, where a node has several networks.",
        examples=[["dns", "gateway"]],
    )


class MigratedFrom(Part):
    """An instance group of an earlier manifest whose nodes become nodes of this one: they keep their disks, their
    addresses and, where they can, their indexes."""

    name: Name = Field(
        description="The instance group that the nodes are in now. It must not be in the manifest any more, unless it "
        "is this one and `az` is given.",
        examples=["kafka"],
    )
    az: Name | None = Field(
        None,
        description="Only its nodes in this az, and they may leave it: where the az is not among those of this group, "
        "they are recreated in another one of the same cloud, with empty disks; the old disks are kept.",
        examples=["z1"],
    )


class InstanceGroup(Part):
    """A number of like nodes: `broker/0`, `broker/1`, …"""

    name: Name = Field(
        description="The name of the group; its nodes are `name/0`, `name/1` and so on.", examples=["broker"]
    )
    instances: Whole = Field(ge=0, le=100_000, description="How many nodes.", examples=[3])
    azs: Annotated[tuple[Name, ...], Some] = Field(
        description="Availability zones of the cloud config, over which the nodes are spread evenly, in this order.",
        examples=[["z1", "z2"]],
    )
    vm_type: Name = Field(description="A vm type of the cloud config.", examples=["small"])
    stemcell: Name = Field(description="The alias of a stemcell of this manifest.", examples=["default"])
    persistent_disk: Mebibytes | None = Field(
        None,
        description="The size in MiB of a disk that outlives its VM; 0 or nothing means no disk. "
        "Give this or `persistent_disk_type`, not both.",
        examples=[10240],
    )
    persistent_disk_type: Name | None = Field(
        None, description="A disk type of the cloud config for the disk that outlives its VM.", examples=["large"]
    )
    disk_from: GroupOf | None = Field(
        None,
        description="Where new nodes get kept disks from, each the newest that the node of its own index in that "
        "instance group left: the name of this group or another one, or DEPLOYMENT/NAME. Nothing: new nodes begin "
        "with empty disks.",
        examples=["broker"],
    )
    migrated_from: tuple[MigratedFrom, ...] = Field(
        (), description="What this instance group was called before, or which azs its nodes leave."
    )
    networks: Annotated[tuple[GroupNetwork, ...], Some] = Field(
        description="The networks that each node is attached to."
    )
    env: Properties = Field(
        default_factory=dict, description="The environment handed to the VM's agent.", examples=[{"bosh": {"mbus": {}}}]
    )
    user_data: Annotated[Text, Field(max_length=65_536)] | None = Field(
        None,
        description="What the VM's first boot is given (cloud-init), as it is.",
        examples=["#cloud-config\npackages: [chrony]\n"],
    )
    tags: dict[TagKey, TagValue] = Field(
        default_factory=dict,
        description="Tags on the VMs and disks, added to those of the deployment.",
        examples=[{"role": "broker"}],
    )
    ssh: Ssh | None = Field(None, description="How to log in to these nodes; default: as the deployment says.")
    health: Health = Field(
        default_factory=Health, description="When a node counts as up; a canary must become up before others follow."
    )
    placement: Placement | None = Field(
        None, description="Where the nodes may be relative to each other: their server group in the cloud."
    )
    security_groups: tuple[CloudName, ...] = Field(
        (),
        description="Security groups of the nodes. They belong to the deployment: created with the rules under the "
        "manifest's `security_groups`, changed when these change, deleted when nothing uses them any more. A name that "
        "an operator or another deployment has is an error, unless it is adopted there.",
        examples=[["kafka"]],
    )
    conductor_group: ConductorGroup | None = Field(
        None,
        description="The conductor group that works on these nodes: one of those of their clouds. Nothing: that of "
        "each node's az, else that of its cloud.",
        examples=["rack-2"],
    )
    update: Update | None = Field(None, description="What this group does differently from the deployment's `update`.")
