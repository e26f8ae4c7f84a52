"""calculate_vm_cloud_properties: the smallest that fits, usable as it is, and an error where nothing fits."""

from __future__ import annotations

from coterie.cpi.conformance.expect import expect_error
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.conformance.proof import proves
from coterie.cpi.contract import CpiError

SMALL = {"cpu": 1, "ram": 512, "ephemeral_disk_size": 1024}


@proves("calculate_vm_cloud_properties")
def test_the_smallest_fit_makes_a_vm(lab: Lab) -> None:
    lab.needs("calculate_vm_cloud_properties")
    properties = lab.cpi.calculate_vm_cloud_properties(SMALL)
    assert properties
    lab.vm(cloud_properties={**lab.bed.az_properties(lab.az), **properties})


@proves("calculate_vm_cloud_properties")
def test_it_is_the_smallest_and_steady(lab: Lab) -> None:
    lab.needs("calculate_vm_cloud_properties")
    smallest = lab.cpi.calculate_vm_cloud_properties(SMALL)
    assert lab.cpi.calculate_vm_cloud_properties(SMALL) == smallest
    assert lab.cpi.calculate_vm_cloud_properties({**SMALL, "ram": 16384}) != smallest


@proves("calculate_vm_cloud_properties")
def test_what_no_size_offers_is_refused(lab: Lab) -> None:
    lab.needs("calculate_vm_cloud_properties")
    expect_error(CpiError, lambda: lab.cpi.calculate_vm_cloud_properties({**SMALL, "cpu": 10**6}))
