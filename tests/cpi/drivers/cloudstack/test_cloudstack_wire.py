"""The driver's own client: right signatures, failures told apart, no secrets in messages."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from peers.cloudstack_bed import CloudstackBed

from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import AuthenticationFailed, CpiError, InvalidCall, Runtime, Unavailable
from coterie.cpi.drivers.cloudstack.client import signature
from coterie.cpi.drivers.cloudstack.driver import CloudstackCpi
from coterie.cpi.drivers.cloudstack.properties import read_settings
from coterie.errors import LeaseLost
from coterie.sandbox import faults

GOOD = {"endpoint": "http://127.0.0.1:1/client/api", "api_key": "key", "secret_access_key": "s3cret-word"}


def opened(**changed: Any) -> CloudstackCpi:
    return CloudstackCpi("lab", {**GOOD, **changed}, Runtime("8d8c4a1e-54c2-4f8e-9d53-1f0b6f2a7c10", None))  # type: ignore[arg-type] # it submits nothing


def test_a_signature_is_the_vendors() -> None:
    """The example of CloudStack's developer guide."""
    parameters = {
        "apikey": "plgWJfZK4gyS3mOMTVmjUVg-X-jlWlnfaUJ9GAbBbf9EdM-kAYMmAiLqzzq1ElZLYq_u38zCm0bewzGUdP66mg",
        "command": "listUsers",
        "response": "json",
    }
    secret = "VDaACYb0LV9eNjTetIOElcVQkvJck_J_QljX_FcHRj87ZKiy0z0ty0ZsYBkoXkY9b7eq1EhwJaw7FF3akA3KBQ"
    assert signature(parameters, secret) == "TTpdDq/7j/J58XCRHomKoQXEQds="


@pytest.mark.parametrize("odd", ["a~b", "a[0]", "a b+c", "ü*'()!", "a%2Fb&c=d"])
def test_odd_values_arrive_as_they_are(bed: CloudstackBed, odd: str) -> None:
    cpi = bed.open()
    assert isinstance(cpi, CloudstackCpi)
    made = cpi.client.call("createSecurityGroup", name=odd)["securitygroup"]
    assert made["name"] == odd


def test_without_a_lease_nothing_is_changed_and_questions_are_answered(bed: CloudstackBed) -> None:
    def refuse() -> None:
        raise LeaseLost("it is over")

    runtime = Runtime(bed.director_uuid, None, None, refuse)  # type: ignore[arg-type] # it submits nothing
    cpi = CloudstackCpi("lab", bed.properties(), runtime)
    with pytest.raises(LeaseLost):
        cpi.client.call("createSecurityGroup", name="late")
    assert "late" not in [row["name"] for row in cpi.client.list_all("listSecurityGroups")]


def test_wrong_keys_are_refused_without_showing_them(bed: CloudstackBed) -> None:
    bed.more = {"secret_access_key": "s3cret-word"}
    with pytest.raises(AuthenticationFailed) as caught:
        bed.open().has_vm("8d8c4a1e-54c2-4f8e-9d53-1f0b6f2a7c10")
    assert "s3cret-word" not in f"{caught.value} {caught.value.facts()}"
    (item,) = bed.open().check()
    assert not item.ok
    assert "secret_access_key" in item.remedy


def test_settings_do_not_show_their_secrets() -> None:
    shown = repr(
        read_settings({**GOOD, "private_key": "s3cret-word", "proxy_host": "p", "proxy_password": "s3cret-word"})
    )
    assert "s3cret-word" not in shown


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: refused
        endpoint = f"http://127.0.0.1:{taken.getsockname()[1]}/client/api"
        with pytest.raises(Unavailable, match="cannot be reached"):
            opened(endpoint=endpoint).has_disk("8d8c4a1e-54c2-4f8e-9d53-1f0b6f2a7c10")


def test_a_server_that_is_no_cloudstack_is_reported(bed: CloudstackBed) -> None:
    bed.more = {"endpoint": f"{bed.server.origin}/elsewhere"}
    with pytest.raises(CpiError) as caught:
        bed.open().has_vm("8d8c4a1e-54c2-4f8e-9d53-1f0b6f2a7c10")
    assert "properties.endpoint" in caught.value.remedy


def test_questions_that_are_throttled_for_good_end_as_throttled(bed: CloudstackBed) -> None:
    faults.add(bed.datacenter.store, "listVolumes", "throttle")
    with pytest.raises(CpiError) as caught:
        bed.open().has_disk("8d8c4a1e-54c2-4f8e-9d53-1f0b6f2a7c10")
    assert caught.value.code == "throttled"


def test_a_survey_that_changed_between_pages_is_not_complete(bed: CloudstackBed, lab: Lab) -> None:
    bed.more = {"page_size": 2}
    cpi = bed.open()
    disks = [lab.disk() for _ in range(4)]
    first = cpi.survey("disk", bed.director_uuid)
    assert first.complete
    lab.cpi.delete_disk(disks[0])
    assert cpi.survey("disk", bed.director_uuid, first.next).complete is False


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"endpoint": "cloud.example.org"}, "endpoint"),
        ({"api_key": ""}, "api_key"),
        ({"secret_access_key": None}, "secret_access_key"),
        ({"page_size": 501}, "page_size"),
        ({"expunge": "sometimes"}, "expunge"),
        ({"policies": ["host-affinity"]}, "policies"),
        ({"proxy_port": 3128}, "proxy_host"),
        ({"no_such": 1}, "no_such"),
    ],
)
def test_a_wrong_property_is_named(changed: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidCall) as caught:
        opened(**changed)
    assert f"properties.{field}" in caught.value.what
    assert caught.value.remedy
