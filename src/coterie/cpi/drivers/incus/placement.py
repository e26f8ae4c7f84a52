"""Which member of a cluster a new VM goes to, and the reservations that were made for VMs. Incus itself knows no server
groups: the one writer of a group chooses here. The choice is a pure function."""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Collection, Mapping, Sequence

from coterie.clock import running_on
from coterie.cpi.contract import InvalidCall, Kind, Mark, NoPlacement, Part, PartRecords, Unavailable, UnrecordedParts
from coterie.cpi.drivers.incus.client import Client, Refusal, Row
from coterie.cpi.drivers.incus.marks import RESERVATION, address_key, of_address
from coterie.cpi.drivers.incus.properties import CONTAINER, MACHINE
from coterie.cpi.kit.lookups import LookupCache
from coterie.ids import INTENT_LENGTH
from coterie.slotted import dataclass, field

_KEEP_S = 30.0
_RECENT_S = 3.0  # Incus itself takes longer to notice that a member is silent
_MIB = 2**20
_RUNS_MACHINES = "qemu"


@dataclass(frozen=True, slots=True)
class Place:
    """A member as a candidate. `why_not`: the reason why nothing can be put there. `load`: VMs that it has."""

    name: str
    cpu: int = 0
    memory: int = 0
    load: int = 0
    why_not: str = ""


def choose(
    policy: str | None, places: Sequence[Place], taken: Collection[str], allowed: Collection[str] | None = None
) -> str:
    """The member for one VM more of a group whose members are on `taken`, one entry for each. `allowed`: the only ones
    that host-affinity permits. Of equal ones that with fewest VMs, then by name."""
    count = {place.name: list(taken).count(place.name) for place in places}
    refused = {place.name: _refusal(policy, place, taken, allowed) for place in places}
    free = [place for place in places if not refused[place.name]]
    if not free:
        raise NoPlacement(
            f"no member of the cluster fits{f' policy {policy}' if policy else ''}",
            why="; ".join(f"{name}: {why}" for name, why in sorted(refused.items())) or "none is known",
            remedy="ask for fewer or smaller VMs, add members, bring members back, or relax the policy",
        )
    sign = -1 if policy == "soft-affinity" else 1 if policy in ("anti-affinity", "soft-anti-affinity") else 0
    return min(free, key=lambda one: (sign * count[one.name], one.load, one.name)).name


def _refusal(policy: str | None, place: Place, taken: Collection[str], allowed: Collection[str] | None) -> str:
    if place.why_not:
        return place.why_not
    if policy == "anti-affinity" and place.name in taken:
        return "it has a member of the group"
    if policy == "affinity" and taken and set(taken) != {place.name}:
        return f"the group is on {', '.join(sorted(set(taken)))}"
    if policy == "host-affinity" and allowed is not None and place.name not in allowed:
        return "it is none of the group's hosts"
    return ""


@dataclass(frozen=True, slots=True)
class Reservation:
    """A place that a create was given. `profile`: of the group, or nothing where no group limits the choice. Its note
    is on the instance, too, which tells by which create it came. `age_s`: by the clock of what records it. `send_by`:
    the latest moment to send its create, by this machine's `running_on`, so that nothing can come of it once it counts
    no more; 0: any. So no machine's clock is compared with another's."""

    profile: str
    name: str
    member: str
    token: str = field(default_factory=lambda: secrets.token_hex(4))
    age_s: float = field(default=0.0, compare=False)
    send_by: float = field(default=0.0, compare=False)

    @property
    def note(self) -> str:
        return f"{self.name} {self.member} {self.token} {self.profile}"

    @staticmethod
    def of_note(note: str, age_s: float = 0.0) -> Reservation:
        name, member, token, profile = note.split(" ", 3)
        return Reservation(profile, name, member, token, age_s)


class ProcessRecords(UnrecordedParts):
    """Where there is no ledger there is one process, which remembers."""

    def __init__(self) -> None:
        self._begun: dict[str, dict[str, float]] = {}

    def intend(self, mark: Mark, kind: Kind, name: str) -> None:
        self._begun.setdefault(mark.intent, {})[name] = running_on()

    def withdraw(self, mark: Mark, kind: Kind, name: str) -> None:
        self._begun.get(mark.intent, {}).pop(name, None)

    def list_of(self, mark: Mark) -> list[Part]:
        now = running_on()
        return [Part("vm", name, None, now - since) for name, since in list(self._begun.get(mark.intent, {}).items())]


