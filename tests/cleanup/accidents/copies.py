"""Accidents: objects of people that look like ours, because a mark, a name or a description was copied."""

from __future__ import annotations

import pytest

from coterie.cpi.contract import Mark
from coterie.errors import CoterieError
from coterie.ids import Ids, director_prefix
from tests.cleanup.accidents.ground import OTHER_DIRECTOR, Ground
from tests.cleanup.accidents.listing import accident
from tests.requests.site import group, manifest

KEPT = "It is kept: *was it copied?*"
NAMED = "placement: {policy: anti-affinity, server_group: data"


@accident(1, "A VM of a person has a name like ours and no mark", "It is not touched.")
def vm_with_a_name_like_ours(g: Ground) -> None:
    g.leave()
    g.stranger(f"cot-{director_prefix(g.director)}-of-a-person")
    g.clean()
    assert g.left() == {}


@accident(2, "Objects of another Director are in the same account", "They are not touched.")
def objects_of_another_director(g: Ground) -> None:
    g.leave()
    mark = Mark(OTHER_DIRECTOR, Ids().intent())
    theirs = g.forge("disk", mark), g.forge("vm", mark)
    plan = g.clean()
    assert [g.reason(plan, cid) for cid in theirs] == [None, None], "not even listed"
    assert g.left() == {}


@accident(3, "A VM is cloned with the mark of a living VM", KEPT)
def clone_of_a_living_vm(g: Ground) -> None:
    g.deploy()
    clone = g.forge("vm", g.mark("vm"))
    plan = g.clean()
    assert g.left() == g.ours
    assert_not_trusted(g.reason(plan, clone))


@accident(4, "A VM is cloned with the mark of an orphan", "The orphan goes, the clone is kept.")
def clone_of_an_orphan(g: Ground) -> None:
    g.leave()
    clone = g.forge("vm", g.mark("vm"))
    plan = g.clean()
    assert g.left() == {}
    assert_not_trusted(g.reason(plan, clone))


@accident(5, "A disk has the mark of a living disk", KEPT)
def copy_of_a_living_disk(g: Ground) -> None:
    g.deploy()
    copy = g.forge("disk", g.mark("disk"))
    plan = g.clean()
    assert g.left() == g.ours
    assert_not_trusted(g.reason(plan, copy))


@accident(6, "A disk has the mark of an orphan", "The orphan goes, the copy is kept.")
def copy_of_an_orphaned_disk(g: Ground) -> None:
    g.leave()
    copy = g.forge("disk", g.mark("disk"))
    plan = g.clean()
    assert g.left() == {}
    assert_not_trusted(g.reason(plan, copy))


@accident(7, "A disk has the mark of a VM", KEPT)
def disk_with_the_mark_of_a_vm(g: Ground) -> None:
    g.leave()
    copy = g.forge("disk", g.mark("vm"))
    plan = g.clean()
    assert g.left() == {}
    assert_not_trusted(g.reason(plan, copy))


@accident(8, "An image has the mark of one of ours", "Ours goes, the copy is kept.")
def copy_of_an_image(g: Ground) -> None:
    g.leave(g.text(stemcell="two"))
    copy = g.forge("image", g.mark("image"))
    plan = g.clean()
    assert g.left() == {}
    assert_not_trusted(g.reason(plan, copy))


@accident(
    9,
    "A server group of a person has the mark or name of ours",
    "The person's stays; so does ours where both have one id.",
    "copy of a server group",
)
def copy_of_a_server_group(g: Ground) -> None:
    g.leave()
    g.forge("server_group", g.mark("server_group"))
    g.clean()
    assert g.left().keys() <= {"server_group", "security_group"}


@accident(10, "A security group has the description or tags of ours, in a cleanup", KEPT, "security_group")
def copy_of_a_security_group_in_a_cleanup(g: Ground) -> None:
    g.leave()
    ours, copy = g.cid("security_group"), g.forge("security_group", g.mark("security_group"))
    plan = g.clean()
    assert g.left() == {}
    assert "copied" in str(g.reason(plan, copy))
    (parent,) = [item for item in plan.items if item.kind == "server_group"]
    assert any(f"security_group {ours}" in line for line in parent.evidence or ()), "the plan names what goes"


