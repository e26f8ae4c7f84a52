"""What must not happen in a vCenter, requested on the command line and of the API: refused, and nothing is made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from peers.vsphere_operator import VsphereOperator
from pyVmomi import vim
from tests.cli.conftest import Machine
from tests.peers.vcenter import Vcenter, vcenter

from coterie.client import ApiProblem, Client
from vsphere.test_vsphere_cli import furnish, prepared

MANIFEST = """\
name: NAME
stemcells:
- {alias: default, name: tiny, version: "1"}
instance_groups:
- name: web
  instances: COUNT
  azs: [z1]
  vm_type: small
  stemcell: default
  networks: [{name: default}]
"""
OWN = "policy: host-affinity, vm_group: licensed"


@dataclass
class CliSite:
    """A vCenter, a session of its administrator, and a machine with the command line."""

    server: Vcenter
    operator: VsphereOperator
    machine: Machine

    @property
    def client(self) -> Client:
        return Client(f"unix:{self.machine.state_folder.socket}")

    def manifest(self, placement: str | None, count: int = 1, name: str = "web") -> str:
        text = MANIFEST.replace("NAME", name).replace("COUNT", str(count))
        return text + (f"  placement: {{{placement}}}\n" if placement else "")

    def deploy(self, placement: str | None, count: int = 1, name: str = "web") -> Any:
        return self.machine.run("deploy", self.machine.write("web.yml", self.manifest(placement, count, name)), "--yes")

    def refused(self, words: str, placement: str | None, count: int = 1, verbs: tuple[str, ...] = ()) -> None:
        """By the plan and by the deployment, of the API and by these verbs; and nothing was made or changed."""
        before, text = self.server.inventory(), self.manifest(placement, count)
        self.machine.write("refused.yml", text)
        for verb in verbs:
            shown = self.machine.run(verb, "refused.yml")
            assert (shown.code not in (0, 3), words in shown.err) == (True, True), shown.err
        for ask in (self.client.plans.make, partial(self.client.deployments.deploy, "web")):
            with pytest.raises(ApiProblem) as error:
                ask(manifest=text)
            assert (error.value.status, words in f"{error.value} {error.value.details}") == (409, True)
        assert self.server.inventory() == before

    def write(self, **spec: Any) -> None:
        """As an administrator, to the cluster's groups and rules."""
        change = vim.cluster.ConfigSpecEx(
            groupSpec=[vim.cluster.GroupSpec(operation="add", info=one) for one in spec.get("groups", ())],
            rulesSpec=[vim.cluster.RuleSpec(operation="add", info=one) for one in spec.get("rules", ())],
        )
        self.operator.run(self.operator.cluster(spec.get("az", "z1")).ReconfigureComputeResource_Task(change, True))

    def hosts(self, az: str) -> list[Any]:
        found: list[Any] = self.operator.get(self.operator.cluster(az), "host")
        return found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CliSite]:
    folder: Path = tmp_path_factory.mktemp("site")
    with vcenter("-autostart=false") as server:
        machine = prepared(folder, server)
        furnish(machine)
        operator = VsphereOperator(server, {"z1": "DC0_C0", "z2": "DC0_C1"})
        made = CliSite(server, operator, machine)
        made.write(groups=[vim.cluster.HostGroup(name="asleep", host=made.hosts("z1")[:1])])
        made.write(az="z2", groups=[vim.cluster.HostGroup(name="elsewhere", host=made.hosts("z2")[:1])])
        assert made.deploy(None, name="first").code == 0  # so that the image and our folders are there
        yield made
        operator.close()
        machine.close()


@pytest.fixture
def clean(site: CliSite) -> Iterator[CliSite]:
    """Whatever a test deployed goes, and the vCenter is as it was."""
    before = held(site)
    yield site
    for one in site.client.deployments.list():
        if one["name"] != "first":
            assert site.machine.run("delete", one["name"], "--yes").code == 0
    assert held(site) == before


def held(site: CliSite) -> set[tuple[str, str]]:
    """All but images: a datastore that gets its first VM gets a copy of the template."""
    return {one for one in site.server.inventory() if one[0] != "image"}


def test_where_no_group_is_configured_the_answers_are_sane(clean: CliSite) -> None:
    assert clean.machine.run("groups", "-o", "json").json["items"] == []
    assert "no server group 'web'" in clean.machine.run("groups", "show", "web").err
    assert list(clean.client.groups.list()) == []
    for act in (clean.client.groups.get, clean.client.groups.repair):
        with pytest.raises(ApiProblem) as error:
            act("web")
        assert error.value.status == 404
    assert clean.machine.run("doctor").code == 0


@pytest.mark.parametrize(
    ("words", "placement", "count"),
    [
        ("nobody-has-this", "policy: host-affinity, host_group: nobody-has-this", 1),
        ("it is in DC0_C1", "policy: host-affinity, host_group: elsewhere", 1),
        (
            "no DRS VM group 'nobody-has-this' to adopt",
            "policy: host-affinity, vm_group: nobody-has-this, adopt: true",
            1,
        ),
        ("different hosts", "policy: anti-affinity", 4),
    ],
)
def test_what_cannot_be_is_refused(clean: CliSite, words: str, placement: str, count: int) -> None:
    clean.refused(words, placement, count, ("plan", "deploy"))


def test_drs_that_is_off_and_hosts_that_are_down_are_refused(clean: CliSite) -> None:
    clean.operator.switch_drs("z1", False)
    clean.refused("DRS is off in cluster DC0_C0", OWN)
    clean.operator.switch_drs("z1", True)
    host, *others = clean.hosts("z1")
    clean.operator.run(host.EnterMaintenanceMode_Task(0))
    clean.refused("no host of 'asleep' is up", "policy: host-affinity, host_group: asleep")
    for one in others:
        clean.operator.run(one.EnterMaintenanceMode_Task(0))
    clean.refused("no host is up in DC0_C0", OWN)
    for one in (host, *others):
        clean.operator.run(one.ExitMaintenanceMode_Task(0))


