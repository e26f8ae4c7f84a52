"""Answers that say less than they seem to: nothing is called gone or failed of which something may still come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.cpi.drivers.incus.parts.fake_server import IMAGE, Server, cloud, create

from coterie.cpi.contract import CpiError, OutcomeUnknown, VMCreationFailed
from coterie.cpi.drivers.incus.client import Refusal
from coterie.cpi.drivers.incus.reservations import Placements


class Forgetful(Server):
    """Deletes in an operation that it has forgotten when it is asked for it."""

    fails = False

    def get(self, path: str, query: Mapping[str, str], body: Any) -> Any:
        if path.startswith("/operations/"):
            return None
        return {} if path == "/operations" else super().get(path, query, body)

    def delete(self, path: str, query: Mapping[str, str], body: Any) -> Any:
        if not self.fails:
            del self.instances[path.rpartition("/")[2]]
        return {"operation": "/1.0/operations/1"}


@pytest.mark.parametrize("fails", [False, True])
def test_a_forgotten_deletion_has_succeeded_only_if_the_instance_is_gone(
    monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    server = Forgetful(inc1="lxc")
    server.fails = fails
    server.instances["vm"] = {"name": "vm", "status": "Stopped", "config": {}, "devices": {}, "profiles": []}
    cpi = cloud(monkeypatch, server)
    if fails:
        with pytest.raises(OutcomeUnknown, match="has forgotten the operation"):
            cpi.delete_vm("vm")
    else:
        cpi.delete_vm("vm")
    assert ("vm" in server.instances) == fails


class Broken(Server):
    """Breaks the first create. What the second one comes to: `refused` at once, or `failed` in its operation."""

    def __init__(self, second: str, **drivers: str) -> None:
        super().__init__(**drivers)
        self.images[IMAGE] = "container"
        self.second = second

    def get(self, path: str, query: Mapping[str, str], body: Any) -> Any:
        if path == "/operations":
            return {}
        if path.startswith("/operations/") and path.endswith("/wait"):
            return {"status": "Failure", "status_code": 400, "err": "no space left"}
        return super().get(path, query, body)

    def post(self, path: str, query: Mapping[str, str], body: Any) -> Any:
        self.sent.append({**body, "target": query.get("target")})
        if len(self.sent) == 1:
            raise Refusal("create", 500, "connection reset", changes=True)
        if self.second == "refused":
            raise Refusal("create", 400, "invalid devices", changes=True)
        return {"operation": "/1.0/operations/1"}


@pytest.mark.parametrize("second", ["refused", "failed"])
def test_a_create_that_broke_stays_open_whatever_the_next_one_comes_to(
    monkeypatch: pytest.MonkeyPatch, second: str
) -> None:
    server = Broken(second, inc1="lxc", inc2="lxc")
    with pytest.raises(OutcomeUnknown, match=r"connection reset.*then:"):
        create(cloud(monkeypatch, server), type="container")
    assert [one["target"] for one in server.sent] == ["inc1", "inc2"]


def test_without_such_a_break_a_failed_create_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Broken("failed", inc1="lxc")
    server.sent.append({})
    with pytest.raises(CpiError) as failed:
        create(cloud(monkeypatch, server), type="container")
    assert isinstance(failed.value, VMCreationFailed)


def test_an_outage_of_the_ledger_stays_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    outage = ConnectionError("the database went away")

    def take(*_: object) -> None:
        raise CpiError("the writer did not answer") from outage

    monkeypatch.setattr(Placements, "take", take)
    server = Server(inc1="lxc")
    server.images[IMAGE] = "container"
    with pytest.raises(CpiError) as failed:
        create(cloud(monkeypatch, server), type="container")
    assert failed.value.__cause__ is outage
