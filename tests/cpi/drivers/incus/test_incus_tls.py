"""Over TLS: a client certificate, a trust token that is good for one time, and a server that is not the one."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from peers.incus_bed import CLUSTER, IncusBed

from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import Cpi, PrivilegeMissing, Unavailable
from coterie.cpi.drivers.incus.driver import IncusCpi

NAME = "coterie-test"


@pytest.fixture
def remote(bed: IncusBed, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Properties without a token; the trust that a test brings about ends with it."""
    key, certificate = tmp_path / "key", tmp_path / "certificate"
    words = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:secp384r1",
        "-nodes",
        "-days",
        "2",
    ]
    words += ["-keyout", str(key), "-out", str(certificate), "-subj", f"/CN={NAME}"]
    subprocess.run(words, check=True, capture_output=True)
    properties = {name: value for name, value in bed.properties().items() if name != "socket"}
    yield {
        **properties,
        "url": CLUSTER.url,
        "client_cert": certificate.read_text(),
        "client_key": key.read_text(),
        "server_cert": CLUSTER.certificate(),
    }
    for row in CLUSTER.call("GET", "/1.0/certificates?recursion=1"):
        if row["name"] == NAME:
            CLUSTER.call("DELETE", f"/1.0/certificates/{row['fingerprint']}")


def open_cloud(bed: IncusBed, properties: dict[str, Any]) -> Cpi:
    return IncusCpi("remote", properties, bed.runtime())


def token() -> str:
    named = ["--name", NAME] if CLUSTER.daemon.name == "LXD" else [NAME]
    return CLUSTER.run_client("inc1", "config", "trust", "add", *named, "-q").strip().splitlines()[-1]


def test_a_token_has_the_certificate_trusted_and_is_needed_once(
    bed: IncusBed, lab: Lab, remote: dict[str, Any]
) -> None:
    with pytest.raises(PrivilegeMissing):
        open_cloud(bed, remote).has_vm("x")
    (rights,) = open_cloud(bed, remote).check()
    assert not rights.ok and rights.remedy
    given = {**remote, "trust_token": token()}
    assert all(item.ok for item in open_cloud(bed, given).check())
    cpi = open_cloud(bed, given)  # the token is spent
    vm = cpi.create_vm(**lab.vm_arguments()).cid
    assert lab.cpi.has_vm(vm)
    cpi.delete_vm(vm)
    assert cpi.identity() == lab.cpi.identity()


def test_another_server_is_not_believed(bed: IncusBed, remote: dict[str, Any]) -> None:
    wrong = {**remote, "server_cert": remote["client_cert"], "retries": 0}
    with pytest.raises(Unavailable, match="certificate verify failed"):
        open_cloud(bed, wrong).has_vm("x")


def test_secrets_are_in_no_error(bed: IncusBed, remote: dict[str, Any]) -> None:
    with pytest.raises(PrivilegeMissing) as caught:
        open_cloud(bed, remote).has_vm("x")
    assert remote["client_key"] not in str(caught.value.facts())
