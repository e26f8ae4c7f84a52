"""Networks of the clouds and the addresses that may be given out in them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from coterie.manifest.schema.addresses import Address, AddressBlock, AddressRange
from coterie.manifest.schema.part import Part
from coterie.manifest.schema.words import Name, Properties


class Subnet(Part):
    """A piece of a network, in some or all availability zones."""

    range: AddressBlock | None = Field(
        None,
        description="The addresses of the subnet, as a block; needed in a manual network.",
        examples=["10.20.1.0/24"],
    )
    gateway: Address | None = Field(None, description="The router of the subnet.", examples=["10.20.1.1"])
    dns: tuple[Address, ...] = Field((), description="Name servers, in order.", examples=[["10.20.0.2"]])
    reserved: tuple[AddressRange, ...] = Field(
        (), description="Addresses that Coterie never gives to a node.", examples=[["10.20.1.2 - 10.20.1.9"]]
    )
    static: tuple[AddressRange, ...] = Field(
        (),
        description="Addresses that a node gets only if its instance group asks for them in `static_ips`.",
        examples=[["10.20.1.10 - 10.20.1.50"]],
    )
    az: Name | None = Field(None, description="The one availability zone of the subnet.", examples=["z1"])
    azs: tuple[Name, ...] = Field(
        (),
        description="The availability zones of the subnet. With neither `az` nor `azs`: all of them.",
        examples=[["z1"]],
    )
    cloud_properties: Properties = Field(
        default_factory=dict,
        description="What the cloud's driver needs to know of the subnet.",
        examples=[{"name": "lab"}],
    )


class Network(Part):
    """A network that instance groups attach their nodes to."""

    name: Name = Field(description="The name by which instance groups mean it.", examples=["default"])
    type: Literal["manual", "dynamic", "vip"] = Field(
        "manual",
        description="`manual`: Coterie chooses addresses from the subnets' ranges. `dynamic`: the cloud chooses. "
        "`vip`: addresses such as floating IPs, given in `static_ips`.",
        examples=["manual"],
    )
    subnets: tuple[Subnet, ...] = Field((), description="The pieces of the network; a manual network needs one.")
    dns: tuple[Address, ...] = Field((), description="Name servers of a dynamic network.", examples=[["10.20.0.2"]])
    cloud_properties: Properties = Field(
        default_factory=dict,
        description="What the cloud's driver needs to know of a network without subnets.",
        examples=[{"name": "lab"}],
    )
