"""Directors whose uuid is none: BOSH lets operators configure any text, and its own tests use `deadbeef`."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.bosh.client.in_process import respond
from coterie.bosh.recording.marks import director_id
from coterie.cpi.contract import Mark, read_group_cid, read_name
from coterie.ids import Ids
from tests.bosh.cloud_program import CloudShop
from tests.bosh.program import result

INTENT = "0" * 26
UUID = "6f0d5a52-9a3c-4c55-b7a1-0c6b6d1f2e11"
IDS = ["deadbeef", "d", "my-director-1", "my-director-2", "prod dc1, (west)/bosh", "ä" * 300, "a" * 36, UUID]


@pytest.mark.parametrize("given", IDS)
def test_any_text_makes_marks_that_can_be_read(given: str) -> None:
    director = director_id(given)
    mark = Mark(director, INTENT)
    assert len(director) <= 36
    assert len(mark.name()) == len(Mark(UUID, INTENT).name())
    for found in (read_name(mark.name("web")), read_group_cid(mark.group_cid)):
        assert found is not None
        assert found.belongs_to(director)
        assert [one for one in IDS if found.belongs_to(director_id(one))] == [given]


def test_marks_of_earlier_releases_stay_readable() -> None:
    for director, name in ((UUID, f"cot-6f0d5a529a-{INTENT}"), ("deadbeef", f"cot-deadbeef-{INTENT}")):
        found = read_name(name)
        assert found is not None
        assert found.belongs_to(director)
    assert Mark(UUID, INTENT).name() == f"cot-6f0d5a529a-{INTENT}"


@pytest.mark.parametrize("director", ["deadbeef", "prod dc1, (west)/bosh"])
def test_nothing_is_left_in_silence(cloud_shop: CloudShop, director: str) -> None:
    def call(method: str, *arguments: Any) -> Any:
        request = cloud_shop.request(method, *arguments, director_uuid=director)
        return result(respond(request, str(cloud_shop.config)))

    words = {"ephemeral_disk_offering": "custom", "disk": 1024}
    arguments = cloud_shop.vm_arguments(Ids().uuid(), cloud_shop.template, **words)
    vm = call("create_vm", *arguments)[0]
    call("delete_vm", vm)
    assert cloud_shop.inventory() == {}
    lost = call("create_disk", 1024, {}, None)
    left = {"dry_run": False, "grace_s": 0, "left_out": {"disk": 1}}
    report = call("cleanup", director, {"disk": []}, left)
    assert report["disk"]["deleted"] == [lost]
    assert cloud_shop.inventory() == {}
