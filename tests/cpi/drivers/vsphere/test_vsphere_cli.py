"""A day with a vSphere cloud on the command line: check, deploy, look at the group, lose it, repair it, grant."""

from __future__ import annotations

import io
import json
import os
import signal
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from peers.leases import end_leases
from peers.vsphere_image import write_image
from peers.vsphere_operator import VsphereOperator
from pyVmomi import vim
from tests.cli.conftest import Machine
from tests.peers.vcenter import Vcenter, vcenter

from coterie.client import Client
from coterie.director.process.state_folder import read_holder
from coterie.ledger.store import Ledger

CLOUD = {
    "clouds": [
        {
            "name": "vc",
            "driver": "vsphere",
            "properties": {"user": "root", "password": "secret", "datacenter": "DC0", "network": "VM Network"},
        }
    ],
    "azs": [{"name": "z1", "cloud": "vc", "cloud_properties": {"zone": "DC0_C0"}}],
    "vm_types": [{"name": "small", "cloud_properties": {"cpu": 1, "ram": 512}}],
    "networks": [{"name": "default", "subnets": [{"range": "127.0.0.0/24", "gateway": "127.0.0.1", "azs": ["z1"]}]}],
}
MANIFEST = """\
name: web
stemcells:
- {alias: default, name: tiny, version: "1"}
instance_groups:
- name: web
  instances: 2
  azs: [z1]
  vm_type: small
  stemcell: default
  networks: [{name: default}]
  placement: {policy: host-affinity, vm_group: licensed}
"""


@pytest.fixture
def server() -> Iterator[Vcenter]:
    with vcenter("-autostart=false") as made:
        yield made


@pytest.fixture
def machine(tmp_path: Path, server: Vcenter) -> Iterator[Machine]:
    made = prepared(tmp_path, server)
    yield made
    made.close()


def prepared(folder: Path, server: Vcenter) -> Machine:
    """A machine with the files of a cloud, a deployment and a stemcell."""
    made = Machine(folder, {"COTERIE_LOOK_INTERVAL": "1"})
    cloud = json.loads(json.dumps(CLOUD))
    cloud["clouds"][0]["properties"]["url"] = server.url
    made.write("cloud.yml", json.dumps(cloud))
    made.write("web.yml", MANIFEST)
    image = write_image(folder / "image").read_bytes()
    with tarfile.open(folder / "stemcell.tgz", "w:gz") as archive:
        for name, content in (("stemcell.MF", b"name: tiny\nversion: '1'\n"), ("image", image)):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return made


def await_state(machine: Machine, state: str) -> None:
    """The periodic look comes by."""
    while listed(machine, "groups")[0]["state"] != state:
        time.sleep(0.2)


def listed(machine: Machine, what: str) -> list[dict[str, Any]]:
    """Over the socket of the running Director: a command would be a process for each look."""
    found: list[dict[str, Any]] = list(getattr(Client(f"unix:{machine.state_folder.socket}"), what).list())
    return found


def furnish(machine: Machine) -> None:
    assert machine.run("stemcells", "upload", "stemcell.tgz").code == 0
    assert machine.run("clouds", "set", "cloud.yml").code == 0


@pytest.mark.parametrize("moment", ["before", pytest.param("after", marks=pytest.mark.full)])
def test_turning_groups_on_goes_on_where_a_killed_director_left_it(
    machine: Machine, server: Vcenter, moment: str
) -> None:
    """Killed while the vCenter holds back the first write, or its answer."""
    furnish(machine)
    machine.write("plain.yml", "".join(line for line in MANIFEST.splitlines(True) if "placement" not in line))
    assert machine.run("deploy", "plain.yml").code == 0
    vms = {one["name"]: one["vm_cid"] for one in machine.run("nodes", "-o", "json").json["items"]}
    server.bend("ReconfigureComputeResource_Task", "delay" if moment == "before" else "late", ms=3000)
    deploying = machine.start("deploy", "web.yml")
    while not any(one["state"] == "changing" for one in listed(machine, "nodes")):
        time.sleep(0.05)
    time.sleep(1)
    dead = read_holder(machine.state_folder.lock)
    assert dead is not None
    os.kill(dead.pid, signal.SIGKILL)
    ledger = Ledger.open(f"sqlite:///{machine.state_folder.ledger}")
    end_leases(ledger)
    ledger.close()
    deploying.communicate()
    assert machine.run("tasks").code == 0  # starts the Director again, which goes on
    operator = VsphereOperator(server, {"z1": "DC0_C0"})
    while any(one["state"] != "up" for one in listed(machine, "nodes")):
        time.sleep(0.2)
    assert {one["name"]: one["vm_cid"] for one in machine.run("nodes", "-o", "json").json["items"]} == vms
    assert {operator.get(vm, "config.instanceUuid") for vm in operator.group("DC0_C0/licensed").vm} == set(vms.values())
    assert machine.run("plan", "web.yml", "-o", "json").json["changes"] == []
    operator.close()


