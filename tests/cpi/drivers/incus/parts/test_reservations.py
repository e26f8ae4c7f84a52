"""Reservations of a strict group: whenever callers and writers die, and whenever what they sent arrives, no two VMs
share a member of the cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from coterie.cpi.contract import Mark, NoPlacement, Part
from coterie.cpi.drivers.incus import placement
from coterie.cpi.drivers.incus.placement import Place, ProcessRecords, Reservation, ReservationRecords
from coterie.cpi.drivers.incus.properties import Settings
from coterie.cpi.drivers.incus.reservations import Placements
from coterie.cpi.kit.create_once import Created, running_on
from coterie.slotted import replace

MEMBERS = ("inc1", "inc2", "inc3")
SETTINGS = Settings(settle_s=30.0, request_timeout=60.0)
LATE_S = 90.0  # how late something may turn up of what is sent


class Records(ProcessRecords):
    """Of the ledger: what is recorded survives every writer."""

    def __init__(self) -> None:
        super().__init__()
        self.after_look: Callable[[], None] = lambda: None

    def list_of(self, mark: Mark) -> list[Part]:
        found = super().list_of(mark)
        self.after_look()
        return found

    @property
    def names(self) -> list[str]:
        return [name for begun in self._begun.values() for name in begun]


class Cluster:
    """As the driver's parts see it: names are unique, and each VM is on one member."""

    def __init__(self) -> None:
        self.vms: dict[str, Reservation] = {}
        self.records = Records()
        self.at_work: list[Reservation] = []  # creates whose operation runs, and whose instance is not to be seen yet

    def writer(self) -> Placements:
        """A new process: it knows nothing but what is recorded and seen."""
        places = [Place(name, 1, 1) for name in MEMBERS]
        members: Any = SimpleNamespace(places=lambda *_: places, count_in=lambda _: None)
        profiles: Any = SimpleNamespace(
            instances=lambda _: self.look(),
            hosts_of=lambda _: None,
        )
        client: Any = SimpleNamespace(
            settings=SETTINGS,
            director_uuid="d" * 36,
            at_work=lambda: {reservation.name: ["operation"] for reservation in self.at_work},
        )
        records: Any = self.records
        return Placements(client, members, profiles, ReservationRecords("lab", client, records), writer=None)  # type: ignore[arg-type]

    def look(self) -> list[dict[str, str]]:
        found = [{"name": reservation.name, "location": reservation.member} for reservation in self.vms.values()]
        self.records.after_look()
        return found

    def arrive(self, reservation: Reservation) -> None:
        """What Incus does with a create."""
        self.vms.setdefault(reservation.name, reservation)


def wish(name: str, *silent: str) -> dict[str, Any]:
    sizes = {"group": None, "pins": [], "cpu": 1, "memory": 1, "type": "container"}
    reasons = dict.fromkeys(silent, "it did not answer")
    return {"name": name, "profile": "g", "policy": "anti-affinity", "silent": reasons, **sizes}


class Strict(RuleBasedStateMachine):
    """Reservations in three states: answered and not sent, sent and not arrived, arrived and not released."""

    @initialize()
    def begin(self) -> None:
        self.cluster = Cluster()
        self.now = 1000.0
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(placement, "running_on", lambda: self.now)
        self.held: list[Reservation] = []
        self.flying: list[Reservation] = []

    def teardown(self) -> None:
        if hasattr(self, "patch"):
            self.patch.undo()

    @rule(names=st.lists(st.sampled_from("abcde"), min_size=1, max_size=5, unique=True))
    def choose(self, names: list[str]) -> None:
        for name, answer in zip(names, self.cluster.writer().place([wish(one) for one in names]), strict=True):
            if isinstance(answer, Created) and answer.new:
                self.held.append(replace(Reservation.of_note(answer.cid), send_by=self.now + SETTINGS.settle_s))
            elif isinstance(answer, Created):
                assert name in self.cluster.vms
            else:
                assert isinstance(answer, NoPlacement)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def send(self, data: st.DataObject) -> None:
        """A caller sends within the time that `take` allows; otherwise it gives the reservation up."""
        reservation = data.draw(st.sampled_from(self.held))
        self.held.remove(reservation)
        if self.now < reservation.send_by:
            self.flying.append(reservation)
        else:
            self.cluster.writer().recorded.release(reservation)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        self.held.remove(data.draw(st.sampled_from(self.held)))

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), dies=st.booleans())
    def arrive(self, data: st.DataObject, dies: bool) -> None:
        reservation = data.draw(st.sampled_from(self.flying))
        self.flying.remove(reservation)
        if reservation in self.cluster.at_work:
            self.cluster.at_work.remove(reservation)
        self.cluster.arrive(reservation)
        if not dies:
            self.cluster.writer().recorded.release(reservation)

    @rule(seconds=st.floats(1, 80), copies=st.booleans())
    def wait(self, seconds: float, copies: bool) -> None:
        """What was sent has begun before its time is over, or never comes. Begun, it may wait for its image."""
        if copies:
            self.cluster.at_work += [one for one in self.flying if one not in self.cluster.at_work]
        self.now += seconds
        self.flying = [one for one in self.flying if self.now <= one.send_by + LATE_S or one in self.cluster.at_work]

    @precondition(lambda self: self.cluster.vms)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.cluster.vms)))
        config = {"user.coterie-reservation": self.cluster.vms.pop(name).note}
        self.cluster.writer().recorded.settle({"name": name, "profiles": ["g"], "config": config})

    @invariant()
    def no_two_share_a_member(self) -> None:
        if hasattr(self, "cluster"):
            used = Counter(reservation.member for reservation in self.cluster.vms.values())
            assert max(used.values(), default=1) == 1, self.cluster.vms


