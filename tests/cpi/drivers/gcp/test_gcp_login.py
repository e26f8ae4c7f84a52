"""The ways to a token, through google-auth itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from peers.gcp_bed import GcpBed

from coterie.cpi.conformance.expect import expect_error
from coterie.cpi.contract import AuthenticationFailed, InvalidCall, Unavailable
from coterie.cpi.drivers.gcp import login
from coterie.cpi.drivers.gcp.driver import GcpCpi
from coterie.cpi.kit.tokens import Tokens


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "_tokens", Tokens())


@pytest.fixture
def without_key(bed: GcpBed, monkeypatch: pytest.MonkeyPatch) -> GcpBed:
    given = bed.peer.properties()
    del given["json_key"]
    monkeypatch.setattr(bed.peer, "properties", lambda: dict(given))
    return bed


def uses_its_token(bed: GcpBed) -> None:
    assert not bed.open().has_vm("z1/a")


def test_a_key_may_be_text_and_signs_by_itself(bed: GcpBed) -> None:
    bed.more["json_key"] = json.dumps(bed.peer.properties()["json_key"])
    uses_its_token(bed)
    assert len(bed.peer.identity.seen) == 1 and not bed.peer.identity.tokens.keys() & bed.peer.identity.seen


def test_a_token_is_kept_and_a_refused_one_is_not(bed: GcpBed) -> None:
    uses_its_token(bed)
    uses_its_token(bed)
    assert len(bed.peer.identity.seen) == 1
    bed.peer.identity.expire()
    uses_its_token(bed)
    assert len(bed.peer.identity.seen) == 2


def test_a_key_that_google_does_not_know_is_told(bed: GcpBed) -> None:
    bed.more["json_key"] = {**bed.peer.properties()["json_key"], "client_email": "else@where"}
    expect_error(AuthenticationFailed, lambda: uses_its_token(bed))


def test_the_metadata_server(without_key: GcpBed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GCE_METADATA_HOST", without_key.peer.server.origin.removeprefix("http://"))
    without_key.more["credentials_source"] = "metadata"
    uses_its_token(without_key)
    assert without_key.peer.identity.seen <= without_key.peer.identity.tokens.keys()


def test_a_federation_reads_its_file_for_every_token(without_key: GcpBed, tmp_path: Path) -> None:
    subject, config = tmp_path / "token", tmp_path / "federation.json"
    subject.write_text("first")
    config.write_text(
        json.dumps(
            {
                "type": "external_account",
                "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q",
                "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
                "token_url": f"{without_key.peer.server.origin}/v1/token",
                "credential_source": {"file": str(subject)},
            }
        )
    )
    without_key.more |= {"credentials_source": "federation", "credentials_file": str(config)}
    uses_its_token(without_key)
    subject.unlink()
    without_key.peer.identity.expire()
    expect_error(AuthenticationFailed, lambda: uses_its_token(without_key))


def test_a_file_that_is_no_federation_is_refused(without_key: GcpBed, tmp_path: Path) -> None:
    config = tmp_path / "key.json"
    config.write_text(json.dumps({"type": "service_account"}))
    without_key.more |= {"credentials_source": "federation", "credentials_file": str(config)}
    expect_error(AuthenticationFailed, lambda: uses_its_token(without_key))


def test_a_metadata_server_that_is_not_there_is_tried_later(
    without_key: GcpBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GCE_METADATA_HOST", "127.0.0.1:1")
    without_key.more["credentials_source"] = "metadata"
    expect_error(Unavailable, lambda: uses_its_token(without_key))


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({}, "json_key is missing"),
        ({"json_key": "no JSON"}, "json_key is wrong"),
        ({"json_key": {"client_email": "a"}}, "json_key is wrong"),
        ({"credentials_source": "federation"}, "credentials_file is wrong"),
        ({"credentials_source": "metadata", "credentials_file": "a"}, "credentials_file is wrong"),
        ({"credentials_source": "adc"}, "credentials_source is wrong"),
    ],
)
def test_one_way_has_to_be_said(without_key: GcpBed, given: dict[str, object], word: str) -> None:
    without_key.more |= given
    assert word in expect_error(InvalidCall, without_key.open).what


def test_no_secret_is_shown(bed: GcpBed) -> None:
    cpi = bed.open()
    assert isinstance(cpi, GcpCpi)
    assert "PRIVATE KEY" not in repr(cpi.client.settings)
