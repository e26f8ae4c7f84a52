"""The front refuses what the vendor's definition refuses, and behaves as inconveniently as the service."""

from __future__ import annotations

import copy
import time
from pathlib import Path
from typing import Any

import pytest

from coterie.sandbox.fronts.azure.front import Front
from tests.sandbox.fronts.azure.peer import GROUP, ask, open_front, url_of

DISK: dict[str, Any] = {
    "location": "westeurope",
    "properties": {"creationData": {"createOption": "Empty"}, "diskSizeGB": 4},
}
SET = {"location": "westeurope", "sku": {"name": "Aligned"}}
DISKS, SETS, NSGS = (
    "Microsoft.Compute/disks",
    "Microsoft.Compute/availabilitySets",
    "Microsoft.Network/networkSecurityGroups",
)


@pytest.fixture
def front(tmp_path: Path) -> Front:
    return open_front(tmp_path)


def put_disk(front: Front, body: Any, version: str = "2023-04-02", **query: str) -> Any:
    return ask(front, "PUT", url_of(DISKS, "d", version=version, **query), body)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("properties", "diskSizeGb"), 4, "unknown field"),
        (("properties", "diskState"), "Unattached", "read-only"),
        (("properties", "creationData"), None, "required"),
        (("properties", "diskSizeGB"), "4", "not an integer"),
        (("properties", "creationData", "createOption"), "Emptied", "none of DiskCreateOption"),
        (("zones",), "1", "not a list"),
        (("tags",), {"a": 1}, "not a text"),
        (("location",), None, "required"),
    ],
)
def test_a_body_is_held_to_the_definition(front: Front, path: tuple[str, ...], value: Any, words: str) -> None:
    body = copy.deepcopy(DISK)
    *outer, last = path
    place = body
    for key in outer:
        place = place[key]
    if value is None:
        del place[last]
    else:
        place[last] = value
    reply = put_disk(front, body)
    assert reply.status == 400
    assert words in reply.body["error"]["message"]


def test_versions_and_queries_are_checked(front: Front) -> None:
    assert put_disk(front, DISK).status == 202
    assert put_disk(front, DISK, version="2099-01-01").body["error"]["code"] == "InvalidApiVersionParameter"
    assert put_disk(front, DISK, nonesuch="1").body["error"]["code"] == "InvalidQueryParameter"
    attach = url_of("Microsoft.Compute/virtualMachines", "v/attachDetachDataDisks", version="2023-03-01")
    assert ask(front, "POST", attach, {}).body["error"]["code"] == "InvalidApiVersionParameter"
    assert ask(front, "GET", url_of(DISKS, "d").partition("?")[0]).body["error"]["code"] == "MissingApiVersionParameter"
    assert ask(front, "GET", url_of("Microsoft.Compute/nonesuch", "d")).status == 404


def test_an_operation_goes_on_and_ends(tmp_path: Path) -> None:
    front = open_front(tmp_path, operation_s=0.1, retry_after_s=7)
    reply = put_disk(front, DISK)
    assert reply.headers["Retry-After"] == "7"
    status, monitor = (reply.headers[name].removeprefix("https://x") for name in ("Azure-AsyncOperation", "Location"))
    assert ask(front, "GET", status).body["status"] == "InProgress"
    assert ask(front, "GET", monitor).status == 202
    time.sleep(0.12)
    assert ask(front, "GET", status).body["status"] == "Succeeded"
    assert ask(front, "GET", monitor).status == 200


def test_a_later_write_supersedes_an_earlier_one(tmp_path: Path) -> None:
    front = open_front(tmp_path, operation_s=0.1)
    first = ask(front, "PUT", url_of(NSGS, "g"), {"location": "westeurope"})
    ask(front, "PUT", url_of(NSGS, "g"), {"location": "westeurope", "tags": {"a": "b"}})
    time.sleep(0.12)
    found = ask(front, "GET", first.headers["Azure-AsyncOperation"].removeprefix("https://x")).body
    assert (found["status"], found["error"]["code"]) == ("Canceled", "CanceledAndSupersededDueToAnotherOperation")


def test_lists_lag_and_have_pages(tmp_path: Path) -> None:
    front = open_front(tmp_path, list_lag_s=1000.0, page_size=2)
    for number in range(3):
        ask(front, "PUT", url_of(SETS, f"s{number}"), SET)
    assert ask(front, "GET", url_of(SETS)).body == {"value": []}
    assert ask(front, "GET", url_of(SETS, "s0")).status == 200
    front.settings.list_lag_s = 0.0
    page = ask(front, "GET", url_of(SETS)).body
    assert len(page["value"]) == 2
    assert len(ask(front, "GET", page["nextLink"].removeprefix("https://x")).body["value"]) == 1


def test_buckets_run_dry_and_fill_again(tmp_path: Path) -> None:
    front = open_front(tmp_path, throttle=True)
    front.limits.squeeze(100)
    replies = [ask(front, "PUT", url_of(SETS, "s"), SET) for _ in range(4)]
    assert {one.status for one in replies} == {200, 429}
    assert next(one for one in replies if one.status == 429).headers["Retry-After"] == "1"


def test_deleting_a_scale_set_deletes_its_vms(front: Front) -> None:
    scale_set = {
        "location": "westeurope",
        "properties": {"orchestrationMode": "Flexible", "platformFaultDomainCount": 1},
    }
    type_ = "Microsoft.Compute/virtualMachineScaleSets"
    assert ask(front, "PUT", url_of(type_, "f"), scale_set).status == 201
    subnet = front.path(GROUP, "Microsoft.Network/virtualNetworks", "default") + "/subnets/default"
    nic = {"ipConfigurations": [{"name": "a", "properties": {"subnet": {"id": subnet}}}]}
    made = ask(
        front, "PUT", url_of("Microsoft.Network/networkInterfaces", "n"), {"location": "westeurope", "properties": nic}
    )
    image = {"publisher": "Debian", "offer": "debian-12", "sku": "12", "version": "latest"}
    vm = {
        "hardwareProfile": {"vmSize": "Standard_B1s"},
        "virtualMachineScaleSet": {"id": front.path(GROUP, type_, "f")},
        "storageProfile": {"imageReference": image, "osDisk": {"createOption": "FromImage"}},
        "osProfile": {"computerName": "v", "adminUsername": "me", "adminPassword": "Pass.word-1234"},
        "networkProfile": {"networkInterfaces": [{"id": made.body["id"]}]},
    }
    url = url_of("Microsoft.Compute/virtualMachines", "v")
    assert ask(front, "PUT", url, {"location": "westeurope", "properties": vm}).status == 201
    assert ask(front, "DELETE", url_of(type_, "f")).status == 202
    assert ask(front, "GET", url).status == 404


def test_what_was_made_is_there_after_a_restart(front: Front, tmp_path: Path) -> None:
    put_disk(front, DISK)
    again = open_front(tmp_path)
    assert (
        ask(again, "GET", url_of(DISKS, "d", version="2023-04-02")).body["properties"]["provisioningState"]
        == "Succeeded"
    )