_PROCESS = ProcessRecords()


class ReservationRecords:
    """Those of groups, recorded in the ledger, where the next writer finds them: all of a project under one mark, so
    that what is left of a group that is gone is found, too."""

    def __init__(self, cloud: str, client: Client, records: PartRecords) -> None:
        self.cloud = cloud
        self.client = client
        self.records = _PROCESS if type(records) is UnrecordedParts else records

    def record(self, reservation: Reservation) -> None:
        self.records.intend(self._mark, "vm", reservation.note)

    def release(self, reservation: Reservation) -> None:
        """Its create has ended, or was never sent, or its instance is seen."""
        if reservation.profile:
            self.records.withdraw(self._mark, "vm", reservation.note)

    def list_open(self) -> list[Reservation]:
        """Of all groups. Those of which nothing can come any more are withdrawn."""
        found = [Reservation.of_note(part.name, part.age_s) for part in self.records.list_of(self._mark)]
        late = [one for one in found if one.age_s > self._lasts_s]
        at_work = self.client.at_work() if late else {}  # an image that is copied to a member delays what it is for
        over = [one for one in late if one.name not in at_work]
        for one in over:
            self.release(one)
        return [one for one in found if one not in over]

    def forget(self, profile: str) -> None:
        """For a group that is gone for good: Incus refuses each create that names its profile."""
        for one in self.list_open():
            if one.profile == profile:
                self.release(one)

    def settle(self, row: Row) -> None:
        """For an instance that goes: the create that brought it cannot bring it again; another one could."""
        note = str((row.get("config") or {}).get(RESERVATION) or "")
        if note:
            self.release(Reservation.of_note(note))

    @property
    def _lasts_s(self) -> float:
        """How long something may turn up of it: it is sent soon, and then takes its time."""
        settings = self.client.settings
        return settings.settle_s + settings.request_timeout + settings.settle_s

    @property
    def _mark(self) -> Mark:
        """That of no object: only here it is looked for."""
        place = f"{self.cloud}/{self.client.settings.project}"
        return Mark(self.client.director_uuid, hashlib.sha256(place.encode()).hexdigest()[:INTENT_LENGTH])