@accident(
    11,
    "A security group has the description or tags of ours, in a delete",
    "It stays; the plan and the event `object.parts` name only ours.",
    "security_group",
)
def copy_of_a_security_group_in_a_delete(g: Ground) -> None:
    g.deploy()
    ours, copy = g.cid("security_group"), g.forge("security_group", g.mark("security_group"))
    plan = g.site.plan(delete=True)
    reasons = " ".join(change.reason for change in plan.changes)
    assert f"security_group {ours}" in reasons and copy not in reasons
    task = g.delete(delete_disks=True)
    assert "object.parts" in g.site.kinds(task)
    assert g.left() == {}


@accident(12, "A security group has the mark of a server group that came without one", KEPT, "security_group")
def security_group_with_the_mark_of_a_bare_group(g: Ground) -> None:
    g.leave(manifest(group("web", 1, "placement: {policy: anti-affinity}", azs="z1")))
    copy = g.forge("security_group", g.mark("server_group"))
    plan = g.clean()
    assert g.left() == {}
    assert "copied" in str(g.reason(plan, copy))


@accident(13, "An unplugged port has the name and description of ours", KEPT, "port")
def copy_of_a_port(g: Ground) -> None:
    g.leave()
    copy = g.forge("port", g.mark("vm"))
    plan = g.clean()
    assert g.left() == {}
    assert "copied" in str(g.reason(plan, copy))


@accident(14, "An address that nothing uses has the mark of ours", KEPT, "ip")
def copy_of_an_address(g: Ground) -> None:
    g.leave()
    copy = g.forge("ip", g.mark("vm"))
    plan = g.clean()
    assert g.left() == {}
    assert "copied" in str(g.reason(plan, copy))


@accident(15, "Ports and addresses have the mark of ours, in a delete", "They stay.", "part of a VM")
def copies_of_parts_in_a_delete(g: Ground) -> None:
    g.deploy()
    for kind in ("port", "ip"):
        if kind in g.kinds:
            g.forge(kind, g.mark("vm"))
    g.delete(delete_disks=True)
    assert g.left() == {}


@accident(
    16,
    "A person has a server group of the name that a manifest chooses",
    "The plan is refused, and names the remedy; nothing is changed.",
)
def name_of_a_persons_group(g: Ground) -> None:
    g.own("server_group", g.operator.create_group("data", "anti-affinity", "z1"))
    before = g.inventory()
    with pytest.raises(CoterieError) as refused:
        g.site.deploy(manifest(group("web", 1, f"{NAMED}}}", azs="z1")))
    assert "not ours" in f"{refused.value} {refused.value.details}"
    assert g.inventory() == before


@accident(17, "The same, with `adopt: true`", "It is used; it stays when the deployment is deleted, and so do its VMs.")
def adopted_group(g: Ground) -> None:
    theirs = g.own("server_group", g.operator.create_group("data", "anti-affinity", "z1"))
    before = g.inventory()
    adopt = f"placement: {{policy: {g.bed.adoptable}, server_group: data, adopt: true}}"
    g.deploy(manifest(group("web", 1, adopt, azs="z1")))
    g.delete()
    assert g.operator.exists("server_group", theirs)
    assert g.inventory() == before


@accident(18, "A deployment adopts a security group of a person beside its own", "Only its own goes.", "security_group")
def adopted_security_group(g: Ground) -> None:
    theirs = g.own("security_group", g.operator.create_security_group("theirs"))
    adopt = "security_groups: [{name: theirs, adopt: true}]\n"
    groups = [group(name, 1, f"security_groups: [{name}]", azs="z1") for name in ("guard", "theirs")]
    g.deploy(manifest(*groups, extra=adopt))
    g.delete()
    assert g.operator.exists("security_group", theirs)
    assert g.left() == {}


def assert_not_trusted(reason: str | None) -> None:
    """None: the driver does not take it for ours, so that it is not listed."""
    assert reason is None or "copied" in reason, reason
