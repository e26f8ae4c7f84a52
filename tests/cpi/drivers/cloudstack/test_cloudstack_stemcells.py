"""Stemcells: by upload, by URL, through a publisher, light; ready in every zone, or an error that says why."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from peers.cloudstack_bed import CloudstackBed, CloudstackUserBed

from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import CpiError, Expected, InvalidCall, OutcomeUnknown, StemcellNotFound
from coterie.sandbox import faults
from coterie.stemcell.server import publishing_server
from coterie.stemcell.shelf import Shelf as Published
from peers import official_stemcells


@contextmanager
def served(*statuses: int) -> Iterator[str]:
    """A web server that answers so, one after the other, and then always as the last."""
    left = list(statuses)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(left.pop(0) if left[1:] else left[0])
            self.send_header("content-length", "5")
            self.end_headers()
            self.wfile.write(b"image")

        def log_message(self, format: str, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/image.qcow2"
    finally:
        server.shutdown()
        server.server_close()


def rows(bed: CloudstackBed, cid: str) -> list[dict[str, Any]]:
    return list(bed.client().listTemplates(templatefilter="self", id=cid)["template"])


def templates(bed: CloudstackBed) -> dict[str, set[str]]:
    rows = bed.client().listTemplates(templatefilter="self")["template"]
    found: dict[str, set[str]] = {}
    for row in rows:
        if row["name"].startswith("cot-") and row["isready"]:
            found.setdefault(row["id"], set()).add(row["zonename"])
    return found


def test_an_upload_is_ready_in_every_zone_and_tagged(bed: CloudstackBed, lab: Lab) -> None:
    path, properties = bed.image()
    mark = lab.mark()
    cid = lab.cpi.create_stemcell(path, properties, {"tags": {"os": "jammy"}}, mark=mark)
    lab.undo(lab.cpi.delete_stemcell, cid)
    assert templates(bed) == {cid: {"z1", "z2", "z3"}}
    assert {row["ispublic"] for row in rows(bed, cid)} == {False}
    found = lab.cpi.find("image", mark)
    assert found and found.tags == {"os": "jammy", "coterie-director": mark.director}


@pytest.mark.parametrize(
    ("which", "form", "hypervisor"),
    [
        ("openstack-qcow2", "QCOW2", "KVM"),
        ("openstack-raw", "RAW", "KVM"),
        ("cloudstack-vhdx", "VHDX", "XenServer"),
    ],
)
def test_an_official_stemcell_is_registered_as_what_it_was_built_for(
    bed: CloudstackBed, lab: Lab, tmp_path: Path, which: str, form: str, hypervisor: str
) -> None:
    path = tmp_path / "image"
    path.write_bytes(b"disk")
    cid = lab.cpi.create_stemcell(str(path), official_stemcells.cloud_properties(which), mark=lab.mark())
    lab.undo(lab.cpi.delete_stemcell, cid)
    assert {(row["format"], row["hypervisor"], row["ostypename"]) for row in rows(bed, cid)} == {
        (form, hypervisor, "Other Linux (64-bit)")
    }
    offered = set(lab.cpi.info()["stemcell_formats"])
    assert offered & set(official_stemcells.manifest(which)["stemcell_formats"])


def test_the_disk_inside_an_official_image_is_uploaded_not_its_archive(
    bed: CloudstackBed, lab: Lab, tmp_path: Path
) -> None:
    path, disk, raw = tmp_path / "image", os.urandom(70_000), io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as packed:
        entry = tarfile.TarInfo("root.img")
        entry.size = len(disk)
        packed.addfile(entry, io.BytesIO(disk))
    path.write_bytes(raw.getvalue())
    cid = lab.cpi.create_stemcell(str(path), official_stemcells.cloud_properties("openstack-qcow2"), mark=lab.mark())
    lab.undo(lab.cpi.delete_stemcell, cid)
    assert {row["size"] for row in rows(bed, cid)} == {len(disk)}


@pytest.mark.parametrize(
    ("properties", "field"),
    [
        ({"os_type": "Ubuntu 22.04 LTS"}, "template_os_type"),
        ({"disk_format": "files"}, "qcow2"),
        ({"hypervisor": "boshlite"}, "hypervisor"),
    ],
)
def test_words_that_cloudstack_cannot_use_are_refused_before_anything_is_made(
    bed: CloudstackBed, lab: Lab, properties: dict[str, Any], field: str
) -> None:
    path, _ = bed.image()
    with pytest.raises(CpiError) as caught:
        lab.cpi.create_stemcell(path, properties, mark=lab.mark())
    assert field in f"{caught.value} {caught.value.remedy}".lower()
    assert templates(bed) == {}


def test_a_stemcell_is_public_if_the_settings_say_so(bed: CloudstackBed, lab: Lab) -> None:
    bed.more = {"stemcell_public_visibility": True}
    path, properties = bed.image()
    cid = bed.open().create_stemcell(path, properties, mark=lab.mark())
    lab.undo(lab.cpi.delete_stemcell, cid)
    assert {row["ispublic"] for row in rows(bed, cid)} == {True}


def test_a_large_upload_is_streamed_in_pieces(bed: CloudstackBed, lab: Lab, tmp_path: Path) -> None:
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(5 * 2**20 + 7)
    cid = lab.cpi.create_stemcell(str(large), {"zones": ["z2"]}, mark=lab.mark())
    lab.undo(lab.cpi.delete_stemcell, cid)
    (row,) = bed.client().listTemplates(templatefilter="self", id=cid)["template"]
    assert (row["size"], row["zonename"]) == (5 * 2**20 + 7, "z2")


def test_a_url_is_registered_and_a_failed_download_leaves_nothing(bed: CloudstackBed, lab: Lab) -> None:
    bed.set("coterie.loopback.urls", "true")
    with served(200) as url:
        cid = lab.cpi.create_stemcell("", {"url": url}, mark=lab.mark())
        lab.undo(lab.cpi.delete_stemcell, cid)
    assert templates(bed)[cid] == {"z1", "z2", "z3"}
    with served(404) as url, pytest.raises(CpiError, match="404"):
        lab.cpi.create_stemcell("", {"url": url}, mark=lab.mark())


class Shelf(ThreadingHTTPServer):
    """A publishing server as the program runs it: PUT and DELETE with a password, GET for any user with the link."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _ShelfHandler)
        self.images: dict[str, bytes] = {}
        self.seen: list[str] = []
        self.spoil = False
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def close(self) -> None:
        self.shutdown()
        self.server_close()


