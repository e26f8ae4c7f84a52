"""Promises and verdicts."""

from __future__ import annotations

import pytest

from coterie.cpi.contract import POLICIES, GroupMetadata
from coterie.errors import CoterieError
from coterie.group.audit import Host, Member, Room, audit, remedy, vacatable
from coterie.group.change import LIFE, fate, require_move
from coterie.group.policy import PROMISES, Hosts, judge, nodes_to_recreate, promise


def test_every_policy_of_the_contract_has_a_promise() -> None:
    assert set(PROMISES) == set(POLICIES)


@pytest.mark.parametrize(
    ("policy", "hosts", "available", "holds"),
    [
        ("anti-affinity", ["a", "b", "c"], 3, True),
        ("anti-affinity", ["a", "b", "b"], 3, False),
        ("soft-anti-affinity", ["a", "b", "c"], 3, True),
        ("soft-anti-affinity", ["a", "a", "b", "b"], 2, True),
        ("soft-anti-affinity", ["a", "a", "b"], 3, False),
        ("soft-anti-affinity", ["a", "a"], None, None),
        ("soft-anti-affinity", ["a", "a", "b", "b"], None, True),
        ("soft-anti-affinity", ["a", "a", "a", "a", "b", "b"], None, False),
        ("soft-anti-affinity", ["a", "a", "a", "b"], 2, False),
        ("soft-anti-affinity", [], 3, True),
        ("affinity", ["a", "a"], 3, True),
        ("affinity", ["a", "b"], 3, False),
        ("soft-affinity", ["a", "a"], 3, True),
        ("soft-affinity", ["a", "b", "c"], 10, None),
        ("host-affinity", ["a", "b"], 3, None),
        ("host-affinity", [], 3, True),
        ("of-tomorrow", ["a", "b"], 3, None),
        (None, ["a", "a"], 3, True),
    ],
)
def test_verdicts(policy: str | None, hosts: list[str], available: int | None, holds: bool | None) -> None:
    assert judge(policy, hosts, Hosts(available)).holds is holds


@pytest.mark.parametrize(
    ("policy", "known", "holds", "moved"),
    [
        ("host-affinity", Hosts(allowed=frozenset("abc")), True, []),
        ("host-affinity", Hosts(allowed=frozenset("bc")), False, ["x/0"]),
        ("host-affinity", Hosts(allowed=frozenset()), False, ["x/0", "x/1"]),
        ("soft-affinity", Hosts(vacatable=["b"]), False, ["x/1"]),
        ("soft-affinity", Hosts(vacatable=[]), True, []),
    ],
)
def test_verdicts_by_what_is_known_of_hosts(policy: str, known: Hosts, holds: bool, moved: list[str]) -> None:
    assert judge(policy, ["a", "b"], known).holds is holds
    assert nodes_to_recreate(policy, {"a": ["x/0"], "b": ["x/1"]}, known) == moved


SMALL, BIG, FULL = Room(1, 512), Room(4, 4096), Room(0, 0)


@pytest.mark.parametrize(
    ("taken", "free", "found"),
    [
        ({"a": [SMALL], "b": [SMALL]}, {"a": SMALL, "b": FULL}, ["b"]),
        ({"a": [SMALL], "b": [SMALL]}, {"a": FULL, "b": FULL}, []),
        ({"a": [BIG], "b": [SMALL]}, {"a": SMALL, "b": SMALL}, ["b"]),
        ({"a": [SMALL], "b": [SMALL], "c": [SMALL, SMALL]}, {"a": SMALL, "b": SMALL, "c": FULL}, ["a", "b", "c"]),
        ({"a": [SMALL], "b": [None]}, {"a": BIG, "b": BIG}, None),
        ({"a": [SMALL], "b": [SMALL]}, {"a": BIG, "b": None}, None),
        ({"a": [SMALL], "b": [SMALL]}, {"a": BIG}, None),
        ({"a": [SMALL]}, {"a": BIG}, []),
        ({}, {}, []),
    ],
)
def test_hosts_whose_nodes_fit_on_the_others(
    taken: dict[str, list[Room | None]], free: dict[str, Room | None], found: list[str] | None
) -> None:
    assert vacatable(taken, free) == found


