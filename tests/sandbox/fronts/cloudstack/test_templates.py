"""Templates: fetched by every zone's storage VM, uploaded, copied, extracted; shown to whom they concern."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from cs import CloudStack

import requests
from tests.sandbox.fronts.cloudstack.rig import Rig, eventually, refused


@contextmanager
def served(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[tuple[str, list[str]]]:
    """A web server on this machine that answers every GET like this; its address, and what was asked."""
    arguments: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # chunks are known since then

        def do_GET(self) -> None:
            arguments.append(self.path)
            answer(self)
            self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", arguments
    finally:
        server.shutdown()
        server.server_close()


def whole(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("content-length", "70000")
    handler.end_headers()
    handler.wfile.write(b"x" * 70000)


def chunked(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("x-file-size", "5")
    handler.send_header("transfer-encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(b"2\r\nim\r\n3\r\nage\r\n0\r\n\r\n")


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


def register(rig: Rig, url: str, client: CloudStack | None = None, **more: Any) -> list[dict[str, Any]]:
    order = {"name": "t", "displaytext": "t", "format": "QCOW2", "hypervisor": "KVM", **more}
    rows: list[dict[str, Any]] = (client or rig.admin).registerTemplate(url=url, **order)["template"]
    return rows


def settled(rig: Rig, wanted: str) -> list[str] | None:
    """What all zones say, once none is under way."""
    found = [row["status"] for row in rows_of(rig, wanted)]
    return None if any(one == "Processing" or one.endswith("% Downloaded") for one in found) else found


def rows_of(rig: Rig, wanted: str) -> list[dict[str, Any]]:
    return list(rig.admin.listTemplates(templatefilter="self", id=wanted)["template"])


@pytest.mark.parametrize("answer", [whole, chunked])
def test_every_zone_really_fetches_a_template_once(rig: Rig, answer: Callable[[BaseHTTPRequestHandler], None]) -> None:
    rig.set(coterie_loopback_urls="true")
    with served(answer) as (origin, arguments):
        made = register(rig, f"{origin}/t.qcow2")
        assert {row["zonename"] for row in made} == {"z1", "z2"}
        assert all(row["isready"] is False for row in made)
        assert eventually(lambda: all(row["isready"] for row in rows_of(rig, made[0]["id"])))
    assert {row["status"] for row in rows_of(rig, made[0]["id"])} == {"Download Complete"}
    assert arguments == ["/t.qcow2"] * 2


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (moved, "302"),
        (of_unknown_length, "Content-Length"),
        (cut_off, "5 of 100"),
    ],
)
def test_a_failed_download_shows_the_raw_error(
    rig: Rig, answer: Callable[[BaseHTTPRequestHandler], None], words: str
) -> None:
    rig.set(coterie_loopback_urls="true")
    with served(answer) as (origin, arguments):
        (wanted,) = {row["id"] for row in register(rig, f"{origin}/t.qcow2")}
        statuses = eventually(lambda: settled(rig, wanted))
    assert all(words in status for status in statuses)
    assert len(arguments) == 2
    with refused(431):
        rig.deploy(templateid=wanted)


def test_urls_must_be_reachable_from_the_storage_vm_and_end_as_their_format(rig: Rig) -> None:
    unknown = "http://no-such-host.invalid/t.qcow2"
    for url in ("http://127.0.0.1/t.qcow2", "http://169.254.1.1/t.qcow2", "file:///t.qcow2", unknown):
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
    assert requests.post(permit["postURL"], headers=forged, files={"file": b"x"}, timeout=60).status_code == 401
    late = {**headers, "x-expires": "2099-01-01T00:00:00+0000"}
    assert requests.post(permit["postURL"], headers=late, files={"file": b"x"}, timeout=60).status_code == 401
    assert rows_of(rig, permit["id"])[0]["isready"] is False
    assert requests.post(permit["postURL"], headers=headers, files={"file": b"x" * 300000}, timeout=60).ok
    assert rows_of(rig, permit["id"])[0]["size"] == 300000
    assert requests.post(permit["postURL"], headers=headers, files={"file": b"x"}, timeout=60).status_code == 431


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


def test_the_status_tells_how_far_a_download_is(rig: Rig) -> None:
    rig.set(coterie_loopback_urls="true")
    half, rest = threading.Event(), threading.Event()

    def in_two_parts(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("content-length", str(2**18))
        handler.end_headers()
        half.wait(60)
        handler.wfile.write(b"x" * 2**17)
        rest.wait(60)
        handler.wfile.write(b"x" * 2**17)

    with served(in_two_parts) as (origin, _):
        wanted = register(rig, f"{origin}/t.qcow2", zoneid=rig.zone())[0]["id"]
        assert rows_of(rig, wanted)[0]["status"] == "Processing"
        half.set()
        assert eventually(lambda: rows_of(rig, wanted)[0]["status"] == "50% Downloaded")
        with refused(431):
            rig.deploy(templateid=wanted)
        rest.set()
        assert eventually(lambda: rows_of(rig, wanted)[0]["status"] == "Download Complete")


def test_zones_are_ready_each_on_its_own(rig: Rig) -> None:
    rig.set(coterie_loopback_urls="true")
    first = threading.Lock()

    def only_the_first(handler: BaseHTTPRequestHandler) -> None:
        whole(handler) if first.acquire(blocking=False) else moved(handler)

    with served(only_the_first) as (origin, _):
        wanted = register(rig, f"{origin}/t.qcow2")[0]["id"]
        assert eventually(lambda: settled(rig, wanted))
    ready = {row["zonename"]: row["isready"] for row in rows_of(rig, wanted)}
    assert sorted(ready.values()) == [False, True]


def test_a_raw_error_is_shown_to_the_owner_and_to_administrators(rig: Rig) -> None:
    rig.set(coterie_loopback_urls="true")
    with served(moved) as (origin, _):
        theirs = register(rig, f"{origin}/t.qcow2", rig.user, ispublic=True)[0]["id"]
        ours = register(rig, f"{origin}/t.qcow2", rig.admin, ispublic=True)[0]["id"]
        assert eventually(lambda: settled(rig, ours))
    (owner, *_) = eventually(
        lambda: [
            r for r in rig.user.listTemplates(templatefilter="self", id=theirs)["template"] if "302" in r["status"]
        ]
    )
    assert "302" in owner["status"]
    everything = rig.admin.listTemplates(templatefilter="all", listall=True, id=theirs)["template"]
    assert "302" in everything[0]["status"]
    assert "status" not in rig.user.listTemplates(templatefilter="community", id=ours)["template"][0]


def test_what_others_made_public_can_be_used_and_the_rest_cannot(rig: Rig) -> None:
    private = rig.template("admin")
    assert rig.user.listTemplates(templatefilter="executable") == {}
    with refused(431):
        rig.deploy("user", templateid=private)
    public, own = rig.upload(rig.admin, ispublic=True), rig.template("user")
    seen = {which: rig.user.listTemplates(templatefilter=which)["template"] for which in ("executable", "self")}
    assert {row["id"] for row in seen["executable"]} == {public, own}
    assert {row["id"] for row in seen["self"]} == {own}
    assert rig.deploy("user", templateid=public)["templateid"] == public


def test_an_extracted_template_is_fetched_by_the_cloud_itself(rig: Rig) -> None:
    wanted = rig.upload(rig.user, b"x" * 70000)
    with refused(531):
        rig.user.extractTemplate(id=wanted, mode="HTTP_DOWNLOAD", zoneid=rig.zone())
    extract = rig.admin.extractTemplate(id=wanted, mode="HTTP_DOWNLOAD", zoneid=rig.zone())["template"]
    assert requests.get(extract["url"], timeout=60).headers["content-length"] == "70000"
    copy = register(rig, extract["url"])[0]["id"]
    assert eventually(lambda: all(row["isready"] for row in rows_of(rig, copy)))
    assert rows_of(rig, copy)[0]["size"] == 70000
