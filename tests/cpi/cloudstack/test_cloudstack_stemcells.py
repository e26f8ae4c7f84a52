"""Stemcells: by upload, by URL, through a publisher, light; ready in every zone, or told why not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from peers.cloudstack_bed import CloudstackBed

from coterie.cpi.cloudstack.driver import CloudstackCpi
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import CpiError, InvalidCall
from coterie.sandbox import faults


@contextmanager
def served(status: int) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
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
    found = lab.cpi.find("image", mark)
    assert found and found.tags == {"os": "jammy", "coterie-director": mark.director}


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


class Shelf:
    """Stands for a publishing server."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.seen: list[str] = []

    def publish(self, path: str) -> str:
        self.seen.append(path)
        return self.url

    def retire(self, url: str) -> None:
        self.seen.append(f"retired {url}")


def test_a_publisher_is_used_where_the_settings_say_so(bed: CloudstackBed, lab: Lab) -> None:
    bed.set("coterie.loopback.urls", "true")
    bed.more = {"publish": "server"}
    cpi = bed.open()
    assert isinstance(cpi, CloudstackCpi)
    path, properties = bed.image()
    with pytest.raises(CpiError, match="no publishing server"):
        cpi.create_stemcell(path, properties, mark=lab.mark())
    with served(200) as url:
        cpi.publisher = Shelf(url)
        cid = cpi.create_stemcell(path, properties, mark=lab.mark())
    lab.undo(lab.cpi.delete_stemcell, cid)
    assert cpi.publisher.seen == [path, f"retired {url}"]


def test_a_light_stemcell_is_a_template_that_is_there_and_stays(bed: CloudstackBed, lab: Lab) -> None:
    for wanted in ("operators-image", bed.client().listTemplates(templatefilter="self")["template"][0]["id"]):
        cid = lab.cpi.create_stemcell("", {"template": wanted}, mark=lab.mark())
        lab.vm(stemcell_cid=cid)
        lab.cpi.delete_stemcell(cid)
    assert bed.client().listTemplates(templatefilter="self", name="operators-image")
    with pytest.raises(InvalidCall, match="0 templates"):
        lab.cpi.create_stemcell("", {"template": "nobody-has-this"}, mark=lab.mark())


def test_a_failing_copy_leaves_no_template(bed: CloudstackBed, lab: Lab) -> None:
    path, properties = bed.image()
    faults.add(bed.datacenter.store, "copyTemplate", "error", times=1)
    with pytest.raises(CpiError):
        lab.cpi.create_stemcell(path, properties, mark=lab.mark())
