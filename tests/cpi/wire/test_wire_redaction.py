"""Secrets of a request never come back in an answer."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest

from coterie.cpi.contract import CpiError, VMNotFound
from coterie.redact import REDACTED, Redactor, looks_secret

PEM = "-----BEGIN KEY-----\nMIIBVwIBADANBgkqhkiG9w0\nBAQEFAASCAT8w\n-----END KEY-----"


@pytest.mark.parametrize(
    "key",
    [
        "password",
        "db_password",
        "adminPassword",
        "passwd",
        "passphrase",
        "secret",
        "client_secret",
        "secretAccessKey",
        "access_key",
        "api_key",
        "apikey",
        "json_key",
        "key",
        "private-key",
        "token",
        "auth_token",
        "credentials",
        "pwd",
        "connectionString",
        "pass",
        "Authorization",
        "shared_access_signature",
    ],
)
def test_keys_that_look_secret(key: str) -> None:
    assert looks_secret(key)


@pytest.mark.parametrize(
    "key",
    [
        "name",
        "key_name",
        "public_key",
        "host",
        "user",
        "director_uuid",
        "cpu",
        "keypair",
        "zone",
        "access_key_id",
        "password_file",
        "token_url",
        "credentials_source",
        "signature_version",
        "passthrough",
    ],
)
def test_keys_that_do_not(key: str) -> None:
    assert not looks_secret(key)


@pytest.mark.parametrize(
    "shape",
    [
        lambda s: {"password": s},
        lambda s: {"vcenters": [{"host": "h", "password": s}]},
        lambda s: {"credentials": {"a": [s]}},
        lambda s: {"mbus": f"nats://user:{s}@10.0.0.1:4222"},
        lambda s: {"config": json.dumps({"client": {"secret": s}})},
        lambda s: {"env": {"bosh": {"blobstores": [{"options": {"secretKey": s}}]}}},
    ],
)
@pytest.mark.parametrize("secret", ["hunter22", "p&ss w/rd", 'qu"ote\\d', "käse-pass"])
@pytest.mark.parametrize("quoting", [str, repr, json.dumps, lambda s: quote(s, safe="")])
@pytest.mark.parametrize("place", ["context", "argument"])
def test_a_secret_is_hidden_wherever_it_stood_and_however_it_is_quoted(
    shape: Any, secret: str, quoting: Any, place: str, server: Any
) -> None:
    if "://" in str(shape(secret)) and secret != quote(secret, safe=""):
        secret = quote(secret, safe="")
    text = f"login with {quoting(secret)} failed"
    server.raises = CpiError(text, why=text, remedy=text, details={"tried": [text]})
    document = shape(secret)
    envelope = (
        server.send("has_vm", ["i-1"], **document)
        if place == "context"
        else server.send("create_disk", [1, document, None])
    )
    said = json.dumps(envelope, ensure_ascii=False)
    assert REDACTED in envelope["error"]["message"]
    assert "login with" in envelope["error"]["message"]
    for form in (secret, json.dumps(secret)[1:-1], quote(secret, safe="")):
        assert form not in said


def test_the_unforeseen_is_redacted_too(server: Any) -> None:
    server.raises = RuntimeError("401 for admin:hunter22")
    envelope = server.send("has_vm", ["i-1"], password="hunter22")
    assert "hunter22" not in json.dumps(envelope)
    assert f"401 for admin:{REDACTED}" in envelope["error"]["message"]


def test_lines_of_a_key_are_hidden_one_by_one() -> None:
    hidden = Redactor({"private_key": PEM}).hide("bad line MIIBVwIBADANBgkqhkiG9w0 here")
    assert hidden == f"bad line {REDACTED} here"


def test_a_short_secret_does_not_black_out_the_sentence() -> None:
    assert Redactor({"password": "in"}).hide("invalid login in zone") == "invalid login in zone"
    assert Redactor({"password": "login"}).hide("logins: invalid login") == f"logins: invalid {REDACTED}"


def test_a_secret_that_is_spelt_like_a_type_does_not_break_it(server: Any) -> None:
    server.raises = VMNotFound("no vm", remedy="look")
    error = server.send("has_vm", ["i-1"], password="VMNotFound", secret="vm_not_found")["error"]
    assert (error["type"], error["coterie"]["code"]) == ("Bosh::Clouds::VMNotFound", "vm_not_found")


def test_a_secret_at_the_cut_is_not_halved(server: Any) -> None:
    server.raises = CpiError("x" * 4090 + "hunter22" * 3)
    assert "hun" not in server.send("has_vm", ["i-1"], password="hunter22")["error"]["message"]


def test_a_broken_request_with_secrets_says_none_of_them(server: Any) -> None:
    context = {"director_uuid": "d", "password": "hunter22"}
    for broken in (
        {"method": "hunter22"},
        {"method": "has_vm", "arguments": "hunter22"},
        {"method": "find", "arguments": ["hunter22", {}]},
        {"method": "create_server_group", "arguments": [{"hunter22": 1}]},
    ):
        request = {"arguments": [], "context": context, "api_version": 3, **broken}
        assert "hunter22" not in json.dumps(server.raw(json.dumps(request).encode()))
