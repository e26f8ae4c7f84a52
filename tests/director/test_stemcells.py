"""The catalogue: tarballs received at constant memory, light stemcells as JSON, deletion only of unused ones."""

from __future__ import annotations

import hashlib
import io
import random
import tarfile
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from coterie.director.context import AppContext
from tests.director.asgi import Client
from tests.ledger.views import rows

GZIP = {"content-type": "application/gzip"}
IMAGE = b"an image" * 100


def tarball(files: dict[str, bytes], mode: str = "w:gz") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:  # type: ignore[call-overload]  # mode is told at run time
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def manifest(**more: Any) -> bytes:
    words = {"name": "debian-12", "version": "'1.10'", **more}
    return "".join(f"{name}: {value}\n" for name, value in words.items()).encode()


def store(context: AppContext) -> list[Path]:
    folder = context.state_folder.stemcells
    return sorted(folder.iterdir()) if folder.exists() else []


@pytest.mark.parametrize("mode", ["w:gz", "w"])
@pytest.mark.parametrize("prefix", ["", "./"])
def test_a_tarball_is_stored_and_catalogued(client: Client, context: AppContext, mode: str, prefix: str) -> None:
    described = manifest(
        sha1=hashlib.sha1(IMAGE).hexdigest(), cloud_properties="{os: linux}", stemcell_formats="[openstack-raw]"
    )
    body = tarball({f"{prefix}stemcell.MF": described, f"{prefix}image": IMAGE, "notes": b"x"}, mode)
    reply = client.send("POST", "/v1/stemcells", body, GZIP)
    assert reply.status == 201, reply.text
    shown = reply.json
    assert (shown["name"], shown["version"], shown["light"]) == ("debian-12", "1.10", False)
    assert shown["sha256"] == hashlib.sha256(IMAGE).hexdigest()
    assert (shown["cloud_properties"], shown["formats"]) == ({"os": "linux"}, ["openstack-raw"])
    (kept,) = store(context)
    assert kept.read_bytes() == IMAGE


def test_its_operating_system_is_read_shown_and_can_be_named_by_manifests(client: Client, context: AppContext) -> None:
    plain = client.send("POST", "/v1/stemcells", tarball({"stemcell.MF": manifest(), "image": IMAGE}), GZIP)
    assert plain.json["os"] is None
    given = tarball({"stemcell.MF": manifest(operating_system="ubuntu-jammy"), "image": IMAGE})
    assert client.send("POST", "/v1/stemcells", given, GZIP).json["os"] == "ubuntu-jammy", "learnt from a second upload"
    assert client.get("/v1/stemcells").json["items"][0]["os"] == "ubuntu-jammy"
    other = tarball({"stemcell.MF": manifest(operating_system="arch"), "image": IMAGE})
    refused = client.send("POST", "/v1/stemcells", other, GZIP)
    assert (refused.status, refused.json["why"]) == (409, "it is ubuntu-jammy, not arch")
    assert [kept.read_bytes() for kept in store(context)] == [IMAGE]
    assert "os" in client.get("/openapi.json").json["components"]["schemas"]["Stemcell"]["properties"]


