"""Host-affinity by dedicated host groups, which are adopted, joined, left, and never made or deleted."""

from __future__ import annotations

from peers.azure_bed import GROUP, SUBSCRIPTION, AzureBed, Witness

from coterie.cpi.conformance.expect import expect_error
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import InvalidCall

PATH = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers/Microsoft.Compute/hostGroups/dear"
POLICIES = ["anti-affinity", "soft-anti-affinity", "host-affinity"]


def test_a_host_group_is_adopted_joined_and_left(bed: AzureBed, lab: Lab) -> None:
    bed.more["policies"] = POLICIES
    body = {"location": "westeurope", "properties": {"platformFaultDomainCount": 1, "supportAutomaticPlacement": True}}
    Witness(bed.peer).ask("PUT", PATH, body)
    cpi = bed.open()
    expect_error(InvalidCall, lambda: cpi.create_server_group(lab.metadata("host-affinity"), mark=lab.mark()))
    adopted = lab.metadata("host-affinity", options={"name": "dear", "adopt": True})
    cid = cpi.create_server_group(adopted, mark=lab.mark())
    vm = cpi.create_vm(**lab.vm_arguments(None, cid)).cid
    view = cpi.inspect_server_group(cid)
    assert (view.policy, [one.vm_cid for one in view.members]) == ("host-affinity", [vm])
    cpi.delete_vm(vm)
    cpi.delete_server_group(cid)
    assert Witness(bed.peer).ask("GET", PATH)["name"] == "dear"
