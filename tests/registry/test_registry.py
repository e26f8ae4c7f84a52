"""The registry: agents get their settings, strangers nothing; on both databases; and what the core writes into it."""

from __future__ import annotations

import base64
import http.client
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from coterie.ledger.store import Ledger
from coterie.registry import document
from coterie.registry.server import RegistryServer, registry_server
from tests.bosh.program import Shop, result

AUTH = {"Authorization": "Basic " + base64.b64encode(b"agent:pw").decode()}
PATH = "/instances/i-1/settings"


@pytest.fixture
def server(ledger: Ledger) -> Iterator[RegistryServer]:
    made = registry_server("127.0.0.1:0", ledger, "agent", "pw")
    threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def ask(port: int, verb: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> tuple[int, Any]:
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    link.request(verb, path, body, AUTH if headers is None else headers)
    answer = link.getresponse()
    told = json.loads(answer.read())
    link.close()
    return answer.status, told


def test_settings_come_and_go(server: RegistryServer) -> None:
    port = server.server_address[1]
    assert ask(port, "GET", PATH) == (404, {"status": "not_found"})
    assert ask(port, "PUT", PATH, '{"agent_id": "a"}')[0] == 201
    assert ask(port, "PUT", PATH, '{"agent_id": "b"}')[0] == 200
    assert ask(port, "GET", PATH) == (200, {"status": "ok", "settings": '{"agent_id": "b"}'})
    assert ask(port, "GET", "/instances/i-2/settings")[0] == 404
    assert ask(port, "DELETE", PATH)[0] == 200
    assert ask(port, "GET", PATH)[0] == 404
    assert ask(port, "DELETE", PATH)[0] == 200


@pytest.mark.parametrize("verb", ["GET", "PUT", "DELETE"])
@pytest.mark.parametrize("headers", [{}, {"Authorization": "Basic bm86"}, {"Authorization": "x"}])
def test_strangers_get_nothing(server: RegistryServer, verb: str, headers: dict[str, str]) -> None:
    assert ask(server.server_address[1], verb, PATH, "{}" if verb == "PUT" else None, headers)[0] == 401


@pytest.mark.parametrize(("path", "body", "status"), [("/settings", "{}", 404), (PATH, "{", 400), (PATH, "\xff", 400)])
def test_nonsense_is_refused(server: RegistryServer, path: str, body: str, status: int) -> None:
    assert ask(server.server_address[1], "PUT", path, body.encode("latin-1"))[0] == status


def test_a_document_that_is_too_large(server: RegistryServer) -> None:
    headers = {**AUTH, "Content-Length": str(1 << 30)}
    assert ask(server.server_address[1], "PUT", PATH, b"", headers)[0] == 413


def test_the_document() -> None:
    env = {"bosh": {"mbus": {"urls": ["nats://m"]}, "ntp": ["t"], "blobstores": [{"provider": "dav"}], "registry": {}}}
    made = document.settings("a", "cot-x", {"default": {"ip": "127.0.0.9"}}, env, {"system": "/dev/vda"})
    assert made["disks"] == {"system": "/dev/vda", "ephemeral": None, "persistent": {}}
    assert (made["agent_id"], made["mbus"], made["ntp"], made["blobstore"]) == (
        "a",
        "nats://m",
        ["t"],
        {"provider": "dav"},
    )
    assert "registry" not in made["env"]["bosh"]
    attached = document.with_disk(made, "d-1", {"path": "/dev/sdb"})
    assert attached["disks"]["persistent"] == {"d-1": {"path": "/dev/sdb"}}
    assert document.with_disk(attached, "d-1", None)["disks"]["persistent"] == {}


def user_data(shop: Shop, cid: str) -> Any:
    with shop.account.datacenter.store.reading() as db:
        query = "SELECT user_data FROM vms JOIN objects ON objects.seq = vms.object WHERE objects.id = ?"
        return json.loads(db.execute(query, (cid,)).fetchone()[0])


def test_a_machine_of_an_old_stemcell_through_the_core(
    tmp_path_factory: pytest.TempPathFactory, free_port: int
) -> None:
    section = {"listen": f"127.0.0.1:{free_port}", "endpoint": f"http://127.0.0.1:{free_port}"}
    shop = Shop(tmp_path_factory.mktemp("r"), registry={**section, "user": "agent", "password": "pw"})
    old = {"vm": {"stemcell": {"api_version": 1}}}
    with shop.core():
        stemcell = result(shop.run(shop.request("create_stemcell", str(shop.image), {})).stdout)
        request = shop.request("create_vm", *shop.vm_arguments("agent-1", stemcell), **old)
        cid = result(shop.run(request).stdout)[0]
        told = user_data(shop, cid)
        assert told["registry"]["endpoint"] == f"http://agent:pw@127.0.0.1:{free_port}"
        path = f"/instances/{told['server']['name']}/settings"
        settings = json.loads(ask(free_port, "GET", path)[1]["settings"])
        assert settings["agent_id"] == "agent-1"
        assert settings["disks"] == {"system": "/dev/sda", "ephemeral": "/dev/sdb", "persistent": {}}
        assert settings["networks"]["default"]["ip"]
        disk = result(shop.run(shop.request("create_disk", 1024, {"zone": "z1"}, cid)).stdout)
        result(shop.run(shop.request("attach_disk", cid, disk, **old)).stdout)
        assert disk in json.loads(ask(free_port, "GET", path)[1]["settings"])["disks"]["persistent"]
        result(shop.run(shop.request("detach_disk", cid, disk, **old)).stdout)
        assert json.loads(ask(free_port, "GET", path)[1]["settings"])["disks"]["persistent"] == {}
        result(shop.run(shop.request("delete_vm", cid)).stdout)
        assert ask(free_port, "GET", path)[0] == 404
