"""Lists of objects that cannot be created here: always empty; clients that list everything call them."""

from __future__ import annotations

from collections.abc import Iterator

from coterie.sandbox.fronts.cloudstack.call import Call
from coterie.sandbox.fronts.cloudstack.command_table import answers
from coterie.sandbox.fronts.cloudstack.listing import Row


@answers("listPortForwardingRules")
@answers("listIpForwardingRules")
@answers("listFirewallRules")
@answers("listEgressFirewallRules")
@answers("listLoadBalancerRules")
@answers("listInstanceGroups")
@answers("listVMSnapshot")
@answers("listProjects")
@answers("listVPCs")
def nothing(call: Call) -> Iterator[Row]:
    return iter(())
