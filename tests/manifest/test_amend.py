"""One line of a cloud config is changed, and nothing else: comments, order, quotes and layout stay."""

from __future__ import annotations

import json

import pytest

from coterie.errors import NotFound, Refused
from coterie.manifest import load_cloud_config
from coterie.manifest.amend import add_cloud, set_conductor_group

BLOCK = """\
# our clouds
clouds:
- name: lab   # the small one
  driver: sandbox
- name: hall
  conductor_group: rack1   # moved in May
  driver: sandbox
azs:
- {name: z1, cloud: lab}
"""
AZS = "azs: [{name: z1, cloud: lab}]\n"
FLOW = AZS + "clouds: [{name: lab, driver: sandbox}, {name: hall, driver: sandbox, conductor_group: rack1}]\n"
JSON = json.dumps(
    {
        "clouds": [{"name": "lab", "driver": "sandbox"}, {"name": "hall", "driver": "sandbox"}],
        "azs": [{"name": "z1", "cloud": "lab"}],
    }
)
ANCHORED = AZS + "clouds:\n- &one {name: lab, driver: sandbox, properties: {}}\n- {<<: *one, name: hall}\n"


def groups(text: str) -> dict[str, str]:
    return {cloud.name: cloud.conductor_group for cloud in load_cloud_config(text, "x").value.clouds}


@pytest.mark.parametrize("text", [BLOCK, FLOW, JSON])
@pytest.mark.parametrize("cloud", ["lab", "hall"])
def test_a_group_is_set_in_place(text: str, cloud: str) -> None:
    before = groups(text)
    changed = set_conductor_group(text, cloud, "rack-9")
    assert groups(changed) == {**before, cloud: "rack-9"}
    assert groups(set_conductor_group(changed, cloud, "")) == {**before, cloud: ""}


def test_comments_stay() -> None:
    changed = set_conductor_group(BLOCK, "hall", "rack2")
    assert changed == BLOCK.replace("rack1", '"rack2"')


@pytest.mark.parametrize("text", [BLOCK, FLOW, JSON])
def test_a_cloud_is_added(text: str) -> None:
    new = {"name": "new", "driver": "sandbox", "conductor_group": "r", "properties": {"settle_s": 1}}
    changed = add_cloud(text, new)
    assert groups(changed) == {"new": "r", **groups(text)}
    assert len(changed) > len(text)


def test_what_cannot_be_changed_safely_is_refused() -> None:
    with pytest.raises(NotFound):
        set_conductor_group(BLOCK, "nowhere", "x")
    with pytest.raises(Refused, match="cannot be changed in place"):
        set_conductor_group(ANCHORED, "lab", "x")
