"""Which vCenter the driver trusts: one with a certificate of the given authority, or any where the user wants that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from peers.vsphere_bed import VsphereBed
from tests.peers.certificates import Authority
from tests.peers.tunnel import tunnel

from coterie.cpi.conformance.expect import expect_error
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import AuthenticationFailed, CheckItem, Cpi, CpiError

MISSING = "8d8c4a1e-54c2-4f8e-9d53-1f0b6f2a7c10"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def secured(bed: VsphereBed, authority: Authority) -> Iterator[VsphereBed]:
    """The bed's vCenter behind a certificate of the authority."""
    with tunnel(bed.server.url, *authority.issue("vcenter")) as url:
        bed.more = {"url": url}
        yield bed


@pytest.fixture
def other_authority(tmp_path: Path) -> Authority:
    folder = tmp_path / "other_authority"
    folder.mkdir()
    return Authority(folder)


def certificate(cpi: Cpi) -> CheckItem:
    (found,) = [item for item in cpi.check() if item.what == "certificate"]
    return found


@pytest.mark.parametrize("given", [lambda ca: str(ca), lambda ca: ca.read_text()], ids=["file", "text"])
def test_a_vcenter_of_the_given_authority_is_believed(
    secured: VsphereBed, authority: Authority, given: Callable[[Path], str]
) -> None:
    secured.more["ca_cert"] = given(authority.ca)
    cpi = secured.open()
    assert not cpi.has_vm(MISSING)
    assert certificate(cpi).ok


def test_vms_with_their_discs_are_made_over_tls(secured: VsphereBed, authority: Authority) -> None:
    secured.more["ca_cert"] = str(authority.ca)
    lab = Lab(secured)
    lab.vm()
    lab.close()


@pytest.mark.parametrize("known", [True, False], ids=["another authority", "the system's"])
def test_a_vcenter_of_another_authority_is_refused_with_the_remedy(
    secured: VsphereBed, other_authority: Authority, known: bool
) -> None:
    if known:
        secured.more["ca_cert"] = str(other_authority.ca)
    cpi = secured.open()
    error = expect_error(AuthenticationFailed, lambda: cpi.has_vm(MISSING))
    assert ("properties.ca_cert" in error.remedy, error.retryable) == (True, False)
    item = certificate(cpi)
    assert (item.ok, "properties.ca_cert" in item.remedy) == (False, True)
    assert not secured.server.calls(), "nothing was sent to a vCenter that is not trusted"


def test_a_vcenter_under_another_name_is_refused(secured: VsphereBed, authority: Authority) -> None:
    secured.more |= {"ca_cert": str(authority.ca), "url": secured.more["url"].replace("127.0.0.1", "localhost")}
    error = expect_error(AuthenticationFailed, lambda: secured.open().has_vm(MISSING))
    assert "localhost" in f"{error}"


def test_without_verification_every_vcenter_is_trusted_and_the_check_warns(secured: VsphereBed) -> None:
    secured.more["insecure"] = True
    cpi = secured.open()
    assert not cpi.has_vm(MISSING)
    item = certificate(cpi)
    assert item.ok
    assert "insecure" in item.detail


def test_an_authority_that_cannot_be_read_is_named(secured: VsphereBed, tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("no certificate\n")
    for wrong in (str(tmp_path / "absent.pem"), str(tmp_path / "empty.pem"), "-----BEGIN CERTIFICATE-----\nx"):
        secured.more["ca_cert"] = wrong
        cpi = secured.open()
        error = expect_error(CpiError, lambda cpi=cpi: cpi.has_vm(MISSING))
        assert "properties.ca_cert" in error.what