class _ShelfHandler(BaseHTTPRequestHandler):
    server: Shelf

    def do_PUT(self) -> None:
        raw = self.rfile.read(int(self.headers["content-length"]))
        if self._refused():
            return
        self.server.images[self._name()] = raw
        digest = hashlib.sha256(b"spoilt" if self.server.spoil else raw).hexdigest()
        link = f"{self.server.url}/i/{self._name()}"
        self._answer(201, json.dumps({"url": link, "sha256": digest, "size": len(raw)}).encode())

    def do_DELETE(self) -> None:
        if not self._refused():
            self._answer(204 if self.server.images.pop(self._name(), None) is not None else 404, b"")

    def do_GET(self) -> None:
        self.server.seen.append("GET")
        found = self.server.images.get(self._name())
        self._answer(404 if found is None else 200, found or b"")

    def do_OPTIONS(self) -> None:
        self._answer(200, b"")

    def _name(self) -> str:
        return self.path.rpartition("/")[2]

    def _refused(self) -> bool:
        self.server.seen.append(self.command)
        if self.headers.get("authorization") == "Basic " + base64.b64encode(b"us:s3cret-word").decode():
            return False
        self._answer(401, b"")
        return True

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.fixture
def shelf(bed: CloudstackBed) -> Iterator[Shelf]:
    bed.set("coterie.loopback.urls", "true")
    made = Shelf()
    bed.more = {
        "publish_mode": "server",
        "publish_url": made.url,
        "publish_user": "us",
        "publish_password": "s3cret-word",
    }
    yield made
    made.close()


