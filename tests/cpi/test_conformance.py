"""Every driver of ours against the conformance kit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from peers.aws_bed import AwsBed
from peers.azure_bed import AzureBed, ScaleSetBed
from peers.cloudstack_bed import CloudstackBed, CloudstackUserBed
from peers.foreign import SmallBed
from peers.gcp_bed import GcpBed
from peers.incus_bed import IncusBed, IncusMachineBed
from peers.openstack_bed import OpenstackBed
from peers.program_bed import ProgramBed, ProgramCloudstackBed, ProgramVsphereBed
from peers.sandbox_bed import DomainsBed, SandboxBed, ServedBed, ServedV2Bed, SingleWriterBed
from peers.tiny_bed import TinyBed
from peers.vsphere_bed import VsphereBed

from coterie.cpi.conformance.bed import TestBed
from coterie.cpi.conformance.kit import *  # noqa: F403 # the kit's tests become this file's

pytest_plugins = ("coterie.cpi.conformance.plugin",)
BEDS: dict[str, Callable[[Path], SmallBed]] = {
    "sandbox": SandboxBed,
    "sandbox-single-writer": SingleWriterBed,
    "sandbox-domains": DomainsBed,
    "exec-v2": ServedV2Bed,
    "exec-v3": ServedBed,
    "exec-tiny": TinyBed,
    "aws": AwsBed,
    "cloudstack": CloudstackBed,
    "cloudstack-user": CloudstackUserBed,
    "vsphere": VsphereBed,
    "openstack": OpenstackBed,
    "azure": AzureBed,
    "gcp": GcpBed,
    "incus": IncusBed,
    "incus-machines": IncusMachineBed,
    "azure-scale-sets": ScaleSetBed,
    "coterie-cpi": ProgramBed,
    "coterie-cpi-cloudstack": ProgramCloudstackBed,
    "coterie-cpi-vsphere": ProgramVsphereBed,
}


# every call of theirs is a process of its own
LONG = ("coterie-cpi", "coterie-cpi-cloudstack", "coterie-cpi-vsphere")
MARKS = {
    **dict.fromkeys(LONG, pytest.mark.full),
    "openstack": pytest.mark.openstack,
    "incus": pytest.mark.incus,
    "incus-machines": (pytest.mark.incus, pytest.mark.full),  # many begin to boot, which takes an emulated CPU long
}


@pytest.fixture(params=[pytest.param(name, marks=MARKS.get(name, ())) for name in BEDS])
def bed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TestBed]:
    made = BEDS[request.param](tmp_path)
    yield made
    made.close()
