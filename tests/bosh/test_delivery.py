"""A create whose answer never reached its caller: it makes way for the caller's next try, and cleanup takes it."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest

from coterie.bosh.client.in_process import respond
from coterie.cpi.contract import Capabilities, CloudObject, Kind, Mark, OutcomeUnknown, Reason, VmCreated
from coterie.cpi.drivers.sandbox.driver import SandboxCpi
from coterie.ledger.rows import objects
from tests.bosh.cloud_program import CloudShop
from tests.bosh.program import DIRECTOR, PATIENCE_S, CpiFailure, Shop, heard, result

ADDRESS = {"default": {"type": "manual", "ip": "10.0.0.7", "netmask": "255.0.0.0", "cloud_properties": {}}}


class Gone(BrokenPipeError):
    pass


def lose(shop: Shop, request: bytes) -> None:
    """The caller has gone away when the answer is to be written."""

    def write(answer: bytes) -> None:
        assert json.loads(answer)["error"] is None
        raise Gone

    with pytest.raises(Gone):
        respond(request, str(shop.config), write=write)


def arguments(shop: Shop, agent: str, stemcell: str, networks: dict[str, Any] = ADDRESS) -> list[Any]:
    found = shop.vm_arguments(agent, stemcell)
    found[3] = networks
    return found


def undelivered(shop: Shop) -> list[str]:
    with shop.ledger() as ledger, ledger.read() as tx:
        return [row.ref or "" for row in objects.list_undelivered_vms(tx, "lab", DIRECTOR)]


def test_an_undelivered_machine_makes_way_for_the_next_try(shop: Shop) -> None:
    stemcell = shop.stemcell()
    lose(shop, shop.request("create_vm", *arguments(shop, "first", stemcell)))
    assert undelivered(shop) == ["first"]
    (lost,) = shop.inventory()["vm"]
    second = shop.call("create_vm", *arguments(shop, "second", stemcell))[0]
    assert shop.inventory()["vm"] == [second] != [lost]
    assert undelivered(shop) == []


def test_a_machine_whose_answer_is_an_error_makes_way(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller was told no id."""
    stemcell = shop.stemcell()
    create = SandboxCpi.create_vm

    def unwritable(self: SandboxCpi, *arguments: Any, **more: Any) -> VmCreated:
        made = create(self, *arguments, **more)
        return VmCreated(made.cid, {**made.networks, "odd": {"type": "half a character: \ud800"}})

    with monkeypatch.context() as patch, pytest.raises(CpiFailure, match="was done, but its result"):
        patch.setattr(SandboxCpi, "create_vm", unwritable)
        shop.call("create_vm", *arguments(shop, "first", stemcell))
    assert undelivered(shop) == ["first"]
    second = shop.call("create_vm", *arguments(shop, "second", stemcell))[0]
    assert shop.inventory()["vm"] == [second]


def test_a_delivered_machine_keeps_its_address_and_the_way_out_is_named(shop: Shop) -> None:
    stemcell = shop.stemcell()
    first = shop.call("create_vm", *arguments(shop, "first", stemcell))[0]
    with pytest.raises(CpiFailure) as refused:
        shop.call("create_vm", *arguments(shop, "second", stemcell))
    message = refused.value.error["message"]
    assert first in message
    assert f"coterie-cpi cleanup --director-uuid {DIRECTOR}" in message
    assert shop.inventory()["vm"] == [first]


def test_a_machine_with_metadata_of_its_caller_stays(shop: Shop) -> None:
    """Killed between the answer and the note about it: the caller has the id and uses it."""
    stemcell = shop.stemcell()
    lose(shop, shop.request("create_vm", *arguments(shop, "first", stemcell)))
    (first,) = shop.inventory()["vm"]
    shop.call("set_vm_metadata", first, {"director": "d", "deployment": "dep", "name": "web/0"})
    with pytest.raises(CpiFailure, match="coterie-cpi cleanup"):
        shop.call("create_vm", *arguments(shop, "second", stemcell))
    assert shop.cleanup()["vm"]["found"] == []
    assert shop.inventory()["vm"] == [first]


