"""Rules of ACLs that people changed: told, and mended so that the guest is reached as the manifest says."""

from __future__ import annotations

from typing import Any

import pytest
from peers.incus_bed import CLUSTER, IncusBed
from tests.cpi.drivers.incus.guest import facts, get
from tests.cpi.drivers.incus.test_incus_guests import machine

from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import SecurityGroup

GUESTS = CLUSTER.guests
HERE = f"{GUESTS}.0.0/16"
WEB = {"direction": "ingress", "protocol": "tcp", "ports": "80", "cidr": HERE}
OURS = {
    "action": "allow",
    "state": "enabled",
    "protocol": "tcp",
    "source": HERE,
    "destination_port": "80",
}


def shown(lab: Lab, group: str) -> list[Any]:
    (acl,) = [one for one in lab.cpi.inspect_server_group(group).resources if one.kind == "security_group"]
    assert acl.rules is not None
    return [one for one in acl.rules if one["direction"] == "ingress"]


@pytest.mark.parametrize(
    "entries",
    [
        [OURS, {**OURS, "action": "drop", "source": ""}],
        [{**OURS, "state": "disabled"}],
        [{**OURS, "source_port": "1-2"}],
        [{**OURS, "source": f"10.79.0.0/16,{GUESTS}.0.1-{GUESTS}.0.2", "destination_port": "81,82"}],
        [{**OURS, "destination": "10.79.0.0/16"}],
    ],
    ids=["drop", "disabled", "source port", "lists", "both ends"],
)
def test_a_persons_entry_is_told_and_exactly_it_goes(bed: IncusBed, lab: Lab, entries: list[dict[str, Any]]) -> None:
    lab.needs_security_groups()
    web = SecurityGroup("guest-web", (WEB,))
    group, ip = lab.group(security_groups=[web]), str(bed.address("z1"))
    machine(lab, ip, group=group)
    facts(ip)
    assert shown(lab, group) == [WEB]
    row = bed.operator.call("GET", "/1.0/network-acls/guest-web")
    bed.operator.call("PUT", "/1.0/network-acls/guest-web", {**row, "ingress": entries})
    with pytest.raises(OSError):
        get(ip, "/health", 1.0)
    assert shown(lab, group) != [WEB]
    lab.cpi.update_server_group(group, lab.metadata(security_groups=[web]))
    assert bed.operator.call("GET", "/1.0/network-acls/guest-web")["ingress"] == [OURS]
    assert shown(lab, group) == [WEB]
    facts(ip)


def test_an_entry_with_lists_that_says_what_rules_of_ours_say_stays(bed: IncusBed, lab: Lab) -> None:
    lab.needs_security_groups()
    web = SecurityGroup("guest-web", (WEB, {**WEB, "ports": "443"}))
    group = lab.group(security_groups=[web])
    row = bed.operator.call("GET", "/1.0/network-acls/guest-web")
    joined = [{**OURS, "destination_port": "80,443"}]
    bed.operator.call("PUT", "/1.0/network-acls/guest-web", {**row, "ingress": joined})
    lab.cpi.update_server_group(group, lab.metadata(security_groups=[web]))
    assert bed.operator.call("GET", "/1.0/network-acls/guest-web")["ingress"] == joined
