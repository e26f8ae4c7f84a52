"""The placement map keeps what was known of a host that went down, and says what is down."""

from __future__ import annotations

from typing import Any

from coterie.director.console.drawing import placement_map
from coterie.ledger.store import Ledger
from tests.director.asgi import Client
from tests.ledger.views import rows

A, B, C = "host-a", "host-b", "host-c"


def check(ledger: Ledger, what: str, at: float, *hosts: str) -> None:
    listed = [{"name": name, "az": "z1", "rack": f"rack-of-{name}"} for name in hosts]
    items = [{"what": "hosts", "ok": True, "detail": "", "remedy": "", "facts": {"hosts": listed}}]
    rows.put(ledger, "facts", cloud="lab", what=what, driver="sandbox", wanted_at=at, at=at, data={"items": items})


def read_map(client: Client, ledger: Ledger) -> dict[str, Any]:
    rows.put(ledger, "clouds", name="lab", driver="sandbox", properties={}, conductor_group="")
    rows.deployment(ledger, "kafka")
    rows.group(ledger, "g1")
    rows.node(ledger, "broker", 0, host=A, server_group="g1", state="dead")
    rows.node(ledger, "broker", 1, host=B, server_group="g1")
    check(ledger, "check:one", 1.0, A, B)
    check(ledger, "check:two", 2.0, B, C)
    found: dict[str, Any] = client.get("/v1/placement/map").json
    return found


def test_a_host_that_is_shown_no_more_stays_in_its_rack(client: Client, ledger: Ledger) -> None:
    found = read_map(client, ledger)
    assert {node["node"]: node["rack"] for node in found["nodes"]} == {
        "broker/0": f"rack-of-{A}",
        "broker/1": f"rack-of-{B}",
    }
    assert {one["name"] for one in found["hosts"]} == {B, C}, "it is no host that is known to be there"
    assert {one["rack"]: (one["hosts"], one["nodes"], one["down"]) for one in found["racks"]} == {
        f"rack-of-{A}": (0, 1, 1),
        f"rack-of-{B}": (1, 1, 0),
        f"rack-of-{C}": (1, 0, 0),
    }


def test_what_is_down_is_told_and_not_lost_again(client: Client, ledger: Ledger) -> None:
    found = read_map(client, ledger)
    assert [group["down"] for group in found["groups"]] == [{"broker/0": "dead"}]
    drawing = placement_map.draw(found)
    assert drawing.label == "Placement map: 2 nodes; 2 hosts known"
    shown = drawing.inline()
    assert f"{A}, down" in shown and f"host {A}: down: 1 node down already (broker/0)" in shown
    assert f"host {B}: its loss takes down 1 node (broker/1)" in shown


def test_the_file_says_what_its_letters_and_signs_mean(client: Client, ledger: Ledger) -> None:
    found = read_map(client, ledger)
    drawing = placement_map.draw(found, links=False)
    file = drawing.file()
    assert "kafka/data in lab: " in file and "down: broker/0 (dead)" in file and "✕ dead" in file
    assert "kafka/data in lab: " not in drawing.inline(), "the page has a list of its own"
    assert "✕ dead" not in placement_map.draw({**found, "nodes": [], "hosts": []}).file(), "racks show no signs"
