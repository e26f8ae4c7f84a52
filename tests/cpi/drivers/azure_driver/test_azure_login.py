"""The ways to a token, through azure-identity itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from azure.identity import AzureAuthorityHosts
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from peers.azure_bed import AzureBed

from coterie.cpi.conformance.expect import expect_error
from coterie.cpi.contract import AuthenticationFailed, InvalidCall, Mark
from coterie.cpi.drivers.azure.login import CLOUDS
from coterie.ids import Ids


def uses_its_token(bed: AzureBed) -> None:
    assert bed.open().find("vm", Mark(bed.director_uuid, Ids().intent())) is None


@pytest.fixture
def without_secret(bed: AzureBed, monkeypatch: pytest.MonkeyPatch) -> AzureBed:
    given = bed.peer.properties()
    del given["client_secret"]
    monkeypatch.setattr(bed.peer, "properties", lambda: dict(given))
    return bed


def test_workload_identity_reads_its_file_for_every_token(without_secret: AzureBed, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first")
    without_secret.more["federated_token_file"] = str(file)
    uses_its_token(without_secret)
    file.unlink()
    without_secret.peer.identity.expire()
    expect_error(AuthenticationFailed, lambda: uses_its_token(without_secret))


def test_a_certificate(without_secret: AzureBed, tmp_path: Path) -> None:
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "kit")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
    made = made.not_valid_before(now).not_valid_after(now + timedelta(days=1))
    raw = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    pem = raw + made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    without_secret.more["certificate"] = pem.decode()
    uses_its_token(without_secret)


def test_a_managed_identity(without_secret: AzureBed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", without_secret.peer.arm.origin)
    without_secret.more |= {"managed_identity": True, "proxy_url": None}
    uses_its_token(without_secret)


def test_one_way_has_to_be_said_and_only_one(without_secret: AzureBed) -> None:
    assert "client_secret" in expect_error(InvalidCall, without_secret.open).what
    without_secret.more |= {"client_secret": "a", "managed_identity": True}
    assert "the only one" in expect_error(InvalidCall, without_secret.open).what


def test_clouds_are_those_that_the_vendor_names() -> None:
    hosts = [
        AzureAuthorityHosts.AZURE_PUBLIC_CLOUD,
        AzureAuthorityHosts.AZURE_GOVERNMENT,
        AzureAuthorityHosts.AZURE_CHINA,
    ]
    assert [authority for authority, _, _ in CLOUDS.values()] == [f"https://{host}" for host in hosts]


def test_no_secret_is_shown(bed: AzureBed) -> None:
    settings = bed.open().client.settings  # type: ignore[attr-defined] # it is ours
    assert bed.peer.identity.client_secret not in repr(settings)