def test_an_image_is_published_fetched_by_every_zone_and_taken_back(bed: CloudstackBed, lab: Lab, shelf: Shelf) -> None:
    path, properties = bed.image()
    cid = bed.open().create_stemcell(path, properties, mark=lab.mark())
    lab.undo(lab.cpi.delete_stemcell, cid)
    assert templates(bed)[cid] == {"z1", "z2", "z3"}
    assert shelf.seen == ["PUT", "GET", "GET", "GET", "DELETE"]
    assert shelf.images == {}


def test_the_program_s_own_publishing_server_is_understood(bed: CloudstackBed, lab: Lab, tmp_path: Path) -> None:
    bed.set("coterie.loopback.urls", "true")
    store = Published(str(tmp_path / "published"), 600)
    server = publishing_server("127.0.0.1:0", store, "", "us", "s3cret-word")
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    bed.more = {"publish_mode": "server", "publish_url": server.url}
    bed.more |= {"publish_user": "us", "publish_password": "s3cret-word"}
    path, properties = bed.image()
    try:
        lab.undo(lab.cpi.delete_stemcell, bed.open().create_stemcell(path, properties, mark=lab.mark()))
    finally:
        server.shutdown()
        server.server_close()
    assert [one.name for one in store.folder.iterdir()] == [".key"]


def test_an_image_that_arrives_spoilt_is_not_registered(bed: CloudstackBed, lab: Lab, shelf: Shelf) -> None:
    shelf.spoil = True
    path, properties = bed.image()
    with pytest.raises(CpiError, match="checksum"):
        bed.open().create_stemcell(path, properties, mark=lab.mark())
    assert templates(bed) == {}


def test_a_failed_registration_takes_the_image_back(bed: CloudstackBed, lab: Lab, shelf: Shelf) -> None:
    path, properties = bed.image()
    faults.add(bed.datacenter.store, "registerTemplate", "error", times=1)
    with pytest.raises(CpiError):
        bed.open().create_stemcell(path, properties, mark=lab.mark())
    assert shelf.images == {}


def test_a_publishing_server_that_refuses_is_reported_without_its_password(
    bed: CloudstackBed, lab: Lab, shelf: Shelf
) -> None:
    path, properties = bed.image()
    bed.more["publish_password"] = "wr0ng-word"
    with pytest.raises(CpiError, match="401") as caught:
        bed.open().create_stemcell(path, properties, mark=lab.mark())
    assert "publish_password" in caught.value.remedy
    assert "wr0ng-word" not in f"{caught.value} {caught.value.facts()}"
    bed.more = {"publish_mode": "server"}
    with pytest.raises(CpiError, match="no publish_url"):
        bed.open().create_stemcell(path, properties, mark=lab.mark())


def test_an_image_that_is_still_fetched_is_not_taken_away(bed: CloudstackBed, lab: Lab, shelf: Shelf) -> None:
    """A template that is never ready: the time-out is reported, and what the cloud may be fetching stays."""
    bed.more["state_timeout"] = 2
    path, properties = bed.image()
    mark, waiting = lab.mark(), threading.Event()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            _ShelfHandler, "do_GET", lambda handler: waiting.wait(20) and _ShelfHandler._answer(handler, 404, b"")
        )
        with pytest.raises(OutcomeUnknown, match="did not become ready within"):
            bed.open().create_stemcell(path, properties, mark=mark)
        assert len(shelf.images) == 1
        found = lab.cpi.find("image", mark)
        assert found
        lab.cpi.delete_object("image", found.cid, Expected(found.mark))
        waiting.set()


