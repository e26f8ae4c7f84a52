"""Properties and clouds.yaml: every mistake is named by its field, no value is repeated, no cloud is called."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from coterie.cpi.contract import EVERY_SOURCE, CpiError, InvalidCall, NotSupported, Runtime
from coterie.cpi.drivers.openstack.login import complete_settings, open_session
from coterie.cpi.drivers.openstack.properties import Settings, read_settings
from coterie.cpi.load import open_cloud

URL = "https://keystone.example.org:5000/v3"
AUTH = {"auth_url": URL, "username": "me", "password": "from-file", "project_name": "p"}


def file_with(folder: Path, **entry: Any) -> str:
    path = folder / "clouds.yaml"
    path.write_text(json.dumps({"clouds": {"mine": {"auth": AUTH, **entry}}}))
    return str(path)


def completed(properties: dict[str, Any], *sources: str) -> Settings:
    return complete_settings(read_settings(properties), sources or (EVERY_SOURCE,))


@pytest.mark.parametrize(
    ("properties", "field"),
    [
        ({}, "auth_url"),
        ({"auth_url": "keystone"}, "auth_url"),
        ({"auth_url": URL, "passwort": "s3cret"}, "passwort"),
        ({"auth_url": URL, "password": ["s3cret"]}, "password"),
        ({"auth_url": URL, "interface": "s3cret"}, "interface"),
        ({"auth_url": URL, "policies": ["host-affinity"]}, "policies"),
        ({"auth_url": URL, "page_size": 0}, "page_size"),
        ({"auth_url": URL, "request_timeout": "s3cret"}, "request_timeout"),
        ({"auth_url": URL, "endpoints": {"compute": "s3cret"}}, "endpoints"),
        ({"auth_url": URL, "proxy_url": "s3cret"}, "proxy_url"),
        ({"auth_url": URL, "proxy_url": "https://u:s3cret@proxy:3128"}, "proxy_url"),
    ],
)
def test_a_mistake_is_named_and_its_value_is_not_repeated(properties: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidCall) as caught:
        read_settings(properties)
    text = str(caught.value.facts())
    assert f"properties.{field} " in text
    assert caught.value.remedy
    assert "s3cret" not in text


@pytest.mark.parametrize(
    ("properties", "word"),
    [
        ({"auth_url": URL}, "credentials"),
        ({"auth_url": URL, "username": "me", "password": "p"}, "project_name"),
        ({"auth_url": URL, "application_credential_id": "i"}, "credentials"),
    ],
)
def test_credentials_that_are_not_complete_are_refused_with_the_remedy(properties: dict[str, Any], word: str) -> None:
    with pytest.raises(InvalidCall, match=word) as caught:
        open_session(read_settings(properties))
    assert caught.value.remedy


def test_a_driver_is_opened_without_its_library() -> None:
    before = {name for name in sys.modules if name.startswith(("keystoneauth1", "requests"))}
    cpi = open_cloud("openstack", "north", {"auth_url": URL}, Runtime("d", None))  # type: ignore[arg-type] # unused
    assert cpi.info()["api_version"] == 3
    assert cpi.capabilities().host_visibility
    assert {name for name in sys.modules if name.startswith(("keystoneauth1", "requests"))} == before


def test_an_entry_of_clouds_yaml_fills_what_the_properties_leave_out(tmp_path: Path) -> None:
    path = file_with(tmp_path, region_name="R1", verify=False, interface="internal")
    found = completed({"cloud": "mine", "clouds_file": path, "project_name": "q"})
    assert (found.auth_url, found.username, found.password) == (URL, "me", "from-file")
    assert (found.project_name, found.region, found.insecure, found.interface) == ("q", "R1", True, "internal")


def test_a_file_that_is_allowed_decides_alone_where_its_secret_is_sent(tmp_path: Path) -> None:
    path = file_with(tmp_path)
    (tmp_path / "link").symlink_to(path)
    assert completed({"cloud": "mine", "clouds_file": str(tmp_path / "link")}, path).password == "from-file"
    with pytest.raises(NotSupported, match="auth_url"):
        completed({"cloud": "mine", "clouds_file": path, "auth_url": "https://elsewhere.example.org"}, path)
    with pytest.raises(NotSupported, match="may not use"):
        completed({"cloud": "mine", "clouds_file": path}, "environment", "/etc/openstack/clouds.yaml")


def test_secure_yaml_beside_it_holds_the_secret(tmp_path: Path) -> None:
    path = file_with(tmp_path)
    (tmp_path / "secure.yaml").write_text(json.dumps({"clouds": {"mine": {"auth": {"password": "safer"}}}}))
    found = completed({"cloud": "mine", "clouds_file": path})
    assert (found.password, found.username) == ("safer", "me")


def test_a_file_or_entry_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CpiError, match=r"nowhere\.yaml"):
        completed({"cloud": "mine", "clouds_file": str(tmp_path / "nowhere.yaml")})
    with pytest.raises(InvalidCall, match="yours"):
        completed({"cloud": "yours", "clouds_file": file_with(tmp_path)})


def test_a_broken_file_is_refused_without_its_words(tmp_path: Path) -> None:
    path = tmp_path / "clouds.yaml"
    path.write_text("clouds: [\n  hunter2: {")
    with pytest.raises(CpiError) as caught:
        completed({"cloud": "mine", "clouds_file": str(path)})
    assert "hunter2" not in str(caught.value.facts())


def test_a_ca_that_is_none_is_refused() -> None:
    properties = {**AUTH, "ca_cert": "-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n"}
    with pytest.raises(CpiError, match="ca_cert"):
        open_session(read_settings(properties))


def test_an_explicit_proxy_wins_over_the_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://environment:1")
    for given, wanted in (({"proxy_url": "http://ours:2"}, "http://ours:2"), ({}, "http://environment:1")):
        transport = open_session(read_settings({**AUTH, **given})).session
        merged = transport.merge_environment_settings(URL, {}, False, True, None)
        assert merged["proxies"]["https"] == wanted


def test_a_login_believes_the_machines_certificates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "store.pem").touch()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "store.pem"))
    assert open_session(read_settings(AUTH)).verify == str(tmp_path / "store.pem")
    assert open_session(read_settings({**AUTH, "insecure": True, "ca_cert": "/nowhere.pem"})).verify is False


class Keystone(BaseHTTPRequestHandler):
    """One project in two regions, each with a compute service."""

    def do_GET(self) -> None:
        v3 = {"id": "v3.14", "status": "stable", "links": [{"rel": "self", "href": self.url("/v3")}]}
        nova = {"id": "v2.1", "status": "CURRENT", "version": "2.93", "min_version": "2.1", "links": v3["links"]}
        self.answer(200, {"version": v3} if self.path.startswith("/v3") else {"version": nova})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        regions = ("north", "south")
        compute = [
            {"id": name, "interface": "public", "region": name, "region_id": name, "url": self.url(f"/{name}/v2.1")}
            for name in regions
        ]
        catalog = [{"type": "compute", "id": "c", "name": "nova", "endpoints": compute}]
        domain = {"id": "default", "name": "Default"}
        token = {
            "methods": ["password"],
            "expires_at": "2999-01-01T00:00:00.000000Z",
            "issued_at": "2026-01-01T00:00:00.000000Z",
            "user": {"id": "u", "name": "me", "domain": domain},
            "project": {"id": "0f2b", "name": "p", "domain": domain},
            "catalog": catalog,
        }
        self.answer(201, {"token": token})

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}{path}"

    def answer(self, status: int, body: Any) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("X-Subject-Token", "token")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *words: object) -> None:
        """Nothing on the terminal."""


@pytest.fixture
def keystone() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Keystone) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v3"
        server.shutdown()


def test_each_region_of_a_project_is_a_cloud_of_its_own(keystone: str) -> None:
    """What is in another one is not found, so that a mistyped region would make all nodes missing."""

    def identity(**more: Any) -> str | None:
        properties = {**AUTH, "auth_url": keystone, **more}
        return open_cloud("openstack", "lab", properties, Runtime("d", None)).identity()  # type: ignore[arg-type] # unused

    assert identity(region="north") == "project 0f2b in region north"
    assert identity(region="south") == "project 0f2b in region south"
    assert identity() == identity(region="north"), "the first of the catalogue"
    override = {"compute": keystone.replace("/v3", "/override/v2.1")}
    assert identity(endpoints=override) == "project 0f2b"
