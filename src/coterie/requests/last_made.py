"""A node as it was up last: one spec, with the addresses, the az and the disk that belong to it. A change that failed
may have left others in the node's row."""

from __future__ import annotations

from dataclasses import replace

from coterie.errors import Refused
from coterie.ledger.rows.nodes import NodeRow
from coterie.ledger.rows.objects import ObjectRow
from coterie.plan.model import NodeChange, ServerGroupRef
from coterie.plan.spec import DiskSpec, NodeSpec


def as_made_last(node: NodeRow, server_group: str | None, disk: ObjectRow | None) -> NodeChange:
    """The node to make. `disk`: the one that it has."""
    if node.spec is None:
        raise Refused(
            f"node {node.name} was never finished, so that nothing says how it shall be made",
            why=f"it is {node.state}",
            remedy=f"deploy the manifest of {node.deployment}",
        )
    spec = NodeSpec.of_wire(node.spec)
    if spec.az != node.az:
        raise Refused(
            f"node {node.name} was made in az {spec.az} last, and its last change began to make it in {node.az}",
            why=f"that change was not finished: it is {node.state}",
            remedy=f"deploy the manifest of {node.deployment}, which says where it shall be",
        )
    now = node.addresses or {}
    addresses = {name: str(entry["ip"]) for name, entry in spec.networks.items() if entry.get("ip") is not None}
    return NodeChange(
        node.instance_group,
        node.index,
        _with_disk(spec, disk) if node.state != "stopped" else spec,  # the disk of a stopped one changes at its start
        addresses,
        ServerGroupRef(server_group) if server_group else None,
        node=node.uuid,
        gains={name: ip for name, ip in addresses.items() if now.get(name) != ip},
        leaves={name: ip for name, ip in now.items() if addresses.get(name) != ip},
    )


def tell_return(details: NodeChange) -> str:
    """What of a change that failed is taken back."""
    back = [f"address in {name} is {ip} again" for name, ip in details.gains.items()]
    return f"as it was made last: {', '.join(back)}" if back else ""


def _with_disk(spec: NodeSpec, disk: ObjectRow | None) -> NodeSpec:
    """The disk stays as it is: one that a change has grown or added cannot shrink, and is not taken away."""
    if disk is None or disk.state != "live":
        return spec
    return replace(spec, disk=DiskSpec(disk.size_mb, disk.properties or {}))
