"""The core's own servers as they are configured, and the secrets of the configuration that stay hidden."""

from __future__ import annotations

import http.client
import json
import socket
from pathlib import Path

import pytest

from coterie.bosh.config import load
from coterie.bosh.core.serve import serve
from coterie.bosh.core.service import _driver_properties
from coterie.errors import CoterieError
from tests.bosh.program import Shop
from tests.peers.ports import free_port


def test_no_secret_is_in_the_words_of_a_process_or_in_its_log(shop: Shop) -> None:
    place = {"state": str(shop.folder / "sandbox.db"), "account": "lab", "quotas": {"api_key": "very-secret-key"}}
    shop.configure(properties=place)
    with shop.core() as core:
        answer = shop.run(shop.request("has_vm", "i-1")).stdout
        assert b"quotas" in answer
        words = Path(f"/proc/{core.pid}/cmdline").read_bytes() + Path(shop.launcher()).read_bytes()
    assert b"very-secret-key" not in answer + words + shop.log.read_bytes()
    assert b"serving" in shop.log.read_bytes()


def test_the_core_publishes_images_as_configured(shop: Shop) -> None:
    address = f"127.0.0.1:{free_port()}"
    section = {"listen": address, "url": f"http://{address}", "user": "us", "password": "pw"}
    shop.configure(publish_server={**section, "folder": str(shop.folder / "shelf")})
    with shop.core():
        link = http.client.HTTPConnection(address, timeout=60)
        link.request("PUT", "/images/a.qcow2", b"image", {"Authorization": "Basic dXM6cHc="})
        answer = json.loads(link.getresponse().read())
        link.request("GET", answer["url"].removeprefix(f"http://{address}"))
        assert link.getresponse().read() == b"image"
        link.close()


@pytest.mark.parametrize("name", ["registry", "publish_server"])
def test_a_port_that_is_taken_is_named(shop: Shop, name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        own = {"listen": f"127.0.0.1:{other.getsockname()[1]}", "user": "us", "password": "pw"}
        more = {"endpoint": "http://e"} if name == "registry" else {"url": "http://u", "folder": str(shop.folder / "f")}
        shop.configure(**{name: {**own, **more}})
        with pytest.raises(CoterieError, match=f"{name}.listen: nothing can listen on") as caught:
            serve(str(shop.config))
    assert f"set {name}.listen" in caught.value.remedy
    assert not shop.socket.exists()


def test_a_driver_that_can_publish_through_our_server_gets_its_address(shop: Shop) -> None:
    section = {"listen": "127.0.0.1:1", "url": "http://u", "user": "us", "password": "pw", "folder": "/f"}
    own = {"publish_mode": "server", "publish_user": "own"}
    shop.configure(driver="cloudstack", publish_server=section, properties=own)
    assert _driver_properties(load(str(shop.config))) == {
        "publish_mode": "server",
        "publish_url": "http://u",
        "publish_user": "own",
        "publish_password": "pw",
    }
    shop.configure(driver="sandbox", publish_server=section, properties={"account": "lab"})
    assert _driver_properties(load(str(shop.config))) == {"account": "lab"}