@dataclass(frozen=True, slots=True)
class Members:
    """The members of the cluster, or the one server where there is no cluster."""

    client: Client
    cache: LookupCache = field(default_factory=lambda: LookupCache(_KEEP_S))
    recent: LookupCache = field(default_factory=lambda: LookupCache(_RECENT_S))
    lock: threading.Lock = field(default_factory=threading.Lock)

    def rows(self) -> list[Row]:
        """Where there is no cluster, one row in the form of a member's."""
        if not self.is_clustered():
            return [{"server_name": self.server()["environment"]["server_name"], "status": "Online", "groups": []}]
        return list(self.recent.get("members", lambda: self.client.rows("list members", "/cluster/members")))

    def server(self) -> Row:
        found: Sequence[Row] = self.cache.get("server", lambda: [self.client.ask("read the server", "")])
        return found[0]

    def is_clustered(self) -> bool:
        return bool(self.server()["environment"].get("server_clustered"))

    def brand(self) -> str:
        """incus or lxd."""
        return str(self.server()["environment"].get("server"))

    def offers(self, extension: str) -> bool:
        """Whether the API of the servers has this extension."""
        return extension in (self.server().get("api_extensions") or ())

    def groups(self) -> dict[str, list[str]]:
        """Cluster groups and their members; an az is one of them."""
        if not self.is_clustered():
            return {}
        rows = self.recent.get("groups", lambda: self.client.rows("list cluster groups", "/cluster/groups"))
        return {str(row["name"]): list(row["members"]) for row in rows}

    def names_of(self, group: str | None) -> list[str] | None:
        """None: all members."""
        if group is None:
            return None
        known = self.groups()
        if group not in known:
            raise InvalidCall(
                f"there is no cluster group {group!r}", remedy=f"use one of: {', '.join(sorted(known)) or 'none'}"
            )
        return known[group]

    def places(
        self, cpu: int, memory: int, group: str | None, pins: Collection[str], type_: str = CONTAINER
    ) -> list[Place]:
        """Every member, with the reason why it is no candidate. `pins`: members that have disks of the VM."""
        of_group, loads = self.names_of(group), self._loads()
        found = []
        for row in self.rows():
            name = str(row["server_name"])
            why_not = ""
            if of_group is not None and name not in of_group:
                why_not = f"it is not in cluster group {group}"
            elif pins and {name} != set(pins):
                why_not = f"a disk of the VM is on {', '.join(sorted(set(pins) - {name}))}"
            elif row["status"] != "Online":
                why_not = f"it is {str(row['status']).lower()}"
            else:
                why_not = self._lack(name, cpu, memory, type_)
            found.append(Place(name, cpu, memory, loads.get(name, 0), why_not))
        return found

    def size(self, name: str, type_: str | None = None) -> tuple[int, int]:
        """CPUs, as often as they are shared, and MiB of a member. A virtual machine can have no more than are there."""
        query = {"target": name} if self.is_clustered() else {}

        def look() -> list[tuple[int, int]]:
            try:
                row = self.client.ask(f"read the resources of {name}", "/resources", **query)
            except Refusal as error:
                raise Unavailable(f"member {name} does not answer", why=error.why, remedy="bring it back") from error
            return [(int(row["cpu"]["total"]), int(row["memory"]["total"]) // _MIB)]

        cpus, memory = self.cache.get(f"size {name}", look)[0]
        settings = self.client.settings
        return cpus * (1 if (type_ or settings.default_type) == MACHINE else settings.cpu_ratio), memory

    def can_run(self, name: str, type_: str) -> bool:
        """Every server of Incus runs containers."""
        if type_ == CONTAINER:
            return True
        query = {"target": name} if self.is_clustered() else {}
        found = self.cache.get(f"drivers {name}", lambda: [self.client.ask(f"read server {name}", "", **query)])
        return _RUNS_MACHINES in str(found[0]["environment"].get("driver")).split(" | ")

    def resolve_hosts(self, words: Sequence[str]) -> list[str]:
        """Members by name, and those of cluster groups that are written @group."""
        groups = self.groups() if any(one.startswith("@") for one in words) else {}
        found = [name for one in words for name in (groups.get(one[1:], []) if one.startswith("@") else [one])]
        return list(dict.fromkeys(found))

    def _lack(self, name: str, cpu: int, memory: int, type_: str) -> str:
        """Members are overcommitted, so only what is larger than the whole member fits nowhere."""
        try:
            has_cpu, has_memory = self.size(name, type_)
            if not self.can_run(name, type_):
                return "it runs no virtual machines"
        except (Refusal, Unavailable) as error:
            return str(error)
        if cpu > has_cpu:
            return f"it has {has_cpu} CPUs to share"
        return f"it has {has_memory} MiB" if memory > has_memory else ""

    def count_in(self, name: str) -> None:
        """A VM that was put there just now."""
        loads = self._loads()
        loads[name] = loads.get(name, 0) + 1

    def require_free(self, addresses: Mapping[str, str], name: str) -> None:
        """Incus compares addresses on one member only. Those on silent members are not known, those of some seconds
        ago count as of now. `addresses`: each with its network. `name`: of the VM that they are for."""
        for ip, network in addresses.items():
            key = address_key(ip)
            if any((row.get("config") or {}).get(key) == network for row in self._instances()):
                rows = self.client.rows("look for an address", "/instances", of_address(ip, network))
                holders = [str(row["name"]) for row in rows if row["name"] != name]
                if holders:
                    raise InvalidCall(
                        f"address {ip} of network {network} is taken",
                        why=f"instance {holders[0]} has it",
                        remedy="delete that instance, or use another address",
                    )

    def _instances(self) -> Sequence[Row]:
        with self.lock:  # one look for all creates that wait
            return self.recent.get("instances", lambda: self.client.rows("list instances", "/instances"))

    def _loads(self) -> dict[str, int]:
        """How many VMs each member has, as far as this process knows; of equal places it decides."""

        def look() -> list[dict[str, int]]:
            loads: dict[str, int] = {}
            for row in self._instances():
                loads[str(row.get("location"))] = loads.get(str(row.get("location")), 0) + 1
            return [loads]

        return self.cache.get("loads", look)[0]