TestStrict = Strict.TestCase
TestStrict.settings = settings(max_examples=400, stateful_step_count=40, deadline=None)


def test_a_seat_that_can_bring_nothing_any_more_is_free_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    cluster.vms = {name: Reservation("g", name, member) for name, member in (("a", "inc1"), ("b", "inc2"))}
    (killed,) = cluster.writer().place([wish("c")])
    assert isinstance(killed, Created)
    (refused,) = cluster.writer().place([wish("d")])
    assert isinstance(refused, NoPlacement) and refused.retryable and "c to inc3" in refused.why
    (again,) = cluster.writer().place([wish("c")])
    assert isinstance(again, Created) and Reservation.of_note(again.cid).member == "inc3"
    later = running_on() + 121
    monkeypatch.setattr(placement, "running_on", lambda: later)
    (free,) = cluster.writer().place([wish("d")])
    assert isinstance(free, Created) and free.new
    assert len(cluster.records.names) == 1, "what came to nothing is withdrawn"


def test_a_vm_that_is_seen_and_given_up_between_two_looks_of_the_writer_counts() -> None:
    cluster = Cluster()
    cluster.vms = {name: Reservation("g", name, member) for name, member in (("a", "inc1"), ("b", "inc2"))}
    (answer,) = cluster.writer().place([wish("c")])
    assert isinstance(answer, Created)
    reservation = Reservation.of_note(answer.cid)

    def end() -> None:
        """Whichever of the two looks is the first one."""
        cluster.records.after_look = lambda: None
        cluster.arrive(reservation)
        cluster.writer().recorded.release(reservation)

    cluster.records.after_look = end
    (refused,) = cluster.writer().place([wish("d")])
    assert isinstance(refused, NoPlacement)


def test_a_full_group_refuses_for_good() -> None:
    cluster = Cluster()
    cluster.vms = {name: Reservation("g", name, member) for name, member in zip("abc", MEMBERS, strict=True)}
    (refused,) = cluster.writer().place([wish("d")])
    assert isinstance(refused, NoPlacement) and not refused.retryable


def test_a_member_that_did_not_answer_is_left_out() -> None:
    answers = Cluster().writer().place([wish("a", "inc1", "inc2")])
    (created,) = answers
    assert isinstance(created, Created) and Reservation.of_note(created.cid).member == "inc3"


def test_a_second_create_under_a_name_counts_where_it_may_still_arrive() -> None:
    """Else it would come beside another, once the first one's VM is deleted."""
    cluster = Cluster()
    first, second = (cluster.writer().place([wish("a", *silent)])[0] for silent in ((), ("inc1",)))
    assert isinstance(first, Created) and isinstance(second, Created)
    cluster.arrive(Reservation.of_note(second.cid))
    (other,) = cluster.writer().place([wish("b")])
    assert isinstance(other, Created) and Reservation.of_note(other.cid).member == "inc3"


def test_a_create_that_waits_for_its_image_counts_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    (answer,) = cluster.writer().place([wish("a")])
    assert isinstance(answer, Created)
    cluster.at_work = [Reservation.of_note(answer.cid)]
    later = running_on() + 1000
    monkeypatch.setattr(placement, "running_on", lambda: later)
    (other,) = cluster.writer().place([wish("b")])
    assert isinstance(other, Created) and Reservation.of_note(other.cid).member != "inc1"
