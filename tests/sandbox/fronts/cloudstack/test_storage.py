"""Volumes, snapshots, templates: promises until they are used, pins of local storage, downloads that really happen."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import requests

from tests.sandbox.fronts.cloudstack.rig import Rig, eventually, refused


def test_a_volume_is_allocated_until_it_is_attached(rig: Rig) -> None:
    volume = rig.volume()
    assert volume["state"] == "Allocated"
    assert "storageid" not in volume
    with refused(431):
        rig.admin.createSnapshot(volumeid=volume["id"])
    attached = rig.admin.attachVolume(id=volume["id"], virtualmachineid=rig.deploy()["id"])["volume"]
    assert attached["state"] == "Ready"
    assert attached["storageid"]
    assert rig.admin.createSnapshot(volumeid=volume["id"], name="s")["snapshot"]["volumeid"] == volume["id"]


def test_a_volume_on_local_storage_stays_on_its_first_host(rig: Rig) -> None:
    hosts = [row["id"] for row in rig.admin.listHosts(zoneid=rig.zone())["host"]]
    here, there = (rig.deploy(hostid=host) for host in hosts)
    volume = rig.volume("local")["id"]
    rig.admin.attachVolume(id=volume, virtualmachineid=here["id"])
    rig.admin.detachVolume(id=volume)
    with refused(530):
        rig.admin.attachVolume(id=volume, virtualmachineid=there["id"])
    rig.admin.attachVolume(id=volume, virtualmachineid=here["id"])


def test_device_0_is_the_root_disk_and_3_the_cd_rom(rig: Rig) -> None:
    vm = rig.deploy()["id"]
    devices = [
        rig.admin.attachVolume(id=rig.volume()["id"], virtualmachineid=vm)["volume"]["deviceid"] for _ in range(3)
    ]
    assert devices == [1, 2, 4]
    with refused(431):
        rig.admin.attachVolume(id=rig.volume()["id"], virtualmachineid=vm, deviceid=3)
    (root,) = rig.admin.listVolumes(virtualmachineid=vm, type="ROOT")["volume"]
    assert root["deviceid"] == 0


def test_sizes_are_gib_and_the_offering_says_who_chooses_them(rig: Rig) -> None:
    assert rig.volume(size=3)["size"] == 3 * 2**30
    with refused(431):
        rig.volume("10g")
    with refused(431):
        rig.admin.createVolume(name="n", zoneid=rig.zone(), diskofferingid=rig.disk_offering())


def test_a_volume_grows_and_is_renamed(rig: Rig) -> None:
    volume = rig.volume()["id"]
    assert rig.admin.resizeVolume(id=volume, size=2)["volume"]["size"] == 2 * 2**30
    with refused(431):
        rig.admin.resizeVolume(id=volume, size=1)
    assert rig.admin.updateVolume(id=volume, name="other")["volume"]["name"] == "other"


# -- templates --


@contextmanager
def served(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[tuple[str, list[str]]]:
    """A web server on this machine that answers every GET like this; its address, and what was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            answer(self)

        def log_message(self, format: str, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()


def whole(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("content-length", "70000")
    handler.end_headers()
    handler.wfile.write(b"x" * 70000)


def sized_by_a_header_of_their_own(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("x-file-size", "5")
    handler.end_headers()
    handler.wfile.write(b"image")


def moved(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(302)
    handler.send_header("location", "http://127.0.0.1:1/other.qcow2")
    handler.send_header("content-length", "0")
    handler.end_headers()


def of_unknown_length(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    handler.wfile.write(b"image")


def cut_off(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("content-length", "100")
    handler.end_headers()
    handler.wfile.write(b"image")


def register(rig: Rig, url: str, **more: Any) -> list[dict[str, Any]]:
    order = {"name": "t", "displaytext": "t", "format": "QCOW2", "hypervisor": "KVM", **more}
    rows: list[dict[str, Any]] = rig.admin.registerTemplate(url=url, **order)["template"]
    return rows


def rows_of(rig: Rig, wanted: str) -> list[dict[str, Any]]:
    return list(rig.admin.listTemplates(templatefilter="self", id=wanted)["template"])


@pytest.mark.parametrize("answer", [whole, sized_by_a_header_of_their_own])
def test_a_template_is_really_fetched_once_and_ready_in_every_zone(
    rig: Rig, answer: Callable[[BaseHTTPRequestHandler], None]
) -> None:
    rig.set(coterie_loopback_urls="true")
    with served(answer) as (origin, asked):
        made = register(rig, f"{origin}/t.qcow2")
        assert {row["zonename"] for row in made} == {"z1", "z2"}
        assert all(row["isready"] is False for row in made)
        assert eventually(lambda: all(row["isready"] for row in rows_of(rig, made[0]["id"])))
    assert {row["status"] for row in rows_of(rig, made[0]["id"])} == {"Download Complete"}
    assert asked == ["/t.qcow2"]


@pytest.mark.parametrize(
    ("answer", "words"), [(moved, "302"), (of_unknown_length, "Content-Length"), (cut_off, "5 of 100")]
)
def test_a_failed_download_shows_the_raw_error(
    rig: Rig, answer: Callable[[BaseHTTPRequestHandler], None], words: str
) -> None:
    rig.set(coterie_loopback_urls="true")
    with served(answer) as (origin, asked):
        (wanted,) = {row["id"] for row in register(rig, f"{origin}/t.qcow2")}
        status = eventually(
            lambda: (s := rows_of(rig, wanted)[0]["status"]) not in ("Processing", "0% Downloaded") and s
        )
    assert words in status or "IncompleteRead" in status
    assert len(asked) == 1
    with refused(431):
        rig.deploy(templateid=wanted)


def test_urls_must_be_reachable_from_the_storage_vm_and_end_as_their_format(rig: Rig) -> None:
    for url in ("http://127.0.0.1/t.qcow2", "http://169.254.1.1/t.qcow2", "file:///t.qcow2"):
        with refused(431):
            register(rig, url)
    rig.set(coterie_loopback_urls="true")
    with refused(431):
        register(rig, "http://127.0.0.1/t.vhd")


def test_an_upload_needs_its_signature_and_counts_once(rig: Rig) -> None:
    permit = rig.admin.getUploadParamsForTemplate(
        name="t", displaytext="t", format="QCOW2", hypervisor="KVM", zoneid=rig.zone()
    )["getuploadparams"]
    headers = {f"x-{name}": permit[name] for name in ("signature", "metadata", "expires")}
    forged = {**headers, "x-signature": "forged"}
    assert requests.post(permit["postURL"], headers=forged, files={"file": b"x"}, timeout=10).status_code == 401
    late = {**headers, "x-expires": "2099-01-01T00:00:00+0000"}
    assert requests.post(permit["postURL"], headers=late, files={"file": b"x"}, timeout=10).status_code == 401
    assert rows_of(rig, permit["id"])[0]["isready"] is False
    assert requests.post(permit["postURL"], headers=headers, files={"file": b"x" * 300000}, timeout=10).ok
    assert rows_of(rig, permit["id"])[0]["size"] == 300000
    assert requests.post(permit["postURL"], headers=headers, files={"file": b"x"}, timeout=10).status_code == 431


def test_a_template_is_copied_to_another_zone_and_deleted_by_zone(rig: Rig) -> None:
    wanted = rig.template()
    assert [row["zonename"] for row in rows_of(rig, wanted)] == ["z1"]
    with refused(431):
        rig.deploy(zoneid=rig.zone("z2"))
    rig.admin.copyTemplate(id=wanted, sourcezoneid=rig.zone(), destzoneids=rig.zone("z2"))
    rig.deploy(zoneid=rig.zone("z2"))
    rig.admin.deleteTemplate(id=wanted, zoneid=rig.zone())
    assert [row["zonename"] for row in rows_of(rig, wanted)] == ["z2"]
    rig.admin.deleteTemplate(id=wanted)
    assert rig.admin.listTemplates(templatefilter="self", id=wanted) == {}
