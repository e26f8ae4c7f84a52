"""How a VM gets into its group: in the call that boots it, or, where members are one list, through the coordinator.

A list of members has one writer at a time: it is read, merged, written once for all waiting VMs, and read again. Only
what is visible then is acknowledged; members of others survive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from coterie.cpi.contract import CpiError, Json, VMNotFound, is_adopted, revive
from coterie.cpi.drivers.sandbox.account import CloudAccount
from coterie.cpi.drivers.sandbox.errors import translate
from coterie.cpi.drivers.sandbox.group_records import GroupRecords, group_arguments, group_missing
from coterie.cpi.kit.marking import DIRECTOR, GROUP, INTENT
from coterie.errors import CoterieError
from coterie.sandbox.errors import AnswerLost, NoSuch, SandboxError
from coterie.sandbox.server_groups import ServerGroup, create_server_group, read_members, write_members
from coterie.sandbox.vm_shape import Vm, get_vm
from coterie.slotted import dataclass

_TRIES = 4


@dataclass(frozen=True, slots=True)
class Placement:
    """The group that a new VM goes into. `group`: the datacenter's id, where the boot call takes it."""

    cid: str
    group: str | None
    security_groups: tuple[str, ...]
    policy: str | None


@dataclass(frozen=True, slots=True)
class Writer:
    """The coordinator as this driver uses it. `domain`: a zone → the name of its single-writer domain."""

    submit: Callable[[str, Json], Json]
    hold: Callable[[str], None]
    domain: Callable[[str], str]


class Membership:
    def __init__(self, cloud: CloudAccount, records: GroupRecords, writer: Writer, *, single_writer: bool) -> None:
        self._cloud = cloud
        self._records = records
        self._writer = writer
        self._single_writer = single_writer

    def find_placement(self, env: Mapping[str, Any]) -> Placement | None:
        """The group named in env.bosh.server_group_cid, looked up now: a group that is gone is noticed here."""
        cid = (env.get("bosh") or {}).get("server_group_cid")
        if not cid:
            return None
        if is_adopted(cid):
            adopted = self._records.groups_behind(cid)
            if not adopted:
                raise group_missing(cid)
            return Placement(cid, None if self._single_writer else adopted[0].id, (), adopted[0].policy)
        record = self._records.require(cid)
        holder = None if self._single_writer else record.holder.id
        return Placement(cid, holder, record.security_groups, record.policy)

    def joins_before_boot(self, placement: Placement | None) -> bool:
        """Whether the VM is created stopped, joined through the coordinator, and started then."""
        return placement is not None and self._single_writer

    def join(self, cid: str, vm: Vm) -> None:
        """Returns when the VM is seen in its group; only where members are one list."""
        zone = str(vm.zone)
        change = {"op": "join", "group": cid, "zone": zone, "vm": vm.id}
        outcome = self._writer.submit(self._writer.domain(zone), change)
        if not outcome.get("ok"):
            raise revive(outcome.get("error") or {})

    def rejoin(self, cid: str, vm: Vm) -> None:
        """Bring back a VM that another writer dropped from the list."""
        if self._single_writer and vm.host and not vm.groups:
            self.join(cid, vm)

    def apply(self, domain: str, changes: Sequence[Json]) -> list[Json]:
        outcomes: dict[int, Json] = {}
        for cid, zone in dict.fromkeys((change["group"], change["zone"]) for change in changes):
            wanted = {i: c["vm"] for i, c in enumerate(changes) if (c["group"], c["zone"]) == (cid, zone)}
            failed = self._join_all(domain, cid, zone, list(dict.fromkeys(wanted.values())))
            for index, vm in wanted.items():
                outcomes[index] = {"ok": False, "error": failed[vm].facts()} if vm in failed else {"ok": True}
        return [outcomes[index] for index in range(len(changes))]

    def _join_all(self, domain: str, cid: str, zone: str, vms: list[str]) -> dict[str, CoterieError]:
        """Make all of them members; answers those that could not join, each with its error."""
        for _ in range(_TRIES):
            failed = self._find_gone(vms)
            wanted = [vm for vm in vms if vm not in failed]
            try:
                if wanted:
                    failed |= self._merge(domain, cid, zone, wanted)
                return failed
            except NoSuch:
                continue  # a VM or the group itself went away between our look and our write: look again
            except SandboxError as error:
                return failed | dict.fromkeys(wanted, translate(error))
            except CpiError as error:
                return failed | dict.fromkeys(wanted, error)
        return dict.fromkeys(vms, _overwritten(cid))

    def _find_gone(self, vms: list[str]) -> dict[str, CoterieError]:
        gone: dict[str, CoterieError] = {}
        for vm in vms:
            try:
                get_vm(self._cloud.account, vm)
            except NoSuch:
                gone[vm] = VMNotFound(f"VM {vm} is gone and joins nothing", remedy="create it again")
        return gone

    def _merge(self, domain: str, cid: str, zone: str, wanted: list[str]) -> dict[str, CoterieError]:
        group = self._find_or_create_group(cid, zone, wanted)
        present = set(read_members(self._cloud.account, group.id))
        if not present.issuperset(wanted):
            self._writer.hold(domain)
            self._write(group, [*present, *(vm for vm in wanted if vm not in present)])
            present = set(read_members(self._cloud.account, group.id))
        if not is_adopted(cid):
            self._records.require(cid)  # the group may have been deleted while it came into being
        return {vm: _overwritten(cid) for vm in wanted if vm not in present}

    def _find_or_create_group(self, cid: str, zone: str, first: list[str]) -> ServerGroup:
        """The zone's group of this CID; a reserved one comes into being with its first members."""
        record = None if is_adopted(cid) else self._records.require(cid)
        for group in self._records.groups_behind(cid):
            if group.zone == zone:
                return group
        if record is None:
            raise group_missing(cid)
        tags = record.holder.tags
        return create_server_group(
            self._cloud.account,
            name=cid,
            zone=zone,
            members=first,
            tags={key: tags[key] for key in (DIRECTOR, INTENT, GROUP) if key in tags},
            client_token=f"{cid}/{zone}",
            **group_arguments(tags),
        )

    def _write(self, group: ServerGroup, members: list[str]) -> None:
        try:
            write_members(self._cloud.account, group.id, members)
        except AnswerLost:
            return  # the next look tells whether it was written


def _overwritten(cid: str) -> CpiError:
    return CpiError(
        f"joining server group {cid} did not last",
        why="another writer replaced its list of members",
        remedy="find out what else writes this group, then repeat",
        retryable=True,
    )
