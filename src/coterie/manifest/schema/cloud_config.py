"""The cloud config: what an administrator offers to manifests."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from coterie.manifest.schema.network import Network
from coterie.manifest.schema.part import Part
from coterie.manifest.schema.words import CloudName, ConductorGroup, DiskSize, Name, Properties, Some

SEALED = "sealed"  # the one key of properties that only conductors can read


class Cloud(Part):
    """One IaaS endpoint and the driver for it."""

    name: Name = Field(description="The name of the cloud.", examples=["lab"])
    driver: Name = Field(
        description="The driver. Built in: `sandbox`, `exec`, `cloudstack`, `openstack`, `vsphere`, `aws`, `azure`, "
        "`gcp`, `incus`; an installed package may bring others.",
        examples=["sandbox"],
    )
    properties: Properties = Field(
        default_factory=dict,
        description="What the driver needs: endpoint, credentials and so on, as the driver documents. "
        "Kept sealed to the conductors of its groups; never logged.",
        examples=[{"account": "lab"}],
    )
    conductor_group: ConductorGroup = Field(
        "",
        description="The conductors that work on this cloud: those with the same group, ignoring case. "
        "Empty: those without a group. At most 255 letters, digits, `_`, `.`, `-`. What is of no single node (checks, "
        "server groups, images, looks, cleanups) is always done by this group.",
        examples=["site-a"],
    )
    other_conductor_groups: tuple[ConductorGroup, ...] = Field(
        (),
        description="Further conductor groups that azs, instance groups and single nodes of this cloud may have. The "
        "properties are sealed to each of them, too.",
        examples=[["rack-2", "rack-3"]],
    )
    shared_security_groups: tuple[CloudName, ...] = Field(
        (),
        description="Security groups of this cloud that deployments of every team may adopt. Deployments of no team "
        "may adopt any.",
        examples=[["monitoring"]],
    )

    @property
    def conductor_groups(self) -> tuple[str, ...]:
        """All groups that may work on it, its own first, as they are compared: in small letters."""
        return self.conductor_group.lower(), *(group.lower() for group in self.other_conductor_groups)


class Az(Part):
    """An availability zone: a place in a cloud."""

    name: Name = Field(description="The name by which manifests mean it.", examples=["z1"])
    cloud: Name = Field(description="The cloud that it is in.", examples=["lab"])
    cloud_properties: Properties = Field(
        default_factory=dict,
        description="What the driver needs to know to create VMs here; a vm type's own properties win over these.",
        examples=[{"zone": "z1"}],
    )
    conductor_group: ConductorGroup | None = Field(
        None,
        description="The conductor group that works on nodes in this az: one of those of its cloud. Nothing: the "
        "`conductor_group` of the cloud.",
        examples=["rack-2"],
    )


class VmType(Part):
    """A size of VM."""

    name: Name = Field(description="The name by which manifests mean it.", examples=["small"])
    cloud_properties: Properties = Field(
        default_factory=dict,
        description="What the driver needs to know: size, flavor, and so on.",
        examples=[{"cpu": 2, "ram_mb": 4096}],
    )


class DiskType(Part):
    """A kind of persistent disk."""

    name: Name = Field(description="The name by which manifests mean it.", examples=["large"])
    disk_size: DiskSize = Field(description="The size in MiB.", examples=[102400])
    cloud_properties: Properties = Field(
        default_factory=dict,
        description="What the driver needs to know: tier, encryption, and so on.",
        examples=[{"tier": "ssd"}],
    )


class CloudConfig(Part):
    """Clouds, the availability zones in them, and the types of VMs, disks and networks that manifests can name."""

    clouds: Annotated[tuple[Cloud, ...], Some] = Field(description="The configured IaaS endpoints.")
    azs: Annotated[tuple[Az, ...], Some] = Field(description="The availability zones.")
    vm_types: tuple[VmType, ...] = Field((), description="The sizes of VMs.")
    disk_types: tuple[DiskType, ...] = Field((), description="The kinds of persistent disks.")
    networks: tuple[Network, ...] = Field((), description="The networks.")