def test_the_same_one_again_is_fine_another_of_its_name_is_not(client: Client, context: AppContext) -> None:
    body = tarball({"stemcell.MF": manifest(), "image": IMAGE})
    assert [client.send("POST", "/v1/stemcells", body, GZIP).status for _ in range(2)] == [201, 201]
    other = client.send("POST", "/v1/stemcells", tarball({"stemcell.MF": manifest(), "image": b"other"}), GZIP)
    assert (other.status, other.json["code"]) == (409, "conflict")
    assert [kept.read_bytes() for kept in store(context)] == [IMAGE]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not a readable tar"),
        (b"garbage" * 1000, "not a readable tar"),
        (tarball({"stemcell.MF": manifest(), "image": IMAGE})[:-40], "no stemcell"),
        (tarball({"stemcell.MF": manifest(), "image": random.Random(1).randbytes(50_000)})[:-20_000], "not a readable"),
        (tarball({"stemcell.MF": manifest(), "image": bytes(50_000)}, "w")[:20_000], "not a readable"),
        (tarball({"image": IMAGE}), "no stemcell.MF"),
        (tarball({"stemcell.MF": manifest()}), "no image"),
        (tarball({"stemcell.MF": b"[", "image": IMAGE}), "not YAML"),
        (tarball({"stemcell.MF": b"- a", "image": IMAGE}), "no mapping"),
        (tarball({"stemcell.MF": manifest(name="../../etc"), "image": IMAGE}), "name in its stemcell.MF"),
        (tarball({"stemcell.MF": b"name: a", "image": IMAGE}), "version in its stemcell.MF"),
        (tarball({"stemcell.MF": manifest(operating_system="[a]"), "image": IMAGE}), "operating_system in its"),
        (tarball({"stemcell.MF": manifest(sha1=f"'{'0' * 40}'"), "image": IMAGE}), "checksum"),
        (tarball({"stemcell.MF": manifest(sha1="sha256:" + "0" * 64), "image": IMAGE}), "checksum"),
    ],
)
def test_a_tarball_that_is_no_stemcell_is_refused_and_leaves_nothing(
    client: Client, context: AppContext, body: bytes, words: str
) -> None:
    reply = client.send("POST", "/v1/stemcells", body, GZIP)
    assert (reply.status, reply.json["code"]) == (400, "usage")
    assert words in reply.json["what"]
    assert store(context) == []
    assert client.get("/v1/stemcells").json["items"] == []


def test_a_light_stemcell_comes_as_json(client: Client) -> None:
    body = {"name": "debian-12", "version": "1.1", "cloud_properties": {"image_id": "ami-1"}}
    reply = client.send("POST", "/v1/stemcells", body)
    assert (reply.status, reply.json["light"], reply.json["os"]) == (201, True, None)
    assert client.send("POST", "/v1/stemcells", {**body, "version": "1.3", "os": "debian"}).json["os"] == "debian"
    assert client.send("POST", "/v1/stemcells", {**body, "version": "1.4", "os": "../x"}).status == 422
    assert client.get("/v1/stemcells/debian-12/1.1").json["cloud_properties"] == {"image_id": "ami-1"}
    assert client.send("POST", "/v1/stemcells", {**body, "version": "1.2+dev"}).status == 201
    assert client.get("/v1/stemcells/debian-12/1.2+dev").status == 200
    assert client.send("POST", "/v1/stemcells", {**body, "name": "../x"}).status == 422
    assert client.send("POST", "/v1/stemcells", {**body, "cloud_properties": {}}).status == 422
    assert client.send("POST", "/v1/stemcells", b"x", {"content-type": "text/html"}).status == 400


def test_deleting_takes_row_and_file_but_not_while_a_cloud_holds_it(client: Client, context: AppContext) -> None:
    client.send("POST", "/v1/stemcells", tarball({"stemcell.MF": manifest(), "image": IMAGE}), GZIP)
    rows.cloud_object(context.ledger, "i1", kind="image", ref="debian-12/1.10")
    refused = client.send("DELETE", "/v1/stemcells/debian-12/1.10")
    assert (refused.status, refused.json["code"]) == (409, "refused")
    assert "lab" in refused.json["why"]
    with context.ledger.write() as tx:
        tx.exec_driver_sql("UPDATE objects SET state = 'gone'")
    assert client.send("DELETE", "/v1/stemcells/debian-12/1.10").status == 204
    assert store(context) == []
    assert client.get("/v1/stemcells/debian-12/1.10").status == 404


def test_memory_does_not_grow_with_the_image(client: Client, context: AppContext) -> None:
    size = 32 * 2**20
    body = tarball({"stemcell.MF": manifest(), "image": random.Random(1).randbytes(size)})
    tracemalloc.start()
    try:
        assert client.send("POST", "/v1/stemcells", body, GZIP).status == 201
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    (kept,) = store(context)
    assert kept.stat().st_size == size
    assert peak < size / 4
