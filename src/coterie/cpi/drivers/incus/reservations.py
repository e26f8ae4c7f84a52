"""Which member of the cluster a new VM is created on. For a server group one writer at a time chooses, for all VMs that
wait, and records each choice in the ledger before it is answered. The creates then run at the same time.

A recorded seat counts as taken until its instance is seen, and then by the instance; it is withdrawn when its create
has ended. Where that is not known, because the call was killed or its answer was lost, it counts until nothing can come
of it any more. Under one name, which is unique in the cluster, only one instance can come."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from coterie.cpi.contract import CpiError, Json, NoPlacement
from coterie.cpi.drivers.incus.client import Client, Refusal
from coterie.cpi.drivers.incus.placement import Members, Seat, Seats, choose
from coterie.cpi.drivers.incus.server_groups import Profiles
from coterie.cpi.kit.create_once import Created, SingleWriter
from coterie.slotted import dataclass, replace


@dataclass(frozen=True, slots=True)
class Group:
    """As a writer finds it: where its VMs are, by name, and where others may come to be. `allowed`: by its policy."""

    placed: dict[str, str]
    coming: list[Seat]
    allowed: Sequence[str] | None

    def taken_by_others(self, name: str) -> list[str]:
        """Two of one name cannot come."""
        return [*self.placed.values(), *(seat.member for seat in self.coming if seat.name != name)]


@dataclass(frozen=True, slots=True)
class Reservations:
    client: Client
    members: Members
    profiles: Profiles
    seats: Seats
    writer: SingleWriter[Refusal]

    def take(self, wish: Json, silent: Mapping[str, str]) -> Seat | None:
        """None: an instance of this name is there. `silent`: members that did not answer, with the reason."""
        change = {**wish, "kind": "vm", "silent": dict(silent)}
        if not wish["policy"]:
            return Seat("", wish["name"], self._choose(change, (), None), 0.0)
        while True:
            made = self.writer.submit("place", wish["profile"], change)
            if not made.new:
                return None
            seat = Seat.of_note(wish["profile"], made.cid)
            if time.time() < seat.until - self._late_s:
                return seat
            self.seats.release(seat)

    def place(self, changes: Sequence[Json]) -> list[Created | CpiError]:
        """Applies changes of `take` as the one writer of their groups."""
        groups: dict[str, Group] = {}
        answers: list[Created | CpiError] = []
        for change in changes:
            if change["profile"] not in groups:
                groups[change["profile"]] = self._read(change["profile"], change["policy"])
            answers.append(self._place(change, groups[change["profile"]]))
        return answers

    def _place(self, change: Json, group: Group) -> Created | CpiError:
        name, others = change["name"], group.taken_by_others(change["name"])
        if name in group.placed:
            return Created("", False)
        try:
            member = self._choose(change, others, group.allowed)
        except NoPlacement as error:
            coming = [f"{seat.name} to {seat.member}" for seat in group.coming if seat.name != name]
            if not coming:
                return error
            why = f"{error.why}; creates that have not ended bring {', '.join(coming)}"
            return NoPlacement(error.what, why=why, remedy="repeat when they have ended", retryable=True)
        except CpiError as error:
            return error
        seat = Seat(change["profile"], name, member, time.time() + self.client.settings.settle_s + self._late_s)
        self.seats.record(seat)
        group.coming.append(seat)
        return Created(seat.note, True)

    def _choose(self, change: Json, taken: Sequence[str], allowed: Sequence[str] | None) -> str:
        silent = change["silent"]
        places = self.members.places(change["cpu"], change["memory"], change["group"], change["pins"], change["type"])
        places = [replace(one, why_not=silent.get(one.name) or one.why_not) for one in places]
        member = choose(change["policy"], places, taken, allowed)
        self.members.count_in(member)
        return member

    def _read(self, profile: str, policy: str) -> Group:
        """Seats whose instance is seen, or cannot come any more, are given up. They are read first: one that is
        withdrawn meanwhile has its instance in what is read next."""
        seats = self.seats.list_of(profile)
        placed = {str(row["name"]): str(row["location"]) for row in self.profiles.instances(profile)}
        coming = []
        for seat in seats:
            if seat.name in placed or seat.until < time.time():
                self.seats.release(seat)
            else:
                coming.append(seat)
        return Group(placed, coming, self.profiles.hosts_of(profile) if policy == "host-affinity" else None)

    @property
    def _late_s(self) -> float:
        """How late something may turn up of what is sent now."""
        return self.client.settings.request_timeout + self.client.settings.settle_s
