"""Which member of the cluster a new VM is created on. For a server group one writer at a time chooses, for all VMs that
wait, and records each choice in the ledger before it is answered. The creates then run at the same time.

A reservation counts as taken until its instance is seen, and then the instance does; it is withdrawn when its create
has ended. Where that is not known, because the call was killed or its answer was lost, it counts until nothing can come
of it any more. Under one name, which is unique in the cluster, only one instance can come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coterie.clock import running_on
from coterie.cpi.contract import CpiError, Json, NoPlacement
from coterie.cpi.drivers.incus.client import Client, Refusal
from coterie.cpi.drivers.incus.placement import Members, Reservation, ReservationRecords, choose
from coterie.cpi.drivers.incus.server_groups import Profiles
from coterie.cpi.kit.create_once import Created, SingleWriter
from coterie.slotted import dataclass, replace


@dataclass(frozen=True, slots=True)
class Group:
    """As a writer finds it: where its VMs are, by name, and where others may come to be. `allowed`: by its policy."""

    placed: dict[str, str]
    coming: list[Reservation]
    allowed: Sequence[str] | None

    def taken_by_others(self, name: str) -> list[str]:
        """Two of one name cannot come."""
        return [*self.placed.values(), *(reservation.member for reservation in self.coming if reservation.name != name)]


@dataclass(frozen=True, slots=True)
class Placements:
    client: Client
    members: Members
    profiles: Profiles
    recorded: ReservationRecords
    writer: SingleWriter[Refusal]

    def take(self, wish: Json, silent: Mapping[str, str]) -> Reservation | None:
        """None: an instance of this name is there. `silent`: members that did not answer, with the reason."""
        change = {**wish, "kind": "vm", "silent": dict(silent)}
        if not wish["policy"]:
            return Reservation("", wish["name"], self._choose(change, (), None), send_by=0.0)
        while True:
            made = self.writer.submit("place", wish["profile"], change)
            if not made.new:
                return None
            send_by = made.asked_at + self.client.settings.settle_s  # it was recorded later, if by another's clock
            reservation = replace(Reservation.of_note(made.cid), send_by=send_by)
            if running_on() < send_by:
                return reservation
            self.recorded.release(reservation)

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
            coming = [
                f"{reservation.name} to {reservation.member}"
                for reservation in group.coming
                if reservation.name != name
            ]
            if not coming:
                return error
            why = f"{error.why}; creates that have not ended bring {', '.join(coming)}"
            return NoPlacement(error.what, why=why, remedy="repeat when they have ended", retryable=True)
        except CpiError as error:
            return error
        reservation = Reservation(change["profile"], name, member)
        self.recorded.record(reservation)
        group.coming.append(reservation)
        return Created(reservation.note, True)

    def _choose(self, change: Json, taken: Sequence[str], allowed: Sequence[str] | None) -> str:
        silent = change["silent"]
        places = self.members.places(change["cpu"], change["memory"], change["group"], change["pins"], change["type"])
        places = [replace(one, why_not=silent.get(one.name) or one.why_not) for one in places]
        member = choose(change["policy"], places, taken, allowed)
        self.members.count_in(member)
        return member

    def _read(self, profile: str, policy: str) -> Group:
        """Reservations are read first: one that is withdrawn meanwhile has its instance in what is read next. One whose
        instance is seen there says nothing more. One to another member may still bring it, once that is deleted."""
        reservations = self.recorded.list_open()
        placed = {str(row["name"]): str(row["location"]) for row in self.profiles.instances(profile)}
        coming = [
            reservation
            for reservation in reservations
            if reservation.profile == profile and placed.get(reservation.name) != reservation.member
        ]
        return Group(placed, coming, self.profiles.hosts_of(profile) if policy == "host-affinity" else None)