@pytest.mark.parametrize(
    ("policy", "counts", "available", "moved"),
    [
        ("soft-anti-affinity", [4, 2], 3, 2),
        ("soft-anti-affinity", [4, 2], None, 1),
        ("soft-anti-affinity", [4, 1, 1], 3, 2),
        ("soft-anti-affinity", [3], None, 2),
        ("soft-anti-affinity", [3], 1, 0),
        ("soft-anti-affinity", [2, 1, 1], 3, 0),
        ("soft-anti-affinity", [], 3, 0),
        ("anti-affinity", [2, 1, 3], 3, 3),
        ("affinity", [1, 3, 1], 3, 2),
        ("soft-affinity", [1, 3], 3, 0),
        (None, [3], 3, 0),
    ],
)
def test_what_a_recreate_should_move(policy: str | None, counts: list[int], available: int | None, moved: int) -> None:
    hosts = {f"h{number}": [f"{number}/{one}" for one in range(count)] for number, count in enumerate(counts)}
    assert len(nodes_to_recreate(policy, hosts, Hosts(available))) == moved


HOSTS = [Host("h1", "z1", "r1"), Host("h2", "z1", "r1"), Host("h3", "z1", "r2"), Host("x", "z9", "r9")]


def test_an_audit_names_the_worst_failure() -> None:
    members = [Member("a/0", "h1"), Member("a/1", "h2"), Member("a/2", "h3")]
    found = audit("anti-affinity", members, HOSTS, ["z1"])
    assert found["holds"] is True
    assert found["worst_host"] == {"name": "h1", "nodes": ["a/0"]}
    assert found["worst_rack"] == {"name": "r1", "nodes": ["a/0", "a/1"]}


def test_what_the_cloud_does_not_say_is_not_claimed() -> None:
    found = audit("anti-affinity", [Member("a/0", "h1"), Member("a/1", None)], HOSTS, ["z1"])
    assert found["holds"] is None
    assert "a/1" in found["why"]


def test_a_broken_promise_is_broken_even_if_some_are_unseen() -> None:
    members = [Member("a/0", "h1"), Member("a/1", "h1"), Member("a/2", None)]
    assert audit("anti-affinity", members, HOSTS, ["z1"])["holds"] is False


def test_who_is_down_is_told_and_cannot_be_taken_down() -> None:
    members = [Member("a/0", "h1", down="stopped"), Member("a/1", "h2"), Member("a/2", None, down="missing")]
    found = audit("anti-affinity", members, HOSTS, ["z1"])
    assert (found["holds"], found["down"]) == (True, {"a/0": "stopped", "a/2": "missing"})
    assert found["worst_host"] == {"name": "h2", "nodes": ["a/1"]}


def test_a_node_beside_the_named_hosts_breaks_the_promise() -> None:
    members = [Member("a/0", "h1"), Member("a/1", "h2")]
    found = audit("host-affinity", members, HOSTS, ["z1"], allowed=["h2"])
    assert (found["holds"], found["mend"]) == (False, ["a/0"])


def test_nodes_that_would_fit_on_fewer_hosts_break_a_soft_affinity() -> None:
    hosts = [Host("h1", "z1", "r1", Room(2, 1024)), Host("h2", "z1", "r1", FULL)]
    members = [Member("a/0", "h1", SMALL), Member("a/1", "h2", SMALL)]
    found = audit("soft-affinity", members, hosts, ["z1"])
    assert (found["holds"], found["mend"]) == (False, ["a/1"])


