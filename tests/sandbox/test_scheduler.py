"""The scheduler: policies hold for any datacenter, choices are deterministic, refusals explain themselves."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.sandbox.errors import NoHost
from coterie.sandbox.fit import POLICIES, Candidate, Demand, Rule, obstacle
from coterie.sandbox.scheduler import place

SMALL = Demand(1, 1024, 1024)


def host(name: str, *, rack: str = "r1", up: bool = True, cpu: int = 8, ram: int = 8192, zone: str = "z1") -> Candidate:
    return Candidate(name, zone, rack, up, cpu, ram, 100_000)


@st.composite
def buildings(draw: st.DrawFn) -> list[Candidate]:
    sizes = st.tuples(st.integers(0, 4), st.integers(0, 6), st.booleans())
    drawn = draw(st.lists(sizes, min_size=1, max_size=8))
    return [
        host(f"h{number}", rack=f"r{number % 3}", up=up, cpu=cpu, ram=1024 * ram)
        for number, (cpu, ram, up) in enumerate(drawn)
    ]


class Room:
    """Places VMs one after another, as the datacenter does."""

    def __init__(self, hosts: list[Candidate], policy: str, allowed: frozenset[str] | None = None) -> None:
        self.hosts = {host.name: host for host in hosts}
        self.policy, self.allowed = policy, allowed
        self.members: Counter[str] = Counter()

    def boot(self, demand: Demand = SMALL) -> str:
        rule = Rule(self.policy, dict(self.members), self.allowed)
        chosen = place(list(self.hosts.values()), demand, [rule])
        assert obstacle(chosen, demand, [rule]) is None
        self.hosts[chosen.name] = chosen._replace(cpu=chosen.cpu - demand.cpu, ram_mb=chosen.ram_mb - demand.ram_mb)
        self.members[chosen.name] += 1
        return chosen.name


def fill(room: Room, limit: int = 40) -> int:
    """Boot until nothing fits; how many did."""
    for count in range(limit):
        try:
            room.boot()
        except NoHost:
            return count
    return limit


@settings(deadline=None)
@given(buildings())
def test_strict_anti_affinity_never_puts_two_on_a_host_and_uses_every_host_that_fits(hosts: list[Candidate]) -> None:
    room = Room(hosts, "anti-affinity")
    placed = fill(room)
    assert all(count == 1 for count in room.members.values())
    assert placed == sum(1 for host in hosts if obstacle(host, SMALL, []) is None)


@settings(deadline=None)
@given(buildings())
def test_strict_affinity_never_uses_two_hosts(hosts: list[Candidate]) -> None:
    room = Room(hosts, "affinity")
    fill(room)
    assert len(room.members) <= 1


@settings(deadline=None)
@given(buildings())
def test_soft_policies_use_all_the_room_there_is(hosts: list[Candidate]) -> None:
    capacity = sum(min(host.cpu, host.ram_mb // 1024) for host in hosts if host.up)
    for policy in ("soft-anti-affinity", "soft-affinity"):
        assert fill(Room(hosts, policy), 100) == capacity


@settings(deadline=None)
@given(st.integers(1, 8), st.integers(1, 40))
def test_soft_anti_affinity_spreads_evenly_where_capacity_allows(hosts: int, vms: int) -> None:
    room = Room([host(f"h{n}", rack=f"r{n % 2}", cpu=100, ram=10**6) for n in range(hosts)], "soft-anti-affinity")
    for _ in range(vms):
        room.boot()
    counts = [room.members[f"h{n}"] for n in range(hosts)]
    assert max(counts) - min(counts) <= 1


@settings(deadline=None)
@given(st.integers(2, 8), st.integers(1, 8))
def test_racks_fill_evenly_too(racks: int, vms: int) -> None:
    hosts = [host(f"r{rack}-h{n}", rack=f"r{rack}", cpu=100, ram=10**6) for rack in range(racks) for n in range(8)]
    room = Room(hosts, "soft-anti-affinity")
    chosen = Counter(room.boot().partition("-")[0] for _ in range(vms))
    assert max(chosen.values()) - min(chosen.get(f"r{rack}", 0) for rack in range(racks)) <= 1


@settings(deadline=None)
@given(buildings(), st.frozensets(st.integers(0, 7).map(lambda n: f"h{n}")))
def test_host_affinity_stays_within_the_allowed_hosts(hosts: list[Candidate], allowed: frozenset[str]) -> None:
    room = Room(hosts, "host-affinity", allowed)
    fill(room)
    assert set(room.members) <= allowed


@settings(deadline=None)
@given(buildings(), st.sampled_from([*POLICIES, None]))
def test_the_same_picture_gives_the_same_host_whatever_the_order(hosts: list[Candidate], policy: str | None) -> None:
    rules = [Rule(policy, {"h0": 1, "h1": 2})]

    def choice(order: list[Candidate]) -> str:
        try:
            return place(order, SMALL, rules).name
        except NoHost as refusal:
            return str(sorted(refusal.details["hosts"].items()))

    assert choice(hosts) == choice(hosts[::-1])


@settings(deadline=None)
@given(buildings())
def test_a_refusal_accounts_for_every_host(hosts: list[Candidate]) -> None:
    huge = Demand(1000, 1024, 1024)
    with pytest.raises(NoHost) as caught:
        place(hosts, huge, [])
    reasons = Counter(caught.value.details["hosts"].values())
    assert sum(reasons.values()) == len(hosts)
    assert set(reasons) <= {"down", "cpu"}
    noun = "1 host" if len(hosts) == 1 else f"{len(hosts)} hosts"
    assert caught.value.why.startswith(f"z1: {noun}: ")


def test_the_refusal_counts_hosts_by_reason() -> None:
    hosts = [host("a"), host("b"), host("c"), host("d", ram=2048)]
    with pytest.raises(NoHost) as caught:
        place(hosts, Demand(1, 8192, 0), [Rule("anti-affinity", {"a": 1, "b": 1, "c": 1})])
    assert caught.value.why == "z1: 4 hosts: 3 already hold a member, 1 lacks ram (needs 8192, has 2048)"


def test_every_reason_has_words() -> None:
    hosts = [host("a", up=False), host("b", cpu=1), host("c", cpu=2), host("d", zone="z2")]
    with pytest.raises(NoHost) as caught:
        place(hosts, Demand(4, 1024, 0), [Rule("host-affinity", {}, frozenset("abc"))])
    assert caught.value.why == (
        "z1: 3 hosts: 2 lack cpu (needs 4, have at most 2), 1 is down; z2: 1 host: 1 is not among the group's hosts"
    )
    with pytest.raises(NoHost) as caught:
        place([host("a"), host("b", cpu=0)], Demand(1, 1, 200_000), [Rule("affinity", {"b": 1})])
    assert caught.value.why == "z1: 2 hosts: 1 lacks cpu (needs 1, has 0), 1 does not hold the group's members"


def test_without_a_group_the_freest_host_is_taken_and_ties_go_by_name() -> None:
    assert place([host("b"), host("a"), host("c", ram=4096)], SMALL).name == "a"
    assert place([host("b", ram=9000), host("a")], SMALL).name == "b"


def test_soft_affinity_joins_the_crowd_until_it_is_full() -> None:
    room = Room([host("a", cpu=2), host("b", cpu=9, ram=9000)], "soft-affinity")
    room.members["a"] = 1
    assert [room.boot() for _ in range(3)] == ["a", "a", "b"]