def test_a_day_with_a_vsphere_cloud(machine: Machine, server: Vcenter) -> None:
    furnish(machine)
    checked = machine.run("clouds", "check", "vc")
    assert (checked.code, "privileges" in checked.out, "secret" in checked.out) == (0, True, False)
    assert "No " in machine.run("groups").out or machine.run("groups", "-o", "json").json["items"] == []
    assert machine.run("deploy", "web.yml").code == 0

    operator = VsphereOperator(server, {"z1": "DC0_C0"})
    foreign = operator.create_vm("neighbour", "z1")
    operator.rejoin("DC0_C0/licensed", add=[operator.machine(foreign)])
    shown = machine.run("groups", "show", "web").out
    assert all(word in shown for word in ("DC0_C0/licensed", foreign, "DRS is on", "web/0", "web/1"))

    ours = next(one["vm_cid"] for one in machine.run("nodes", "-o", "json").json["items"])
    operator.rejoin("DC0_C0/licensed", drop=[operator.machine(ours)])
    await_state(machine, "drifted")
    assert ours in machine.run("groups", "-o", "json").json["items"][0]["drift"][-1]
    doctor = machine.run("doctor")
    assert (doctor.code, "not as made: web" in doctor.out) == (1, True)
    time.sleep(2.5)  # two more looks
    assert machine.run("events").out.count("group.drifted") == 1
    assert machine.run("groups", "repair", "web").code == 0
    await_state(machine, "live")

    operator.delete("server_group", "DC0_C0/licensed")
    assert "missing" in machine.run("groups", "show", "web").out
    await_state(machine, "missing")
    doctor = machine.run("doctor")
    assert (doctor.code, "missing in their clouds: web" in doctor.out) == (1, True)
    assert "group.missing" in machine.run("events").out
    assert machine.run("groups", "repair", "web").code == 0
    assert len(operator.group("DC0_C0/licensed").vm) == 2

    granted = machine.run("clouds", "grant", "vc", "--user", "ops")
    assert granted.code == 0, granted.err
    assert "coterie-groups" in granted.out + granted.err
    assert machine.run("delete", "web", "--yes").code == 0
    assert operator.group("DC0_C0/licensed") is None
    operator.delete("vm", foreign)
    operator.close()


def test_a_deep_check_tells_what_it_found_and_leaves_nothing(machine: Machine, server: Vcenter) -> None:
    furnish(machine)
    before = server.inventory()
    operator = VsphereOperator(server, {"z1": "DC0_C0"})
    cluster = operator.cluster("z1")
    hosts = vim.cluster.HostGroup(name="theirs", host=operator.get(cluster, "host")[:1])
    spec = vim.cluster.ConfigSpecEx(groupSpec=[vim.cluster.GroupSpec(operation="add", info=hosts)])
    operator.run(cluster.ReconfigureComputeResource_Task(spec, True))
    done = machine.run("clouds", "check", "vc", "--deep", "--yes", "-o", "json")
    found = {one["what"]: one["outcome"] for one in done.json["items"]}
    assert done.code == 0, done.out + done.err
    assert found == {
        "members of the server group": "ok",
        "placement": "ok",
        "survey": "ok",
        "disk": "ok",
        "living VMs change their server group": "ok",
        "groups and rules are read": "ok",
        "a VM joins while it is off": "ok",
        "an emptied group stays for an administrator's rule": "ok",
        "a disk has one uuid everywhere": "ok",
        "a VM that was renamed and moved is found": "ok",
        "a disk that Storage vMotion moved comes home": "ok",
        "a template is copied to another datastore": "ok",
        "placement without DRS": "not possible",
    }
    assert machine.run("deployments", "-o", "json").json["items"] == []
    operator.remove("DC0_C0/theirs")
    assert {one[1].partition(" ")[2] for one in server.inventory() - before if one[0] == "folder"} == {"coterie"}
    assert {one[0] for one in server.inventory() - before} == {"folder"}
    operator.close()
