"""The command line and a Director on the simulated Compute Engine, from the cloud config to the last deletion."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from peers.gcp_bed import GcpBed

from tests.cli.conftest import Machine, start_director

MANIFEST = """\
name: web
stemcells:
- {alias: default, name: debian-12, version: "1.1"}
instance_groups:
- name: web
  instances: 2
  azs: [one, two]
  vm_type: small
  stemcell: default
  persistent_disk: 1024
  networks: [{name: default}]
  placement: {policy: anti-affinity}
"""


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[GcpBed]:
    made = GcpBed(tmp_path)
    yield made
    made.close()


def cloud_config(bed: GcpBed) -> str:
    azs = [
        {"name": name, "cloud": "lab", "cloud_properties": {"zone": zone}}
        for name, zone in (("one", "z1"), ("two", "z2"))
    ]
    subnet = {"range": "127.40.0.0/24", "gateway": "127.40.0.1", "azs": ["one", "two"]}
    return json.dumps(
        {
            "clouds": [{"name": "lab", "driver": "gcp", "properties": bed.properties()}],
            "azs": azs,
            "vm_types": [{"name": "small", "cloud_properties": {"machine_type": "f1-micro"}}],
            "networks": [{"name": "default", "subnets": [subnet]}],
        }
    )


def test_a_deployment_from_the_command_line(bed: GcpBed, machine: Machine) -> None:
    start_director(machine.state_folder, machine.environment())
    machine.write("cloud.json", cloud_config(bed))
    machine.write("web.yml", MANIFEST)
    for words in (
        ("clouds", "set", "cloud.json"),
        ("clouds", "check"),
        ("demo", "--files", "try"),
        ("stemcells", "upload", "try/stemcell-1.1.tgz"),
        ("deploy", "--yes", "web.yml"),
    ):
        done = machine.run(*words)
        assert done.code == 0, (words, done.out, done.err)
    assert sum(kind == "vm" for kind, _ in bed.inventory()) == 2
    audit = machine.run("placement", "audit", "web")
    assert audit.code == 0 and "availability domain" in audit.out, audit.out + audit.err
    deleted = machine.run("delete", "web", "--yes", "--delete-disks")
    assert deleted.code == 0, deleted.err
    assert {kind for kind, _ in bed.inventory()} <= {"image"}