def test_a_light_stemcell_is_a_template_that_is_there_and_stays(bed: CloudstackBed, lab: Lab) -> None:
    for wanted in ("operators-image", bed.client().listTemplates(templatefilter="self")["template"][0]["id"]):
        cid = lab.cpi.create_stemcell("", {"template": wanted}, mark=lab.mark())
        lab.vm(stemcell_cid=cid)
        lab.cpi.delete_stemcell(cid)
    assert bed.client().listTemplates(templatefilter="self", name="operators-image")
    with pytest.raises(InvalidCall, match="0 templates"):
        lab.cpi.create_stemcell("", {"template": "nobody-has-this"}, mark=lab.mark())


def test_a_light_stemcell_is_copied_and_the_copy_is_ours(bed: CloudstackBed, lab: Lab) -> None:
    mark = lab.mark()
    cid = lab.cpi.create_stemcell("", {"template": "operators-image", "copy": True, "zones": ["z1", "z3"]}, mark=mark)
    assert templates(bed) == {cid: {"z1", "z3"}}
    assert lab.cpi.create_stemcell("", {"template": "operators-image", "copy": True}, mark=mark) == cid
    assert templates(bed) == {cid: {"z1", "z2", "z3"}}  # the repeat completed what was missing
    vm = lab.vm(stemcell_cid=cid)
    lab.cpi.delete_vm(vm)
    lab.cpi.delete_stemcell(cid)
    assert templates(bed) == {}
    assert bed.client().listTemplates(templatefilter="self", name="operators-image")


def test_what_others_made_public_is_a_light_stemcell_too(user_bed: CloudstackUserBed) -> None:
    user_bed.set("allow.user.expunge.recover.vm", "true")
    lab = Lab(user_bed)
    admin = user_bed.client("admin")
    public = user_bed.upload(admin, ispublic=True)
    cid = user_bed.open().create_stemcell("", {"template": public}, mark=lab.mark())
    assert cid == f"light-{public}"
    lab.vm(stemcell_cid=cid)
    with pytest.raises(CpiError, match="extract"):  # its owner did not allow that
        user_bed.open().create_stemcell("", {"template": public, "copy": True}, mark=lab.mark())
    lab.close()


def test_a_stemcell_is_used_only_where_it_is_ready(bed: CloudstackBed, lab: Lab) -> None:
    path, _ = bed.image()
    cid = lab.cpi.create_stemcell(path, {"zones": ["z2"]}, mark=lab.mark())
    lab.undo(lab.cpi.delete_stemcell, cid)
    with pytest.raises(StemcellNotFound, match="not ready in zone z1"):
        lab.cpi.create_vm(**{**lab.vm_arguments("z1"), "stemcell_cid": cid})
    lab.vm("z2", stemcell_cid=cid)


def test_a_download_that_fails_in_one_zone_is_reported_at_once_and_leaves_nothing(bed: CloudstackBed, lab: Lab) -> None:
    """The time-out is half an hour: only the error itself can end this wait."""
    bed.set("coterie.loopback.urls", "true")
    with served(200, 200, 404) as url, pytest.raises(CpiError, match="404"):
        lab.cpi.create_stemcell("", {"url": url}, mark=lab.mark())
    assert templates(bed) == {}


def test_a_failing_copy_leaves_no_template(bed: CloudstackBed, lab: Lab) -> None:
    path, properties = bed.image()
    faults.add(bed.datacenter.store, "copyTemplate", "error", times=1)
    with pytest.raises(CpiError):
        lab.cpi.create_stemcell(path, properties, mark=lab.mark())


def test_an_image_that_vanishes_under_way_leaves_no_template(
    bed: CloudstackBed, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a killed create-env is run again, which empties its folder."""

    def fail(*arguments: Any) -> None:
        raise FileNotFoundError(2, "No such file or directory", "image")

    monkeypatch.setattr("coterie.cpi.drivers.cloudstack.stemcells.post_file", fail)
    path, properties = bed.image()
    before = bed.inventory()
    with pytest.raises(CpiError, match="was removed") as caught:
        bed.open().create_stemcell(path, properties, mark=lab.mark())
    assert not isinstance(caught.value, OutcomeUnknown)
    assert bed.inventory() == before
