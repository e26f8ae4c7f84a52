"""Privileges, enforced by the vCenter as they were really written to it: what is missing is named before anything is
made, and `grant` gives exactly what is used."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from peers.vsphere_bed import VsphereBed
from pyVmomi import vim
from tests.peers.vcenter import vcenter

from coterie.bosh.commands import check
from coterie.cpi.conformance.expect import expect_error
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import CpiError, Needs, PrivilegeMissing
from coterie.cpi.drivers.vsphere.driver import VsphereCpi

PLAIN = Needs(kinds=("vm", "image"), azs=("z1",))
GROUPED = Needs(kinds=("vm", "image", "server_group"), policies=("anti-affinity",), azs=("z1",))


@pytest.fixture
def ops(tmp_path: Path) -> Iterator[VsphereBed]:
    """A bed whose driver is the operations user `ops`, in a vCenter that enforces roles."""
    with vcenter() as server:
        made = VsphereBed(tmp_path, server)
        made.more = {"user": "ops"}
        server.enforce_roles()
        yield made
        made.close()


def grant(bed: VsphereBed, groups: bool) -> list[str]:
    """As the administrator does it."""
    bed.more = {"user": "root"}
    granted = driver(bed).grant("ops", groups=groups)
    bed.more = {"user": "ops"}
    return granted


def driver(bed: VsphereBed) -> VsphereCpi:
    opened = bed.open()
    assert isinstance(opened, VsphereCpi)
    return opened


def lacking(bed: VsphereBed, needs: Needs) -> dict[str, str]:
    return {item.what: item.detail for item in bed.open().check(needs) if not item.ok}


def test_without_any_role_everything_is_named_and_nothing_is_made(ops: VsphereBed) -> None:
    before = ops.server.inventory()
    found = lacking(ops, GROUPED)
    assert "Global.ManageCustomFields" in found["privileges on the vCenter"]
    assert "VirtualMachine.Interact.PowerOn" in found["privileges on datacenter DC0"]
    assert "Host.Inventory.EditCluster" in found["privileges on cluster DC0_C0"]
    assert ops.server.inventory() == before


def test_the_granted_role_is_enough_for_vms_and_not_for_groups(ops: VsphereBed) -> None:
    assert any("coterie" in line for line in grant(ops, groups=False))
    assert lacking(ops, PLAIN) == {}
    assert list(lacking(ops, GROUPED)) == ["privileges on cluster DC0_C0"]
    lab = Lab(ops)
    lab.cpi.delete_vm(lab.vm())
    error = expect_error(PrivilegeMissing, lambda: lab.vm(group=lab.group()))
    assert "Host.Inventory.EditCluster" in error.what
    lab.close()


def test_the_role_for_groups_is_enough_for_groups_and_is_given_anew(ops: VsphereBed) -> None:
    grant(ops, groups=False)
    grant(ops, groups=True)
    assert lacking(ops, GROUPED) == {}
    lab = Lab(ops)
    cid = lab.group("anti-affinity")
    members = {lab.vm(group=cid), lab.vm(group=cid)}
    assert {one.vm_cid for one in lab.cpi.inspect_server_group(cid).members} == members
    lab.close()


def test_a_user_without_the_right_to_grant_cannot(ops: VsphereBed) -> None:
    error: Any = expect_error(PrivilegeMissing, lambda: driver(ops).grant("ops", groups=True))
    assert "Authorization." in error.what


def test_a_role_that_the_user_has_already_is_added_to(ops: VsphereBed) -> None:
    hands = ops.operator
    manager, root = hands.content.authorizationManager, hands.content.rootFolder
    role = manager.AddAuthorizationRole("auditors", ["Global.Licenses", "System.View"])
    given = vim.AuthorizationManager.Permission(principal="ops", group=False, propagate=True, roleId=role)
    manager.SetEntityPermissions(root, [given])
    for _ in range(2):
        grant(ops, groups=False)
        (now,) = [one for one in manager.RetrieveEntityPermissions(root, False) if one.principal == "ops"]
        found = {one.roleId: one for one in hands.get(manager, "roleList")}[now.roleId]
        assert (found.name, now.propagate) == ("coterie-root-and-auditors", True)
        assert {"Global.Licenses", "Global.ManageCustomFields"} <= set(found.privilege)
    assert lacking(ops, PLAIN) == {}


def give(bed: VsphereBed, where: Any, privileges: list[str], propagate: bool) -> None:
    """What the administrator gave to `ops` before."""
    manager = bed.operator.content.authorizationManager
    role = manager.AddAuthorizationRole("operators", privileges)
    given = vim.AuthorizationManager.Permission(principal="ops", group=False, propagate=propagate, roleId=role)
    manager.SetEntityPermissions(where, [given])


def role_on(bed: VsphereBed, where: Any) -> tuple[str, set[str], bool]:
    manager = bed.operator.content.authorizationManager
    (now,) = [one for one in manager.RetrieveEntityPermissions(where, False) if one.principal == "ops"]
    role = {one.roleId: one for one in bed.operator.get(manager, "roleList")}[now.roleId]
    return role.name, set(role.privilege), now.propagate


def test_a_role_that_is_inherited_is_not_lost(ops: VsphereBed) -> None:
    """Ours on the datacenter and the clusters would otherwise stand before that of the vCenter."""
    give(ops, ops.operator.content.rootFolder, ["Alarm.Create"], propagate=True)
    for _ in range(2):
        grant(ops, groups=True)
        assert role_on(ops, ops.operator.content.rootFolder)[::2] == ("coterie-root-and-operators", True)
        for where, name in ((ops.operator.find("DC0"), "coterie"), (ops.operator.cluster("z1"), "coterie-groups")):
            role, privileges, propagate = role_on(ops, where)
            assert (role, "Alarm.Create" in privileges, propagate) == (f"{name}-and-operators", True, True)
    assert lacking(ops, GROUPED) == {}


def test_a_role_that_is_not_propagated_is_not_spread(ops: VsphereBed) -> None:
    datacenter = ops.operator.find("DC0")
    give(ops, datacenter, ["Alarm.Create"], propagate=False)
    error = expect_error(CpiError, lambda: grant(ops, groups=False))
    assert ("datacenter DC0" in error.what, "another user" in error.remedy) == (True, True)
    assert role_on(ops, datacenter)[::2] == ("operators", False)


def test_what_is_on_the_vcenter_alone_is_not_propagated(ops: VsphereBed) -> None:
    give(ops, ops.operator.content.rootFolder, ["Alarm.Create"], propagate=False)
    for _ in range(2):
        grant(ops, groups=False)
        assert role_on(ops, ops.operator.content.rootFolder)[::2] == ("coterie-root-and-operators", False)
        assert role_on(ops, ops.operator.find("DC0"))[::2] == ("coterie", True)


@pytest.mark.parametrize(("groups", "ok"), [({}, True), ({"enabled": True}, False)])
def test_the_check_of_coterie_cpi_wants_what_its_configuration_uses(
    ops: VsphereBed, tmp_path: Path, capsys: pytest.CaptureFixture[str], groups: dict[str, bool], ok: bool
) -> None:
    grant(ops, groups=False)
    config = {"driver": "vsphere", "ledger": str(tmp_path / "cpi.db"), "socket": str(tmp_path / "cpi.sock")}
    file = tmp_path / "cpi.json"
    file.write_text(json.dumps({**config, "groups": groups, "properties": ops.properties()}))
    file.chmod(0o600)
    check(str(file), json_form=True)
    found = [item for item in json.loads(capsys.readouterr().out) if "privileges" in item["what"]]
    assert (all(item["ok"] for item in found), "EditCluster" in str(found)) == (ok, not ok)
