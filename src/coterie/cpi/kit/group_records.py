"""Records of what a cloud cannot remember of a server group: its policy and its security groups.

A driver keeps them where its cloud allows, for example as tags of the default security group, and
fills `RecordStore`. A change adds a record with a higher number before the older ones go: the newest counts, and an
unfinished change can be seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from coterie.cpi.contract import InvalidCall
from coterie.slotted import dataclass

NO_POLICY = "none"  # how stored records write that a server group has no policy
TAG = "coterie-record-"  # and the number: the key of a record that is a tag of something of its server group


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """`policy` None: the VMs of the server group share security groups only."""

    cid: str
    number: int
    policy: str | None
    security_groups: tuple[str, ...]


class RecordStore(Protocol):
    """Where a cloud keeps the records of all server groups."""

    @property
    def limit(self) -> int:
        """How many security groups one record holds."""

    def list_records(self) -> list[GroupRecord]:
        """All readable records, in any order; a list may lag behind what was written."""

    def records_of(self, cid: str) -> list[GroupRecord]:
        """Those of one server group as they are now, in any order."""

    def require_room(self, cid: str) -> None:
        """Raise where the cloud takes no record of another server group."""

    def add_record(self, record: GroupRecord) -> None:
        """Succeeds where the very same record exists already."""

    def delete_records(self, records: Sequence[GroupRecord]) -> None:
        """Records that are gone already are fine. Never called with an empty sequence."""


class GroupRecords:
    def __init__(self, store: RecordStore) -> None:
        self._store = store

    def newest(self) -> dict[str, GroupRecord]:
        """The record that counts, of every server group by its CID."""
        return _newest(self._store.list_records())

    def find(self, cid: str) -> GroupRecord | None:
        """The record that counts, of one server group."""
        return max(self._store.records_of(cid), key=_number, default=None)

    def list_of(self, cid: str) -> list[GroupRecord]:
        """Of one server group, the newest last; more than one only while a change is not finished."""
        return sorted(self._store.records_of(cid), key=_number)

    def security_groups(self, cid: str) -> set[str]:
        """Ids of all that some server group has. `cid`: the one that was just changed, which a list may not show."""
        others = [record for record in self.newest().values() if record.cid != cid]
        own = self.find(cid)
        return {one for record in (*others, *([own] if own else ())) for one in record.security_groups}

    def holders(self) -> dict[str, tuple[str, ...]]:
        """Of each security group the CIDs of the server groups whose VMs get it, whether or not they have a VM now."""
        return holders_in(self._store.list_records())

    def require_room(self, cid: str, count: int) -> None:
        """Refuse, before anything is created, what no record could hold."""
        if count > self._store.limit:
            raise InvalidCall(
                f"server group {cid} has {count} security groups",
                remedy=f"use at most {self._store.limit} for one group",
            )
        self._store.require_room(cid)

    def write(self, cid: str, policy: str | None, security_groups: tuple[str, ...]) -> None:
        """Add the record that counts from now on; a repeat changes nothing."""
        old = self.find(cid)
        if old and (old.policy, old.security_groups) == (policy, security_groups):
            return
        self._store.add_record(GroupRecord(cid, old.number + 1 if old else 1, policy, security_groups))

    def delete(self, cid: str) -> None:
        self._delete(self.list_of(cid))

    def delete_older(self, cid: str) -> None:
        """End a change: only the newest record stays."""
        self._delete(self.list_of(cid)[:-1])

    def _delete(self, records: Sequence[GroupRecord]) -> None:
        if records:
            self._store.delete_records(records)


def holders_in(records: Iterable[GroupRecord]) -> dict[str, tuple[str, ...]]:
    """`GroupRecords.holders`, of records that were listed already."""
    found: dict[str, tuple[str, ...]] = {}
    for cid, record in sorted(_newest(records).items()):
        for one in record.security_groups:
            found[one] = (*found.get(one, ()), cid)
    return found


def _newest(records: Iterable[GroupRecord]) -> dict[str, GroupRecord]:
    return {record.cid: record for record in sorted(records, key=_number)}


def _number(record: GroupRecord) -> int:
    return record.number


def tag_of(record: GroupRecord) -> dict[str, str]:
    """A record as a tag, for clouds where a server group has something that bears tags."""
    return {f"{TAG}{record.number}": " ".join([record.policy or NO_POLICY, *record.security_groups])}


def read_tags(cid: str, tags: Mapping[str, str]) -> list[GroupRecord]:
    found = []
    for key, value in tags.items():
        number, (policy, *ids) = key.removeprefix(TAG), value.split(" ")
        if key.startswith(TAG) and number.isdecimal():
            known = None if policy == NO_POLICY else policy
            found.append(GroupRecord(cid, int(number), known, tuple(filter(None, ids))))
    return found
