"""The manifest: what the user wants to have running."""

from __future__ import annotations

from pydantic import Field

from coterie.manifest.schema.instance_group import InstanceGroup
from coterie.manifest.schema.part import Part
from coterie.manifest.schema.security import SecurityGroupSpec
from coterie.manifest.schema.ssh import Ssh
from coterie.manifest.schema.update import Update
from coterie.manifest.schema.words import CloudName, Flag, Name, TagKey, TagValue, Version


class Stemcell(Part):
    """An image that VMs boot from. Give either `name` or `os`."""

    alias: Name = Field(description="The name by which instance groups mean it.", examples=["default"])
    name: CloudName | None = Field(None, description="The name of the stemcell.", examples=["debian-12"])
    os: CloudName | None = Field(
        None,
        description="The operating system of the stemcell, where any stemcell with it will do.",
        examples=["debian-12"],
    )
    version: Version = Field(
        description="The version, in quotes, or `latest`: the newest that is there when the plan is made.",
        examples=["1.1"],
    )


class Features(Part):
    """Switches for the whole deployment."""

    enable_auto_anti_affinity: Flag | None = Field(
        None,
        description="Give every instance group without `placement` a server group of its own with the policy "
        "`soft-anti-affinity`. Default: the Director's setting.",
        examples=[True],
    )


class Deployment(Part):
    """A deployment: instance groups, the stemcells they boot from, and how changes are rolled out."""

    name: Name = Field(description="The name of the deployment.", examples=["kafka"])
    stemcells: tuple[Stemcell, ...] = Field(
        description="The images that VMs boot from.",
        examples=[[{"alias": "default", "name": "debian-12", "version": "1.1"}]],
    )
    instance_groups: tuple[InstanceGroup, ...] = Field(
        description="The groups of nodes, in the order of their updates."
    )
    security_groups: tuple[SecurityGroupSpec, ...] = Field(
        (), description="Rules of the deployment's security groups, and those of others that it adopts."
    )
    update: Update = Field(default_factory=Update, description="How changes are rolled out.")
    features: Features = Field(default_factory=Features, description="Switches for the whole deployment.")
    resurrection: Flag = Field(
        False, description="Whether a node whose VM died or vanished is recreated automatically.", examples=[True]
    )
    ssh: Ssh = Field(default_factory=Ssh, description="How to log in to the nodes.")
    tags: dict[TagKey, TagValue] = Field(
        default_factory=dict,
        description="Tags on every VM and disk of the deployment.",
        examples=[{"team": "streaming"}],
    )