@pytest.mark.parametrize(
    ("state", "moves", "adopted", "other", "words"),
    [
        ("live", False, False, False, ""),
        ("missing", True, False, False, "groups repair"),
        ("missing", False, False, False, "deploy again, which makes the group and its nodes anew"),
        ("missing", True, True, False, "have the operator restore it"),
        ("drifted", False, False, False, "groups repair"),
        ("drifted", False, False, True, "deploy again, which makes the group and its nodes anew"),
        ("drifted", True, False, True, "deploy again, which makes the group anew"),
    ],
)
def test_what_is_advised_is_what_works(state: str, moves: bool, adopted: bool, other: bool, words: str) -> None:
    told = remedy(state, moves_members=moves, adopted=adopted, other_policy=other)
    assert words in told and bool(words) == bool(told)


NOW = {
    "director": {"name": "d", "uuid": "u"},
    "deployment": "dep",
    "instance_group": "web",
    "policy": "anti-affinity",
    "azs": ["z1"],
    "security_groups": [],
    "options": {},
}


def _metadata(**changes: object) -> GroupMetadata:
    return GroupMetadata.of_wire({**NOW, **changes})


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, "keep"),
        ({"azs": ["z1", "z2"]}, "update"),
        ({"security_groups": [{"name": "s", "rules": []}]}, "update"),
        ({"policy": "affinity"}, "replace"),
        ({"options": {"host_group": "h"}}, "replace"),
        ({"options": {"adopt": False}}, "keep"),
        ({"options": {"affine": False}}, "replace"),
        ({"policy": None, "azs": []}, "replace"),
    ],
)
def test_the_fate_of_a_group(change: dict[str, object], expected: str) -> None:
    assert fate(_metadata(), _metadata(**change))[0] == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [({"rule": "should"}, "update"), ({}, "update"), ({"rule": "must", "vm_group": "v"}, "replace")],
)
def test_options_that_a_cloud_can_change_need_no_new_group(options: dict[str, object], expected: str) -> None:
    now = _metadata(options={"rule": "must"})
    assert fate(now, _metadata(options=options), frozenset({"rule"}))[0] == expected


def test_illegal_moves_cannot_be_written() -> None:
    for old, allowed in LIFE.items():
        for new in LIFE:
            if new in allowed:
                require_move(old, new)
            else:
                with pytest.raises(CoterieError, match=f"from {old} to {new}"):
                    require_move(old, new)


@pytest.mark.parametrize(
    ("policy", "domains", "holds", "mend"),
    [
        ("anti-affinity", "abc", True, 0),
        ("anti-affinity", "abb", None, 0),
        ("anti-affinity", "a-c", None, 0),
        ("soft-anti-affinity", "aabb", True, 0),
        ("soft-anti-affinity", "aaab", False, 1),
        ("soft-anti-affinity", "aa", None, 0),
        ("affinity", "aa", None, 0),
    ],
)
def test_domains_prove_different_hosts_and_nothing_else(policy: str, domains: str, holds: bool, mend: int) -> None:
    members = [Member(f"a/{n}", None, domain=None if one == "-" else one) for n, one in enumerate(domains)]
    found = audit(policy, members, [], [], domain_word="fault domain")
    assert (found["holds"], len(found["mend"])) == (holds, mend)
    assert "fault domain" in found["why"]


def test_hosts_count_for_more_than_domains_where_both_are_shown() -> None:
    members = [Member("a/0", "h1", domain="d1"), Member("a/1", "h2", domain="d1")]
    found = audit("anti-affinity", members, HOSTS, ["z1"], domain_word="partition")
    assert (found["holds"], found["domains"]) == (True, {"d1": ["a/0", "a/1"]})
    assert found["worst_domain"] == {"name": "d1", "nodes": ["a/0", "a/1"]}


def test_promises_say_what_they_are_about() -> None:
    assert promise("anti-affinity") == "no two nodes on one host"
    assert promise("anti-affinity", "fault domain") == "no two nodes on one host, shown by different fault domains"
    assert promise("affinity", "partition") == "all nodes on one host"
    assert promise(None) == "none"
