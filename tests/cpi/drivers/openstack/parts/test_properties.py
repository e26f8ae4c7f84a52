"""The cloud_properties of VMs."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.cpi.contract import InvalidCall
from coterie.cpi.drivers.openstack.properties import read_vm_spec


@pytest.mark.parametrize(
    ("properties", "word"),
    [
        ({}, "instance_type"),
        ({"instance_type": "a", "root_disk": {"gb": 1}}, "root_disk"),
        ({"instance_type": "a", "scheduler_hints": {"group": "x"}}, "scheduler_hints has a group"),
        ({"instance_type": "a", "flavour": "x"}, "flavour"),
    ],
)
def test_a_wrong_property_is_named(properties: dict[str, Any], word: str) -> None:
    with pytest.raises(InvalidCall, match=word):
        read_vm_spec(properties)