def test_an_administrators_group_is_taken_only_if_adopted_and_never_changed_otherwise(clean: CliSite) -> None:
    theirs = clean.operator.create_group("licensed", "host-affinity", "z1")
    members = {one._moId for one in clean.operator.group(theirs).vm}
    clean.refused("DRS group 'licensed' that is not ours", OWN)
    clean.refused("promises host-affinity", "policy: affinity, vm_group: licensed, adopt: true")
    assert clean.deploy(f"{OWN}, adopt: true", 2).code == 0
    assert len(clean.operator.group(theirs).vm) == 4
    (shown,) = clean.client.groups.list()
    assert (shown["adopted"], shown["cid"]) == (True, "ext-licensed")
    assert clean.machine.run("delete", "web", "--yes").code == 0
    assert {one._moId for one in clean.operator.group(theirs).vm} == members
    clean.operator.delete("server_group", theirs)


def test_a_group_that_holds_a_foreign_vm_is_kept_without_ours_and_the_report_tells_why(clean: CliSite) -> None:
    assert clean.deploy(OWN, 2).code == 0
    foreign = clean.operator.create_vm("neighbour", "z1")
    clean.operator.rejoin("DC0_C0/licensed", add=[clean.operator.machine(foreign)])
    assert clean.deploy(OWN, 1).code == 0  # a smaller deployment, and the neighbour stays in the group
    assert len(clean.operator.group("DC0_C0/licensed").vm) == 2
    gone = clean.machine.run("delete", "web", "--yes")
    assert (gone.code, "foreign" in gone.out + gone.err) == (0, True)
    assert [one._moId for one in clean.operator.group("DC0_C0/licensed").vm] == [clean.operator.machine(foreign)._moId]
    assert [one["name"] for one in clean.client.deployments.list()] == ["first"]
    clean.operator.delete("vm", foreign)
    clean.machine.run("cleanup", "--save", "kept.plan", "--grace", "0", "--kinds", "server_group")
    swept = clean.machine.run("cleanup", "apply", "kept.plan", "--yes")
    assert swept.code == 0, swept.out + swept.err


def test_a_vm_that_cannot_join_is_not_left_behind(clean: CliSite) -> None:
    before = clean.server.inventory()
    detail = '<object type="ClusterComputeResource">c</object><privilegeId>Host.Inventory.EditCluster</privilegeId>'
    clean.server.bend("ReconfigureComputeResource_Task", "fault", fault="NoPermission", detail=detail, times=9)
    done = clean.deploy(OWN, 1)
    clean.server.straighten()
    assert (done.code != 0, "Host.Inventory.EditCluster" in done.out + done.err) == (True, True)
    assert {one for one in clean.server.inventory() - before if one[0] in ("vm", "file", "server_group")} == set()
    (node,) = [one for one in clean.client.nodes.list() if one["deployment"] == "web"]
    assert (node["state"], node["vm_cid"]) == ("failing", None)


def test_without_the_privilege_groups_are_refused_and_all_else_goes_on(clean: CliSite) -> None:
    """As after an upgrade: a deployment was made without groups, by a user without the right to edit the cluster."""
    assert clean.machine.run("clouds", "grant", "vc", "--user", "ops", "--no-groups").code == 0
    config = (clean.machine.folder / "cloud.yml").read_text()
    assert clean.machine.run("clouds", "set", clean.machine.write("ops.yml", config.replace("root", "ops"))).code == 0
    clean.server.enforce_roles()
    clean.server.forget_calls()
    assert clean.deploy(None, 1, "plain").code == 0
    assert clean.deploy(None, 2, "plain").code == 0
    clean.refused("Host.Inventory.EditCluster", OWN)
    assert "ReconfigureComputeResource_Task" not in clean.server.methods()
    assert clean.machine.run("delete", "plain", "--yes").code == 0
    clean.server.enforce_roles(False)
    assert clean.machine.run("clouds", "set", clean.machine.write("root.yml", config)).code == 0


def test_groups_are_turned_on_renamed_and_off_by_plans_that_were_confirmed(clean: CliSite) -> None:
    assert clean.deploy(None, 2).code == 0
    vms = {one["name"]: one["vm_cid"] for one in clean.client.nodes.list(deployment="web")}
    for placement, groups in ((OWN, {"licensed"}), (OWN.replace("licensed", "renamed"), {"renamed"}), (None, set())):
        manifest = clean.manifest(placement, 2)
        plan = clean.client.plans.make(manifest=manifest)
        assert {one["action"] for one in plan["changes"] if one["kind"] == "node"} == {"update"}
        with pytest.raises(ApiProblem, match="out of date"):
            clean.client.deployments.deploy("web", manifest=manifest, plan="0" * len(plan["id"]))
        clean.machine.write("next.yml", manifest)
        assert clean.machine.run("plan", "next.yml", "--save", "saved.plan").code == 0
        assert clean.machine.run("deploy", "--plan", "saved.plan", "--yes").code == 0
        assert clean.machine.run("deploy", "--plan", "saved.plan", "--yes").code == 6  # what was confirmed is done
        present = {one["name"]: one["vm_cid"] for one in clean.client.nodes.list(deployment="web")}
        found = clean.operator.get(clean.operator.cluster("z1"), "configurationEx").group or ()
        assert (present, {one.name for one in found} - {"asleep"}) == (vms, groups)
