"""What users write: mistakes are named by their field and tell what to do; secrets are not repeated."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.cpi.contract import InvalidCall
from coterie.cpi.drivers.incus.properties import read_settings, read_vm_spec

TLS = {"url": "https://incus.example.org:8443", "client_cert": "C", "client_key": "SECRET", "server_cert": "S"}


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"url": "https://incus.example.org:8443"}, "properties.client_cert"),
        ({**TLS, "socket": "/run/x"}, "properties.socket"),
        ({"client_key": "SECRET"}, "properties.client_key"),
        ({"trust_token": "SECRET"}, "properties.trust_token"),
        ({**TLS, "url": "http://incus.example.org"}, "properties.url"),
        ({"policies": ["SECRET"]}, "properties.policies"),
        ({"retries": -1}, "properties.retries"),
        ({"endpoint": "SECRET"}, "properties.endpoint"),
    ],
)
def test_mistakes_of_a_cloud_are_named(given: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidCall) as caught:
        read_settings(given)
    assert field in caught.value.what
    assert caught.value.remedy
    assert "SECRET" not in str(caught.value)


def test_nothing_is_needed_on_the_machine_of_a_member() -> None:
    assert read_settings({}).socket is None
    assert read_settings(TLS).url == "https://incus.example.org:8443"


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"cpu": 1}, "memory"),
        ({"cpu": 0, "memory": 64}, "cpu"),
        ({"cpu": 1, "memory": 64, "type": "pod"}, "type"),
        ({"cpu": 1, "memory": 64, "config": {"boot.autostart": "true"}}, "config"),
        ({"cpu": 1, "memory": 64, "config": {"user.coterie-director": "x"}}, "config"),
    ],
)
def test_mistakes_of_a_vm_are_named(given: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidCall, match=f"cloud_properties.{field}"):
        read_vm_spec(given)
