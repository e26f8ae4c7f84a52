"""TLS and proxies: only the CA of the settings is trusted, and a proxy is passed with its password only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from peers.cloudstack_bed import CloudstackBed
from tests.cpi.drivers.cloudstack.tls_and_proxy import Authority, Proxy
from tests.peers.cloudstack_witness import Witness

from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import CpiError, Unavailable
from coterie.sandbox.fronts.cloudstack.server import Server

MISSING = "8d8c4a1e-54c2-4f8e-9d53-1f0b6f2a7c10"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def secure(bed: CloudstackBed, authority: Authority) -> Iterator[Server]:
    made = authority.server(bed.datacenter)
    witness = Witness(made)
    yield made
    made.close()
    assert witness.mistakes == []


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    made = Proxy("us", "s3cret-word")
    yield made
    made.close()


@pytest.mark.parametrize("as_text", [True, False])
def test_a_ca_of_the_settings_is_trusted(
    bed: CloudstackBed, secure: Server, authority: Authority, as_text: bool
) -> None:
    ca_cert = authority.ca.read_text() if as_text else str(authority.ca)
    bed.more = {"endpoint": secure.endpoint, "ca_cert": ca_cert}
    assert bed.open().has_vm(MISSING) is False


def test_no_other_ca_is_trusted(bed: CloudstackBed, secure: Server) -> None:
    bed.more = {"endpoint": secure.endpoint}
    with pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED") as caught:
        bed.open().has_vm(MISSING)
    assert "certificate" in caught.value.remedy


def test_a_certificate_for_another_name_is_refused(bed: CloudstackBed, secure: Server, authority: Authority) -> None:
    bed.more = {"endpoint": secure.endpoint.replace("127.0.0.1", "localhost"), "ca_cert": str(authority.ca)}
    with pytest.raises(Unavailable, match="localhost"):
        bed.open().has_vm(MISSING)


def test_a_ca_that_cannot_be_read_is_named(bed: CloudstackBed, secure: Server, tmp_path: Path) -> None:
    for wrong in (str(tmp_path / "no-such.pem"), "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----"):
        bed.more = {"endpoint": secure.endpoint, "ca_cert": wrong}
        with pytest.raises(CpiError, match=r"properties\.ca_cert"):
            bed.open().has_vm(MISSING)


def test_an_image_is_uploaded_over_tls_and_through_the_proxy(
    bed: CloudstackBed, lab: Lab, secure: Server, authority: Authority, proxy: Proxy
) -> None:
    way = {"proxy_host": "127.0.0.1", "proxy_port": proxy.port, "proxy_user": "us", "proxy_password": "s3cret-word"}
    bed.more = {"endpoint": secure.endpoint, "ca_cert": str(authority.ca), **way}
    path, properties = bed.image()
    lab.undo(lab.cpi.delete_stemcell, bed.open().create_stemcell(path, properties, mark=lab.mark()))
    assert set(proxy.tunnels) == {secure.origin.removeprefix("https://")}
    assert len(proxy.tunnels) == 2  # the API, and the upload
    bed.more["ca_cert"] = None
    with pytest.raises(Unavailable):
        bed.open().create_stemcell(path, properties, mark=lab.mark())


def test_a_proxy_leads_to_a_server_without_tls_too(bed: CloudstackBed, proxy: Proxy) -> None:
    bed.more = {
        "proxy_host": "127.0.0.1",
        "proxy_port": proxy.port,
        "proxy_user": "us",
        "proxy_password": "s3cret-word",
    }
    assert bed.open().has_vm(MISSING) is False
    assert proxy.tunnels == [bed.server.origin.removeprefix("http://")]


def test_a_proxy_that_refuses_is_reported_without_its_password(bed: CloudstackBed, proxy: Proxy) -> None:
    bed.more = {"proxy_host": "127.0.0.1", "proxy_port": proxy.port, "proxy_user": "us", "proxy_password": "wr0ng-word"}
    with pytest.raises(Unavailable, match="407") as caught:
        bed.open().has_vm(MISSING)
    assert "proxy" in caught.value.remedy
    assert "wr0ng-word" not in f"{caught.value} {caught.value.facts()}"
    assert proxy.tunnels == []
