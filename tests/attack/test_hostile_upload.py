"""An operator's token, used to upload stemcells and bodies that fill disk or memory, or spoil the catalogue."""

from __future__ import annotations

import gzip
import io
import resource
import tarfile
from typing import Any

import pytest

from coterie.director.context import AppContext
from coterie.director.middleware import request_limits
from coterie.ledger.rows import stemcells
from coterie.ledger.store import Ledger
from tests.director.asgi import Client
from tests.director.test_stemcells import GZIP, IMAGE, manifest, store, tarball

SPARSE = 4000 * 2**20


def sparse_gnu() -> bytes:
    """A header that declares 4,000 MiB and one byte of data."""
    head = bytearray(tarfile.TarInfo("image").tobuf(tarfile.GNU_FORMAT))
    head[124:136] = b"%011o\0" % 512
    head[156:157] = tarfile.GNUTYPE_SPARSE
    head[386:398], head[398:410] = b"%011o\0" % 0, b"%011o\0" % 512
    head[483:495] = b"%011o\0" % SPARSE
    head[148:156] = b"        "
    head[148:156] = b"%06o\0 " % sum(head)
    return gzip.compress(tarball({"stemcell.MF": manifest()}, "w")[:1024] + bytes(head) + b"x" * 512 + bytes(1024))


def with_pax(headers: dict[str, str], content: bytes = IMAGE) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
        for name, data, more in (("stemcell.MF", manifest(), {}), ("image", content, headers)):
            member = tarfile.TarInfo(name)
            member.size, member.pax_headers = len(data), more
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


def sparse_pax() -> bytes:
    return with_pax({"GNU.sparse.size": str(SPARSE), "GNU.sparse.map": "0,1", "GNU.sparse.numblocks": "1"})


def zeros() -> bytes:
    return tarball({"stemcell.MF": manifest(), "image": bytes(100 * 2**20)})


def aliases() -> bytes:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 7)]
    return tarball({"stemcell.MF": manifest() + "\n".join(lines).encode(), "image": IMAGE})


HOSTILE: dict[str, Any] = {
    "a sparse file": sparse_gnu,
    "a sparse file in a pax header": sparse_pax,
    "a gzip bomb": zeros,
    "a large pax header": lambda: with_pax({"comment": "x" * 30 * 2**20}),
    "aliases": aliases,
    "very many files": lambda: tarball({f"f{n}": b"" for n in range(10_100)}),
    "a large stemcell.MF": lambda: tarball({"stemcell.MF": manifest() + b"#" * 2**20, "image": IMAGE}),
    "half a character": lambda: tarball({"stemcell.MF": manifest(cloud_properties='{a: "\\ud800"}'), "image": IMAGE}),
    "not a number": lambda: tarball({"stemcell.MF": manifest(cloud_properties="{a: .nan}"), "image": IMAGE}),
    "an unknown checksum": lambda: tarball({"stemcell.MF": manifest(sha1="md5:00"), "image": IMAGE}),
    "one of two checksums is wrong": lambda: tarball({"stemcell.MF": manifest(sha1="00;sha256:00"), "image": IMAGE}),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_stemcell_is_refused_and_leaves_nothing(client: Client, context: AppContext, what: str) -> None:
    body = HOSTILE[what]()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    reply = client.send("POST", "/v1/stemcells", body, GZIP)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert (reply.status, reply.json["code"]) == (400, "usage"), reply.text
    assert grown < 40_000, "kilobytes"
    assert store(context) == []
    assert client.get("/v1/stemcells").json["items"] == []


def light(properties: str) -> bytes:
    return b'{"name": "x", "version": "1", "cloud_properties": %s}' % properties.encode()


@pytest.mark.parametrize(
    "properties",
    ['{"a": "\\ud800"}', '{"a": NaN}', '{"a": 1e999}', '{"a": 1, "a": 2}', '{"a":' + "[" * 300 + "]" * 300 + "}"],
)
def test_json_that_could_not_be_shown_is_refused_on_every_route(client: Client, properties: str) -> None:
    kind = {"content-type": "application/json"}
    assert client.send("POST", "/v1/stemcells", light(properties), kind).status == 400
    cloud = b'{"name": "lab", "driver": "sandbox", "properties": %s}' % properties.encode()
    refused = client.send("POST", "/v1/clouds", cloud, kind)
    assert (refused.status, refused.json["code"]) == (422, "invalid_request")
    assert client.get("/v1/stemcells").json["items"] == []


def test_only_a_tarball_may_be_larger_than_other_bodies(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_limits, "LARGEST_BODY", 1000)
    reply = client.send("POST", "/v1/stemcells", b" " * 2000, {"content-type": "application/json"})
    assert (reply.status, reply.json["code"]) == (413, "too_large")


def test_what_an_earlier_release_stored_spoils_no_page(client: Client, ledger: Ledger) -> None:
    with ledger.write() as tx:
        stemcells.add(tx, "x", "1", None, None, {"a": "\ud800", "b": float("nan")}, [], None)
    reply = client.get("/v1/stemcells")
    assert (reply.status, reply.json["items"][0]["cloud_properties"]) == (200, {"a": "?", "b": None})
