"""What a foreign CPI program cannot do, why, and where that is written."""

from __future__ import annotations

from coterie.cpi.contract import Reason

_METHODS = "cloudfoundry/bosh, src/bosh-director/lib/clouds/external_cpi.rb, and https://bosh.io/docs/cpi-api-v2/"
_GROUPS = "cloudfoundry/bosh-notes, proposals/cpi-resource-uniqueness.md (proposed, never built)"
_CLEANUP = "cloudfoundry/bosh-notes, proposals/cpi-cleanup.md (proposed, never built)"
_NO_GROUPS = (
    "BOSH's CPI contract has no call for server groups; such a program makes them inside create_vm, or not at all"
)

UNSUPPORTED = {
    "find": Reason("BOSH's CPI contract has no call that looks for an object by anything but its CID", _METHODS),
    "vm_owner": Reason("BOSH's CPI contract has no call that reads what is written on a VM", _METHODS),
    "survey": Reason("BOSH's CPI contract has no call that lists objects", _CLEANUP),
    "delete_object": Reason("without a list and a mark nothing can be compared before it is deleted", _CLEANUP),
    "create_server_group": Reason(_NO_GROUPS, _GROUPS),
    "update_server_group": Reason(_NO_GROUPS, _GROUPS),
    "delete_server_group": Reason(_NO_GROUPS, _GROUPS),
    "inspect_server_group": Reason(_NO_GROUPS, _GROUPS),
    "configure_networks": Reason("version 1 only; no BOSH Director sends it any more", _METHODS),
}


def lacking(cloud: str) -> Reason:
    """For a method that the operator says the program does not have."""
    return Reason("this program does not have it", f"property `lacks` of cloud {cloud!r}")
