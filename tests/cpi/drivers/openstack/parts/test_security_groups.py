"""Rules of security groups as Neutron takes and lists them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coterie.cpi.contract import InvalidCall, Mark, read_rules
from coterie.cpi.drivers.openstack.client import BROKEN, Client, Refusal, Row
from coterie.cpi.drivers.openstack.properties import read_settings
from coterie.cpi.drivers.openstack.rows import Rows, description
from coterie.cpi.drivers.openstack.security_groups import NeutronSecurityGroups, read_rule, rule_body
from coterie.cpi.kit.call_limit import CallLimit
from coterie.cpi.kit.parts import Parts
from coterie.cpi.kit.permit import Permit
from coterie.engine.part_records import LedgerPartRecords
from coterie.ledger.store import Ledger

DIRECTOR = "0f8fad5b-d9cb-469f-a165-70867728950e"
GROUP = "286584e6-c6ea-4a80-9b7c-33dc3d0dbafd"


class Neutron:
    """Security groups of a project, and the requests that delete some."""

    def __init__(self, *rows: Row) -> None:
        self.rows = list(rows)
        self.deleted: list[str] = []

    def client(self, monkeypatch: pytest.MonkeyPatch) -> Client:
        client = Client(
            read_settings({"auth_url": "http://127.0.0.1:9", "project_id": "p"}), Permit(DIRECTOR, CallLimit(1))
        )
        monkeypatch.setattr(client, "page", lambda *_, **__: ([*self.rows], None))
        monkeypatch.setattr(client, "delete", self.delete)
        monkeypatch.setattr(Client, "project", "p")
        return client

    def delete(self, _what: str, _service: str, path: str, _tolerated: Any) -> None:
        self.deleted.append(path.rpartition("/")[2])


def _web(cid: str, created: str, about: str) -> Row:
    return {"id": cid, "name": "web", "created_at": created, "description": about, "security_group_rules": []}


def test_a_security_group_that_came_after_its_call_was_given_up_is_removed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Neutron carried out the request of a dead conductor after its successor had looked, and created its own."""
    mark = Mark(DIRECTOR, "01" + "a" * 24)
    ledger = Ledger.open(f"sqlite:///{tmp_path}/ledger.db")
    records = LedgerPartRecords(lambda: ledger, "lab")
    records.intend(mark, "security_group", "web")  # and died
    records.intend(mark, "security_group", "web")
    records.record(mark, "security_group", "web", "used")
    neutron = Neutron(_web("late", "2026-01-01", description(mark)), _web("used", "2026-01-02", description(mark)))
    client = neutron.client(monkeypatch)
    groups = NeutronSecurityGroups(client, Rows(client, Parts(records)), None)  # type: ignore[arg-type] # unused
    found = groups.find_named("web")
    assert found and (found.id, found.mark) == ("used", mark)
    assert neutron.deleted == ["late"]
    ledger.close()


def test_a_copy_of_the_same_name_is_left_and_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mark = Mark(DIRECTOR, "01" + "a" * 24)
    ledger = Ledger.open(f"sqlite:///{tmp_path}/ledger.db")
    records = LedgerPartRecords(lambda: ledger, "lab")
    records.intend(mark, "security_group", "web")
    records.record(mark, "security_group", "web", "used")
    neutron = Neutron(_web("used", "2026-01-01", description(mark)), _web("copy", "2026-01-02", description(mark)))
    client = neutron.client(monkeypatch)
    groups = NeutronSecurityGroups(client, Rows(client, Parts(records)), None)  # type: ignore[arg-type] # unused
    with pytest.raises(InvalidCall, match="2 security groups are named"):
        groups.find_named("web")
    assert [one.id for one in groups.list_marked(mark)] == ["used"]
    assert neutron.deleted == []
    ledger.close()


def test_after_a_broken_create_only_a_security_group_of_that_name_is_the_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Several of different names bear one mark."""
    mark = Mark(DIRECTOR, "01" + "a" * 24)
    neutron = Neutron(_web("first", "2026-01-01", description(mark)))
    client = neutron.client(monkeypatch)

    def break_down(*_: Any, **__: Any) -> None:
        raise Refusal("create a security_group", BROKEN, "", "it broke")

    monkeypatch.setattr(client, "send", break_down)
    with pytest.raises(Refusal):
        Rows(client).create("security_group", mark, {"name": "db"})
    neutron.rows.append({**_web("second", "2026-01-02", description(mark)), "name": "db"})
    assert Rows(client).create("security_group", mark, {"name": "db"})["id"] == "second"


def test_rules_as_neutron_takes_them() -> None:
    (web,) = map(rule_body, read_rules([{"protocol": "tcp", "ports": "8000-8080", "cidr": "10.0.0.0/8"}]))
    assert (web["direction"], web["port_range_min"], web["port_range_max"]) == ("ingress", 8000, 8080)
    assert web["ethertype"] == "IPv4"
    (out,) = map(rule_body, read_rules([{"protocol": "any", "cidr": "2001:db8::/32", "direction": "egress"}]))
    assert (out["direction"], out["protocol"], out["ethertype"]) == ("egress", None, "IPv6")
    both = read_rules([{"protocol": "tcp", "ports": "9", "group": "kafka", "direction": "in"}])
    bodies = [rule_body(rule.with_group({"kafka": GROUP})) for rule in both]
    assert [(one["remote_group_id"], one["ethertype"]) for one in bodies] == [(GROUP, "IPv4"), (GROUP, "IPv6")]
    assert all(one["remote_ip_prefix"] is None for one in bodies)


def test_a_rule_is_the_same_however_neutron_lists_it() -> None:
    (rule,) = read_rules([{"protocol": "tcp", "ports": "22"}])
    row = {**rule_body(rule), "id": "1"}
    assert read_rule(row).rule == read_rule({**row, "remote_ip_prefix": None}).rule == rule
    assert read_rule({**row, "port_range_max": 23}).rule != rule
    assert read_rule({**row, "remote_group_id": GROUP}).rule != rule
    (ping,) = read_rules([{"protocol": "icmp", "cidr": "2001:db8::/32"}])
    assert read_rule({**rule_body(ping), "id": "1", "protocol": "ipv6-icmp"}).rule == ping


def test_a_rule_with_an_address_group_is_not_one_from_everywhere() -> None:
    row = {"id": "1", "direction": "ingress", "protocol": "tcp", "ethertype": "IPv4", "remote_ip_prefix": None}
    assert str(read_rule(row).rule) == "ingress tcp from 0.0.0.0/0"
    assert str(read_rule({**row, "remote_address_group_id": "a-1"}).rule) == "ingress tcp from address group a-1"
