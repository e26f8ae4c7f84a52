"""The command line and a Director on the simulated Azure, from the cloud config to the last deletion."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from peers.azure_bed import AzureBed

from tests.cli.conftest import Machine, start_director

MANIFEST = """\
name: web
stemcells:
- {alias: default, name: debian-12, version: "1.1"}
instance_groups:
- name: web
  instances: 2
  azs: [region]
  vm_type: small
  stemcell: default
  persistent_disk: 1024
  networks: [{name: default}]
  placement: {policy: anti-affinity}
- name: zoned
  instances: 2
  azs: [one, two]
  vm_type: small
  stemcell: default
  networks: [{name: default}]
"""


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[AzureBed]:
    made = AzureBed(tmp_path)
    yield made
    made.close()


def cloud_config(bed: AzureBed) -> str:
    zones = [
        {"name": name, "cloud": "lab", "cloud_properties": {"availability_zone": n}}
        for name, n in (("one", "1"), ("two", "2"))
    ]
    azs = ["region", "one", "two"]
    return json.dumps(
        {
            "clouds": [{"name": "lab", "driver": "azure", "properties": bed.peer.properties()}],
            "azs": [{"name": "region", "cloud": "lab"}, *zones],
            "vm_types": [{"name": "small", "cloud_properties": {"instance_type": "Standard_B1s"}}],
            "networks": [
                {"name": "default", "subnets": [{"range": "127.40.0.0/24", "gateway": "127.40.0.1", "azs": azs}]}
            ],
        }
    )


def test_a_deployment_from_the_command_line(bed: AzureBed, machine: Machine) -> None:
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
    assert sum(kind == "vm" for kind, _ in bed.inventory()) == 4
    audit = machine.run("placement", "audit", "web")
    assert audit.code == 0 and "fault domain" in audit.out and "UPDATE DOMAIN" in audit.out, audit.out + audit.err
    deleted = machine.run("delete", "web", "--yes", "--delete-disks")
    assert deleted.code == 0, deleted.err
    assert {kind for kind, _ in bed.inventory()} <= {"image"}
