"""Ways in: passwords, application credentials, clouds.yaml, an own CA behind a proxy; and what a refusal tells."""

from __future__ import annotations

import json
import ssl
from pathlib import Path
from typing import Any

import pytest
from peers.openstack_bed import OpenstackBed
from tests.cpi.drivers.cloudstack.tls_and_proxy import Proxy
from tests.peers.certificates import Authority
from tests.peers.openstack.front import Front
from tests.peers.openstack.layout import PASSWORD, REGION
from tests.peers.openstack.plane import plane

from coterie.cpi.conformance.expect import expect_error
from coterie.cpi.contract import EVERY_SOURCE, AuthenticationFailed, Cpi, CpiError, InvalidCall, Runtime, Unavailable
from coterie.cpi.drivers.openstack.driver import OpenstackCpi

MISSING = "7c4e3e50-7d3f-4f3b-9e7d-0d6f3a3a3a3a"


def opened(bed: OpenstackBed, properties: dict[str, Any]) -> Cpi:
    only_looks: Any = None
    runtime = Runtime(bed.director_uuid, only_looks, credential_sources=(EVERY_SOURCE,))
    return OpenstackCpi("lab", properties, runtime)


def test_an_application_credential_without_a_password(bed: OpenstackBed) -> None:
    path = f"/users/{bed.tenant.user_id}/application_credentials"
    made = bed.tenant.call("POST", "keystone", path, {"application_credential": {"name": "coterie"}})
    given = made["application_credential"]
    properties = {
        "auth_url": bed.front.auth_url,
        "region": REGION,
        "application_credential_id": given["id"],
        "application_credential_secret": given["secret"],
    }
    assert opened(bed, properties).has_vm(MISSING) is False
    error = expect_error(
        AuthenticationFailed,
        lambda: opened(bed, {**properties, "application_credential_secret": "guess-who"}).has_vm(MISSING),
    )
    assert "guess-who" not in f"{error} {error.why} {error.details}"


def test_an_entry_of_clouds_yaml(bed: OpenstackBed, tmp_path: Path) -> None:
    auth = {
        "auth_url": bed.front.auth_url,
        "username": bed.tenant.user,
        "password": PASSWORD,
        "project_name": bed.tenant.project,
        "user_domain_name": "Default",
        "project_domain_name": "Default",
    }
    file = tmp_path / "clouds.yaml"
    file.write_text(json.dumps({"clouds": {"mine": {"auth": auth, "region_name": REGION}}}))
    assert opened(bed, {"cloud": "mine", "clouds_file": str(file)}).has_vm(MISSING) is False
    error = expect_error(CpiError, lambda: opened(bed, {"cloud": "yours", "clouds_file": str(file)}).has_vm(MISSING))
    assert "yours" in f"{error} {error.why} {error.remedy}"


def test_a_wrong_password_is_named_and_not_repeated(bed: OpenstackBed) -> None:
    bed.more["password"] = "hunter2-not-it"
    error = expect_error(AuthenticationFailed, lambda: bed.open().has_vm(MISSING))
    assert "hunter2" not in f"{error} {error.why} {error.remedy} {error.details}"
    assert error.remedy


def test_a_region_that_is_not_there_is_named(bed: OpenstackBed) -> None:
    bed.more["region"] = "Atlantis"
    error = expect_error(CpiError, lambda: bed.open().has_vm(MISSING))
    assert "Atlantis" in f"{error} {error.why} {error.remedy}"


@pytest.mark.parametrize("field", ["no_such_thing", "projectname"])
def test_a_property_that_is_not_known_is_named(bed: OpenstackBed, field: str) -> None:
    bed.more[field] = "x"
    error = expect_error(InvalidCall, bed.open)
    assert field in str(error)


def test_an_own_authority_behind_a_proxy(bed: OpenstackBed, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("front"))
    front, proxy = Front(plane().url, context), Proxy("user", "word")
    try:
        bed.more |= {"auth_url": front.auth_url, "ca_cert": str(authority.ca), "retries": 0}
        assert bed.open().has_vm(MISSING) is False
        bed.more["proxy_url"] = f"http://user:word@127.0.0.1:{proxy.port}"
        assert bed.open().has_vm(MISSING) is False
        assert set(proxy.tunnels) == {front.origin.removeprefix("https://")}
        bed.more["ca_cert"] = None
        expect_error(Unavailable, lambda: bed.open().has_vm(MISSING))
    finally:
        proxy.close()
        front.close()


def test_nothing_is_asked_before_the_first_call(bed: OpenstackBed) -> None:
    assert bed.open().capabilities().policies
    assert bed.front.calls == []
