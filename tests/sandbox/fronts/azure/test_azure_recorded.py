"""The front's answers beside recorded exchanges with the real service, which are not part of this repository.
COTERIE_AZURE_RECORDED names the file: a gzipped JSON list of {method, uri, request, status, headers, answer}."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from coterie.sandbox.fronts.azure.definition import find_operation, require_body
from coterie.sandbox.fronts.azure.front import Front
from coterie.sandbox.fronts.azure.refusals import ApiError
from coterie.sandbox.fronts.http_server import Reply
from tests.sandbox.fronts.azure.peer import ask, open_front, url_of

RECORDED = os.environ.get("COTERIE_AZURE_RECORDED")
pytestmark = pytest.mark.skipif(not RECORDED, reason="COTERIE_AZURE_RECORDED names no recorded exchanges")
PLACE = {"location": "westeurope"}
RUNNING = ("azure-asyncoperation", "location")
# top-level and properties that only some resources have, or that the front has no use for
RARE = {"zones", "identity", "plan", "resources", "extendedLocation", "proximityPlacementGroup"}


@cache
def exchanges() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(gzip.decompress(Path(str(RECORDED)).read_bytes()))
    return found


def type_of(uri: str) -> str | None:
    path = uri.partition("?")[0]
    found = re.search(r"/providers/Microsoft\.(?:Compute|Network)/(.*)$", path)
    parts = found[1].split("/") if found else []
    return "/".join(parts[::2]) if parts and len(parts) % 2 == 0 else None


def running_headers(headers: Any) -> frozenset[str]:
    return frozenset(name for name in RUNNING if name in {key.lower() for key in headers})


def life(front: Front) -> dict[tuple[str, str], list[Reply]]:
    """Every kind of resource made, read, changed and deleted: (method, type) → replies."""
    seen: dict[tuple[str, str], list[Reply]] = defaultdict(list)

    def do(method: str, type_: str, name: str, body: Any = None, action: str = "") -> Any:
        version = {"Microsoft.Compute/disks": "2023-04-02", "Microsoft.Compute/snapshots": "2023-04-02"}
        url = url_of(type_, name + action, version=version.get(type_, ""))
        reply = ask(front, method, url, body)
        key = type_.partition("/")[2] + re.sub(r"/[^/]+(?=/|$)", "", "") + (action if method == "POST" else "")
        seen[method, key].append(reply)
        assert reply.status < 400, reply.body
        return reply.body

    subnet = front.path("machines", "Microsoft.Network/virtualNetworks", "default") + "/subnets/default"
    nic = {**PLACE, "properties": {"ipConfigurations": [{"name": "a", "properties": {"subnet": {"id": subnet}}}]}}
    made = do("PUT", "Microsoft.Network/networkInterfaces", "nic", nic)
    do("GET", "Microsoft.Network/networkInterfaces", "nic")
    for kind in ("networkSecurityGroups", "applicationSecurityGroups", "publicIPAddresses"):
        for method in ("PUT", "GET", "DELETE"):
            do(method, f"Microsoft.Network/{kind}", "x", PLACE if method == "PUT" else None)
    counts = {"platformFaultDomainCount": 2, "platformUpdateDomainCount": 5}
    group = {**PLACE, "sku": {"name": "Aligned"}, "properties": counts}
    for method in ("PUT", "GET", "DELETE"):
        do(method, "Microsoft.Compute/availabilitySets", "set", group if method == "PUT" else None)
    disk = {**PLACE, "properties": {"creationData": {"createOption": "Empty"}, "diskSizeGB": 4}}
    source = do("PUT", "Microsoft.Compute/disks", "disk", disk)["id"]
    do("GET", "Microsoft.Compute/disks", "disk")
    data = {"creationData": {"createOption": "Copy", "sourceResourceId": source}}
    for method in ("PUT", "GET", "DELETE"):
        do(method, "Microsoft.Compute/snapshots", "copy", {**PLACE, "properties": data} if method == "PUT" else None)
    image = {"storageProfile": {"osDisk": {"osType": "Linux", "osState": "Generalized", "managedDisk": {"id": source}}}}
    for method in ("PUT", "GET", "DELETE"):
        do(method, "Microsoft.Compute/images", "image", {**PLACE, "properties": image} if method == "PUT" else None)
    reference = {"publisher": "Debian", "offer": "debian-12", "sku": "12", "version": "latest"}
    vm = {
        "hardwareProfile": {"vmSize": "Standard_D2s_v5"},
        "storageProfile": {"imageReference": reference, "osDisk": {"createOption": "FromImage"}},
        "osProfile": {"computerName": "vm", "adminUsername": "me", "adminPassword": "Pass.word-1234"},
        "networkProfile": {"networkInterfaces": [{"id": made["id"]}]},
    }
    do("PUT", "Microsoft.Compute/virtualMachines", "vm", {**PLACE, "properties": vm})
    do("GET", "Microsoft.Compute/virtualMachines", "vm")
    do("PATCH", "Microsoft.Compute/virtualMachines", "vm", {"tags": {"a": "b"}})
    wanted = {"dataDisksToAttach": [{"diskId": source, "lun": 0}]}
    do("POST", "Microsoft.Compute/virtualMachines", "vm", wanted, "/attachDetachDataDisks")
    do("POST", "Microsoft.Compute/virtualMachines", "vm", None, "/deallocate")
    do("POST", "Microsoft.Compute/virtualMachines", "vm", None, "/start")
    do("DELETE", "Microsoft.Compute/virtualMachines", "vm")
    do("DELETE", "Microsoft.Network/networkInterfaces", "nic")
    do("DELETE", "Microsoft.Compute/disks", "disk")
    return seen


def recorded() -> dict[tuple[str, str], list[dict[str, Any]]]:
    found: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for one in exchanges():
        path = one["uri"].partition("?")[0]
        type_ = type_of(one["uri"])
        if one["method"] == "POST" and type_ is None:
            action = re.search(r"/providers/Microsoft\.Compute/(virtualMachines)/[^/]+/([^/]+)$", path)
            type_ = f"{action[1]}/{action[2]}" if action else None
        if type_ and one["status"] < 400:
            found[one["method"], type_].append(one)
    return found


def test_statuses_and_headers_are_those_of_the_real_service(tmp_path: Path) -> None:
    real = recorded()
    checked = 0
    for key, replies in life(open_front(tmp_path)).items():
        known = {(one["status"], running_headers(one["headers"])) for one in real.get(key, ())}
        for reply in replies if known and key != ("PUT", "virtualMachines") else ():  # no creation of a VM was recorded
            assert (reply.status, running_headers(reply.headers)) in known, key
            checked += 1
    assert checked > 20


def test_answers_have_the_fields_that_all_recorded_ones_have(tmp_path: Path) -> None:
    checked = 0
    real = recorded()
    for (method, type_), replies in life(open_front(tmp_path)).items():
        answers = [one["answer"] for one in real.get((method, type_), ()) if isinstance(one["answer"], dict)]
        if method != "GET" or not answers:
            continue
        always = set.intersection(*(set(one) for one in answers)) - RARE
        inside = set.intersection(*(set(one.get("properties") or ()) for one in answers)) - RARE
        for reply in replies:
            assert always <= set(reply.body), type_
            assert inside <= set(reply.body["properties"]), type_
            checked += 1
    assert checked > 6


def test_what_the_real_service_took_is_not_refused() -> None:
    """But for what newer definitions call read-only, which libraries of their time sent back."""
    checked = 0
    for one in exchanges():
        if one["method"] != "PUT" or one["status"] >= 400 or type_of(one["uri"]) is None:
            continue
        try:
            operation, _ = find_operation("PUT", one["uri"].partition("?")[0].partition(".com")[2])
        except ApiError:
            continue  # what the definition was cut by
        try:
            require_body(operation, one["request"])
        except ApiError as error:
            mistakes = error.message.partition(": ")[2].split("; ")
            assert all(line.endswith(("read-only", "required")) for line in mistakes), (one["uri"], mistakes)
        checked += 1
    assert checked > 60


def test_refusals_look_like_recorded_ones(tmp_path: Path) -> None:
    front = open_front(tmp_path)
    reply = ask(front, "GET", url_of("Microsoft.Compute/virtualMachines", "none"))
    real = [one for one in exchanges() if one["status"] == 404 and type_of(one["uri"]) == "virtualMachines"]
    assert {(reply.status, reply.body["error"]["code"])} <= {(404, one["answer"]["error"]["code"]) for one in real}
    words = re.sub(r"'[^']*'", "''", reply.body["error"]["message"])
    assert words in {re.sub(r"'[^']*'", "''", one["answer"]["error"]["message"]) for one in real}
