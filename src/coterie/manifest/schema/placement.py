"""Where the nodes of an instance group may be, relative to each other."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from coterie.manifest.schema.part import Part
from coterie.manifest.schema.words import CloudName, Flag, Policy, Properties

Handle = Annotated[str, Field(min_length=1, max_length=80)]
DRIVERS_OWN = ("vm_group", "host_group", "rule", "affine")


class Placement(Part):
    """The server group that the nodes of an instance group join in the cloud."""

    policy: Policy = Field(
        "soft-anti-affinity",
        description="The promise about hosts. `anti-affinity`: never two nodes on one host; creating a node fails "
        "rather than breaking it. `soft-anti-affinity`: spread as far as hosts allow. `affinity`: all on one host. "
        "`soft-affinity`: together as far as possible. `host-affinity`: on the hosts that the administrator dedicated "
        "(vSphere: a DRS VM group). What the cloud cannot do is refused before anything is created.",
        examples=["anti-affinity"],
    )
    server_group: CloudName | None = Field(
        None,
        description="The name of the server group. Instance groups that give the same name share one group, and must "
        "agree on the other fields here and on security_groups. Default: the instance group's own name.",
        examples=["data"],
    )
    adopt: Flag = Field(
        False,
        description="Use the group of this name that an operator made. It is joined and left, never changed or "
        "deleted. Without it, a name that is taken is an error.",
        examples=[True],
    )
    recreate_on_policy_change: Flag = Field(
        True,
        description="What to do where a changed policy needs a new group in the cloud. `true`: make it and move the "
        "nodes there by recreating them, as `update` says. `false`: refuse the change. Where living VMs can change "
        "their group (vSphere) none is recreated, and this has no effect.",
        examples=[False],
    )
    vm_group: Handle | None = Field(
        None,
        description="vSphere: the name of the DRS VM group, used as it is; with `adopt`, the name or identifier of the "
        "administrator's group. Default: a name made of deployment, server group and identity.",
        examples=["licensed-vms"],
    )
    host_group: Handle | None = Field(
        None,
        description="vSphere: the administrator's DRS host group (name or identifier) that the nodes are tied to by a "
        "rule of ours. Default: no rule; the administrator may make one.",
        examples=["licensed-hosts"],
    )
    rule: Literal["must", "should"] | None = Field(
        None,
        description="How strict the rule about `host_group` is. `must`: a node starts nowhere else. `should`: DRS "
        "prefers it. Default: must.",
        examples=["should"],
    )
    affine: Flag | None = Field(
        None,
        description="`true`: the nodes run on the hosts of `host_group`; `false`: everywhere but there. Default: true.",
        examples=[False],
    )
    options: Properties = Field(
        default_factory=dict,
        description="Settings of the cloud's driver for this group, handed to it as they are.",
        examples=[{"host_group": "licensed-hosts"}],
    )

    def drivers_options(self) -> dict[str, Any]:
        """`options`, with the fields that are some driver's own among them."""
        own = {name: value for name in DRIVERS_OWN if (value := getattr(self, name)) is not None}
        return {**self.options, **own}