def forbid_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a program of the exec driver that has no `find`."""
    capabilities = SandboxCpi.capabilities

    def without_find(self: SandboxCpi) -> Capabilities:
        return replace(capabilities(self), unsupported={"find": Reason("it has no such method", "page")})

    monkeypatch.setattr(SandboxCpi, "capabilities", without_find)


def test_a_lost_create_does_not_block_its_address_where_the_cloud_cannot_be_asked(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    stemcell = shop.stemcell()
    forbid_questions(monkeypatch)
    with monkeypatch.context() as patch, pytest.raises(CpiFailure, match="cannot be asked"):
        patch.setattr(SandboxCpi, "create_vm", _lose)
        shop.call("create_vm", *arguments(shop, "first", stemcell))
    second = shop.call("create_vm", *arguments(shop, "second", stemcell))[0]
    assert shop.inventory()["vm"] == [second]


def _lose(*_: object, **__: object) -> None:
    raise OutcomeUnknown("the answer was lost", remedy="look for it")


def test_an_undelivered_machine_stays_where_the_cloud_cannot_be_asked(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A confirmation that was lost proves nothing alone."""
    stemcell = shop.stemcell()
    forbid_questions(monkeypatch)
    stays_in_the_way(shop, stemcell)


def test_an_undelivered_machine_stays_where_the_cloud_does_not_show_what_is_written_on_it(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    stemcell = shop.stemcell()
    find = SandboxCpi.find

    def without_tags(self: SandboxCpi, kind: Kind, mark: Mark) -> CloudObject | None:
        found = find(self, kind, mark)
        return replace(found, tags=None) if found else None

    monkeypatch.setattr(SandboxCpi, "find", without_tags)
    stays_in_the_way(shop, stemcell)


def stays_in_the_way(shop: Shop, stemcell: str) -> None:
    lose(shop, shop.request("create_vm", *arguments(shop, "first", stemcell)))
    (first,) = shop.inventory()["vm"]
    with pytest.raises(CpiFailure, match=f"machine {first} of agent first has the address"):
        shop.call("create_vm", *arguments(shop, "second", stemcell))
    assert shop.inventory()["vm"] == [first]


def test_the_same_agent_gets_the_lost_answer(shop: Shop) -> None:
    stemcell = shop.stemcell()
    lose(shop, shop.request("create_vm", *arguments(shop, "agent", stemcell)))
    again = shop.call("create_vm", *arguments(shop, "agent", stemcell))[0]
    assert shop.inventory()["vm"] == [again]
    assert undelivered(shop) == []


def test_cleanup_takes_what_no_caller_received(shop: Shop) -> None:
    stemcell = shop.stemcell()
    kept = shop.create_vm("known", stemcell)
    disk = shop.call("create_disk", 1024, {"zone": "z1"}, None)
    lose(shop, shop.vm_request("lost", stemcell))
    lose(shop, shop.request("create_disk", 1024, {"zone": "z1"}, None))
    report = shop.cleanup()
    assert [one["reason"] for one in report["vm"]["found"]] == ["no caller ever received it"]
    assert (len(report["vm"]["deleted"]), len(report["disk"]["deleted"])) == (1, 1)
    assert (shop.inventory()["vm"], shop.inventory()["disk"]) == ([kept], [disk])


def test_a_client_that_is_killed_leaves_an_undelivered_machine_to_the_core(shop: Shop) -> None:
    stemcell = shop.stemcell()
    with shop.core():
        client = shop.start(shop.request("create_vm", *arguments(shop, "first", stemcell)))
        client.kill()
        client.wait(PATIENCE_S)
        for pipe in (client.stdout, client.stderr):
            assert pipe
            pipe.close()
        again = shop.request("create_vm", *arguments(shop, "second", stemcell))
        second = result(heard(shop.start(again)))[0]
        wait_until_only(shop, second)
        assert undelivered(shop) == []
        with pytest.raises(CpiFailure, match="coterie-cpi cleanup"):
            result(heard(shop.start(shop.request("create_vm", *arguments(shop, "third", stemcell)))))
        assert shop.inventory()["vm"] == [second]


def wait_until_only(shop: Shop, vm: str) -> None:
    until = time.monotonic() + PATIENCE_S
    while shop.inventory()["vm"] != [vm]:
        assert time.monotonic() < until
        time.sleep(0.05)


def test_on_cloudstack_too(cloud_shop: CloudShop) -> None:
    networks = {"default": {"type": "manual", "ip": "127.40.10.102", "cloud_properties": {"name": "net-z1"}}}
    template = cloud_shop.template
    lose(cloud_shop, cloud_shop.request("create_vm", *arguments(cloud_shop, "first", template, networks)))
    second = cloud_shop.call("create_vm", *arguments(cloud_shop, "second", template, networks))[0]
    assert cloud_shop.inventory()["vm"] == [second]
    with pytest.raises(CpiFailure, match="coterie-cpi cleanup"):
        cloud_shop.call("create_vm", *arguments(cloud_shop, "third", template, networks))
