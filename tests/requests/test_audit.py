"""The audit of large deployments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from coterie.cpi.contract import Capabilities, GroupMember, GroupMetadata, GroupView
from coterie.ids import Ids
from coterie.ledger.rows import clouds, groups, identity
from coterie.ledger.rows.clouds import CloudRow
from coterie.requests import audit
from coterie.requests.ask_clouds import Question
from tests.growth import count_lines
from tests.ledger.blank import sqlite_ledger
from tests.ledger.views import rows
from tests.requests.site import Site, group, manifest


def cost_of_node(folder: Path, count: int, monkeypatch: pytest.MonkeyPatch) -> float:
    """Lines of Python that run for each of so many nodes of one server group."""
    ledger = sqlite_ledger(folder / f"{count}.db")
    identity.ensure_director(ledger, "test", Ids())
    metadata = GroupMetadata({"name": "test", "uuid": "u"}, "kafka", "data", ("z1",), policy="soft-anti-affinity")
    with ledger.write() as tx:
        clouds.set_config(tx, "", [CloudRow("lab", "sandbox", {}, "", ())])
        groups.add(tx, "g", metadata.wire(), name="data", cloud="lab")
        tx.exec_driver_sql("UPDATE server_groups SET cid = 'cg', state = 'live'")
    for index in range(count):
        rows.node(ledger, "broker", index, vm_cid=f"vm-{index}", server_group="g")
    members = tuple(GroupMember(f"vm-{index}", None, True, f"rack-{index % 4}") for index in range(count))
    said: dict[str, Any] = {
        "check": {**Capabilities("sandbox").publish(), "items": []},
        "vms": {},
        "groups": {"cg": GroupView("live", "soft-anti-affinity", members=members).wire()},
    }

    def answer(_: object, questions: Sequence[Question]) -> list[Any]:
        return [said[what] for _, what, _ in questions]

    monkeypatch.setattr(audit, "ask", answer)
    found: dict[str, Any] = {}
    lines = count_lines(lambda: found.update(audit.placement_audit(ledger, "kafka")))
    ledger.close()
    assert len(found["groups"][0]["domains"]["rack-1"]) == count // 4
    return lines / count


def test_an_audit_costs_each_node_the_same_in_a_group_of_any_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cost_of_node(tmp_path, 20, monkeypatch)  # what is worked out once per process
    assert cost_of_node(tmp_path, 800, monkeypatch) < 1.2 * cost_of_node(tmp_path, 200, monkeypatch)


def test_the_last_answers_of_the_cloud_are_not_read_while_new_ones_are_awaited(local: Site) -> None:
    """With those about thousands of VMs, reading them again and again is most of the work."""
    local.deploy(manifest(group("a", 1, azs="z1")))
    audit.placement_audit(local.ledger, "dep")
    with local.ledger.write() as tx:
        tx.exec_driver_sql("UPDATE facts SET data = 'no JSON, so that reading it fails'")
    (node,) = audit.placement_audit(local.ledger, "dep")["nodes"]
    assert node["host"] is not None
