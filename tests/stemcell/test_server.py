"""The publishing server over loopback: writers are known, readers have a link, nothing is held in memory."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from coterie.errors import CoterieError
from coterie.stemcell.server import PublishingServer, publishing_server
from coterie.stemcell.shelf import Shelf

BODY = bytes(range(256)) * 40


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PublishingServer]:
    made = publishing_server("127.0.0.1:0", Shelf(str(tmp_path / "shelf"), 3600), "http://unset", "us", "pw")
    made.url = f"http://127.0.0.1:{made.server_address[1]}"
    threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def ask(server: PublishingServer, verb: str, path: str, body: Any = None, **headers: str) -> http.client.HTTPResponse:
    link = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=60)
    link.request(verb, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = link.getresponse()
    answer.text = answer.read()  # type: ignore[attr-defined] # kept beside its head
    link.close()
    return answer


def basic(user: str = "us", password: str = "pw") -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def publish(server: PublishingServer, name: str = "image.qcow2") -> dict[str, Any]:
    answer = ask(server, "PUT", f"/images/{name}", BODY, Authorization=basic())
    assert answer.status == 201
    told: dict[str, Any] = json.loads(answer.text)  # type: ignore[attr-defined] # as above
    return told


def path_of(told: dict[str, Any]) -> str:
    return urlsplit(told["url"]).path


def test_an_image_goes_in_by_password_and_out_by_link(server: PublishingServer) -> None:
    told = publish(server)
    assert told["sha256"] == hashlib.sha256(BODY).hexdigest()
    assert told["url"].endswith("/image.qcow2")
    head = ask(server, "HEAD", path_of(told))
    assert (head.status, head.headers["Content-Length"], head.headers["Accept-Ranges"]) == (
        200,
        str(len(BODY)),
        "bytes",
    )
    got = ask(server, "GET", path_of(told))
    assert got.text == BODY  # type: ignore[attr-defined] # as above


def test_a_part_of_an_image(server: PublishingServer) -> None:
    told = publish(server)
    part = ask(server, "GET", path_of(told), Range="bytes=100-199")
    assert (part.status, part.headers["Content-Range"]) == (206, f"bytes 100-199/{len(BODY)}")
    assert part.text == BODY[100:200]  # type: ignore[attr-defined] # as above
    beyond = ask(server, "GET", path_of(told), Range=f"bytes={len(BODY)}-")
    assert (beyond.status, beyond.headers["Content-Range"]) == (416, f"bytes */{len(BODY)}")


@pytest.mark.parametrize("password", [None, "wrong"])
@pytest.mark.parametrize("verb", ["PUT", "DELETE"])
def test_writing_needs_the_password(server: PublishingServer, verb: str, password: str | None) -> None:
    told = publish(server)
    headers = {"Authorization": basic(password=password)} if password else {}
    assert ask(server, verb, "/images/image.qcow2", b"other", **headers).status == 401
    assert ask(server, "GET", path_of(told)).text == BODY  # type: ignore[attr-defined] # as above


@pytest.mark.parametrize("path", ["/images/image.qcow2", "/", "/i/1/2/image.qcow2", "/i/9999999999/00/image.qcow2"])
def test_reading_needs_the_link(server: PublishingServer, path: str) -> None:
    publish(server)
    assert ask(server, "GET", path, Authorization=basic()).status == 404


def test_a_link_ends(server: PublishingServer) -> None:
    server.shelf.ttl_s = -1
    assert ask(server, "GET", path_of(publish(server))).status == 410


@pytest.mark.parametrize("name", ["..%2fkey", ".key", "a%2f..%2f.key", "%00", "a%20b", "x" * 201])
def test_names_that_could_be_paths_are_refused(server: PublishingServer, name: str) -> None:
    assert ask(server, "PUT", f"/images/{name}", BODY, Authorization=basic()).status in (400, 404)
    assert {file.name for file in server.shelf.folder.iterdir()} == {".key"}


def test_a_wrong_checksum_leaves_nothing(server: PublishingServer) -> None:
    answer = ask(server, "PUT", "/images/a", BODY, Authorization=basic(), X_Checksum_Sha256="0" * 64)
    assert answer.status == 400
    assert server.shelf.find("a") is None


def test_a_body_that_is_cut_short_leaves_nothing(server: PublishingServer) -> None:
    link = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=60)
    link.putrequest("PUT", "/images/a")
    for name, value in (("Authorization", basic()), ("Content-Length", "1000")):
        link.putheader(name, value)
    link.endheaders(b"short")
    link.sock.shutdown(1)
    assert link.getresponse().status == 400
    link.close()
    assert {file.name for file in server.shelf.folder.iterdir()} == {".key"}


def test_what_the_cloud_has_taken_is_removed(server: PublishingServer) -> None:
    told = publish(server)
    assert ask(server, "DELETE", "/images/image.qcow2", Authorization=basic()).status == 204
    assert ask(server, "GET", path_of(told)).status == 404
    assert ask(server, "DELETE", "/images/image.qcow2", Authorization=basic()).status == 404


def test_what_is_not_fetched_is_deleted(tmp_path: Path) -> None:
    shelf = Shelf(str(tmp_path / "s"), 100)
    for name in ("old", "new"):
        (tmp_path / name).write_bytes(b"x")
        with (tmp_path / name).open("rb") as file:
            shelf.put(name, file, 1, None)
    os.utime(shelf.folder / "old", (time.time() - 200,) * 2)
    os.utime(shelf.folder / ".key", (time.time() - 200,) * 2)
    assert shelf.sweep() == ["old"]
    assert shelf.find("new")
    assert Shelf(str(shelf.folder), 100).key == shelf.key


def test_a_folder_that_cannot_be_used_names_the_setting(tmp_path: Path) -> None:
    with pytest.raises(CoterieError, match="cannot be used") as caught:
        Shelf(str(tmp_path / "no" / "such"), 1)
    assert "publish_server.folder" in caught.value.remedy


def test_memory_does_not_grow_with_the_image(server: PublishingServer, tmp_path: Path) -> None:
    """64 MiB through a server that may hold far less: its address space is bounded while it works."""
    script = (
        "import resource, sys, threading, http.client, base64\n"
        "from coterie.stemcell.server import publishing_server\n"
        "from coterie.stemcell.shelf import Shelf\n"
        "s = publishing_server('127.0.0.1:0', Shelf(sys.argv[1], 3600), 'http://x', 'u', 'p')\n"
        "threading.Thread(target=s.serve_forever, daemon=True).start()\n"
        "def put(size):\n"
        "    c = http.client.HTTPConnection('127.0.0.1', s.server_address[1])\n"
        "    h = {'Authorization': 'Basic ' + base64.b64encode(b'u:p').decode(), 'Content-Length': str(size)}\n"
        "    c.request('PUT', '/images/a', (bytes(65536) for _ in range(size // 65536)), h)\n"
        "    assert c.getresponse().status == 201\n"
        "put(1 << 22); before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "put(1 << 26); print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    source = str(Path(sys.modules["coterie"].__file__ or "").parents[1])
    env = {**os.environ, "PYTHONPATH": source}
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "big")], env=env, capture_output=True, check=True
    )
    assert resource.getpagesize() and int(done.stdout) < 16 * 1024  # KiB: a quarter of what went through
