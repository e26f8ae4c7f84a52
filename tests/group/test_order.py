"""Nodes in the order of their numbers, and counts in words that fit them."""

from __future__ import annotations

from coterie.group.audit import Host, Member, audit
from coterie.group.policy import by_index


def test_numbers_count_as_numbers() -> None:
    assert sorted(["b/0", "a/10", "a/2", "db1", "a/1"], key=by_index) == ["a/1", "a/2", "a/10", "b/0", "db1"]


def test_an_audit_names_nodes_in_that_order_and_one_node_is_no_nodes() -> None:
    hosts = [Host(name, "z1", "r1") for name in ("h1", "h2")]
    members = [Member(f"a/{n}", "h1" if n % 2 else "h2") for n in (10, 1, 2, 11)]
    assert audit("soft-anti-affinity", members, hosts, [])["hosts"] == {"h1": ["a/1", "a/11"], "h2": ["a/2", "a/10"]}
    assert audit("anti-affinity", members, hosts, [])["mend"] == ["a/10", "a/11"]
    assert audit("anti-affinity", members[:1], hosts, [])["why"] == "1 node on 1 host"
    assert audit("soft-anti-affinity", members[:2], hosts, [])["why"] == "2 nodes on 2 hosts, at most 1 on one"
