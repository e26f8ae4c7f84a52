"""The core's own servers in front of CloudStack: images that zones fetch, settings that old agents ask for."""

from __future__ import annotations

import base64
import http.client
import json
import secrets
from typing import Any
from urllib.parse import urlsplit

import pytest

from coterie.ledger.tables import registry_settings
from tests.bosh.cloud_program import CloudShop
from tests.bosh.program import CpiFailure, result
from tests.peers.ports import free_port

PASSWORD = "s3cret-word"
OLD = {"vm": {"stemcell": {"api_version": 1}}}


@pytest.fixture
def address() -> str:
    return f"127.0.0.1:{free_port()}"


def publishing(shop: CloudShop, address: str) -> None:
    shop.bed.set("coterie.loopback.urls", "true")
    shelf = {"listen": address, "url": f"http://{address}", "folder": str(shop.folder / "shelf")}
    properties = {**shop.cloud()["properties"], "publish_mode": "server"}
    shop.configure(properties=properties, publish_server={**shelf, "user": "us", "password": PASSWORD})


def test_zones_fetch_an_image_from_the_core_which_forgets_it_then(cloud_shop: CloudShop, address: str) -> None:
    publishing(cloud_shop, address)
    cloud_shop.image.write_bytes(b"QFI\xfb" + secrets.token_bytes(3 << 20))
    with cloud_shop.core():
        made = result(cloud_shop.run(cloud_shop.request("create_stemcell", str(cloud_shop.image), {})).stdout)
        template = cloud_shop.bed.client().listTemplates(templatefilter="self", id=made)["template"]
        assert {row["isready"] for row in template} == {True}
        assert template[0]["size"] == cloud_shop.image.stat().st_size
        assert [file.name for file in (cloud_shop.folder / "shelf").iterdir()] == [".key"]
        cid = result(cloud_shop.run(cloud_shop.vm_request("agent-1", made)).stdout)[0]
    assert cloud_shop.inventory() == {"image": [made], "vm": [cid]}


def test_without_the_core_the_way_to_publish_is_named(cloud_shop: CloudShop, address: str) -> None:
    publishing(cloud_shop, address)
    with pytest.raises(CpiFailure, match="that the server runs") as caught:
        cloud_shop.stemcell()
    assert PASSWORD not in str(caught.value)
    assert cloud_shop.inventory() == {}


def agents_view(shop: CloudShop, cid: str) -> dict[str, Any]:
    told = shop.bed.client().getVirtualMachineUserData(virtualmachineid=cid)["virtualmachineuserdata"]["userdata"]
    found: dict[str, Any] = json.loads(base64.b64decode(told))
    return found


def settings_of(userdata: dict[str, Any]) -> dict[str, Any]:
    """As an agent of api_version 1 gets them: the registry's address and its own name are in the user data."""
    where = urlsplit(userdata["registry"]["endpoint"])
    pair = base64.b64encode(f"{where.username}:{where.password}".encode()).decode()
    link = http.client.HTTPConnection(where.hostname or "", where.port, timeout=60)
    path = f"/instances/{userdata['server']['name']}/settings"
    link.request("GET", path, headers={"Authorization": f"Basic {pair}"})
    answer = json.loads(link.getresponse().read())
    link.close()
    found: dict[str, Any] = json.loads(answer["settings"])
    return found


def test_an_old_agent_finds_its_settings_in_the_registry(cloud_shop: CloudShop, address: str) -> None:
    section = {"listen": address, "endpoint": f"http://{address}", "user": "agent", "password": PASSWORD}
    cloud_shop.configure(registry=section)
    arguments = cloud_shop.vm_arguments("agent-1", cloud_shop.template, ephemeral_disk_offering="custom", disk=1024)
    with cloud_shop.core():
        cid = result(cloud_shop.run(cloud_shop.request("create_vm", *arguments, **OLD)).stdout)[0]
        userdata = agents_view(cloud_shop, cid)
        settings = settings_of(userdata)
        assert settings["agent_id"] == "agent-1"
        assert settings["disks"] == {**userdata["disks"], "persistent": {}}
        assert settings["disks"]["ephemeral"]
        disk = result(cloud_shop.run(cloud_shop.request("create_disk", 1024, {}, cid)).stdout)
        hint = result(cloud_shop.run(cloud_shop.request("attach_disk", cid, disk, **OLD)).stdout)
        assert settings_of(userdata)["disks"]["persistent"] == {disk: hint}
        result(cloud_shop.run(cloud_shop.request("delete_vm", cid, **OLD)).stdout)
    with cloud_shop.ledger() as ledger, ledger.read() as tx:
        assert tx.execute(registry_settings.select()).all() == [], "they are forgotten with the machine"


def test_a_new_agent_has_everything_in_its_user_data(cloud_shop: CloudShop) -> None:
    new = {"vm": {"stemcell": {"api_version": 2}}}
    cid = cloud_shop.call("create_vm", *cloud_shop.vm_arguments("agent-1", cloud_shop.template), **new)[0]
    userdata = agents_view(cloud_shop, cid)
    assert userdata.keys() >= {"agent_id", "vm", "networks", "disks", "env"}
    assert (userdata["agent_id"], "registry" in userdata) == ("agent-1", False)
    assert userdata["disks"]["system"]
