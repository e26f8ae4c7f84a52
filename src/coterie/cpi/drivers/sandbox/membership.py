"""Lists of members with one writer at a time: read, merged, written once for all who wait, and read again.

Only what is visible then is acknowledged; foreign members survive. The coordinator calls `apply`, nobody else.
"""

from __future__ import annotations

from collections.abc import Sequence

from coterie.cpi.contract import CpiError, Json, VMNotFound, is_adopted
from coterie.cpi.drivers.sandbox.group_tags import materials
from coterie.cpi.drivers.sandbox.holders import Holders, group_missing
from coterie.cpi.drivers.sandbox.marking import DIRECTOR, GROUP, INTENT
from coterie.cpi.drivers.sandbox.refusals import translate
from coterie.errors import CoterieError
from coterie.sandbox.errors import AnswerLost, NoSuch, SandboxError
from coterie.sandbox.server_groups import ServerGroup, create_server_group, read_members, write_members
from coterie.sandbox.vm_shape import get_vm

_TRIES = 4


class Membership(Holders):
    def apply(self, domain: str, changes: Sequence[Json]) -> list[Json]:
        outcomes: dict[int, Json] = {}
        for cid, zone in dict.fromkeys((change["group"], change["zone"]) for change in changes):
            wanted = {i: c["vm"] for i, c in enumerate(changes) if (c["group"], c["zone"]) == (cid, zone)}
            failed = self._joined(domain, cid, zone, list(dict.fromkeys(wanted.values())))
            for index, vm in wanted.items():
                outcomes[index] = {"ok": False, "error": failed[vm].facts()} if vm in failed else {"ok": True}
        return [outcomes[index] for index in range(len(changes))]

    def _joined(self, domain: str, cid: str, zone: str, vms: list[str]) -> dict[str, CoterieError]:
        """Make all of them members; answers who could not become one, and why."""
        for _ in range(_TRIES):
            failed = self._gone(vms)
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
        return dict.fromkeys(vms, _restless(cid))

    def _gone(self, vms: list[str]) -> dict[str, CoterieError]:
        gone: dict[str, CoterieError] = {}
        for vm in vms:
            try:
                get_vm(self.account, vm)
            except NoSuch:
                gone[vm] = VMNotFound(f"VM {vm} is gone and joins nothing", remedy="create it again")
        return gone

    def _merge(self, domain: str, cid: str, zone: str, wanted: list[str]) -> dict[str, CoterieError]:
        group = self._zone_group(cid, zone, wanted)
        present = set(read_members(self.account, group.id))
        if not present.issuperset(wanted):
            self.runtime.coordinator.hold(domain)
            self._write(group, [*present, *(vm for vm in wanted if vm not in present)])
            present = set(read_members(self.account, group.id))
        if not is_adopted(cid):
            self.require_holder(cid)  # the group may have been deleted while it came into being
        return {vm: _restless(cid) for vm in wanted if vm not in present}

    def _zone_group(self, cid: str, zone: str, first: list[str]) -> ServerGroup:
        """The zone's group of this CID; a reserved one comes into being with its first members."""
        holder = None if is_adopted(cid) else self.require_holder(cid)
        for group in self.zone_groups(cid):
            if group.zone == zone:
                return group
        if holder is None:
            raise group_missing(cid)
        tags = {key: holder.tags[key] for key in (DIRECTOR, INTENT, GROUP) if key in holder.tags}
        return create_server_group(
            self.account,
            name=cid,
            zone=zone,
            members=first,
            tags=tags,
            client_token=f"{cid}/{zone}",
            **materials(holder.tags),
        )

    def _write(self, group: ServerGroup, members: list[str]) -> None:
        try:
            write_members(self.account, group.id, members)
        except AnswerLost:
            return  # the next look tells whether it was written


def _restless(cid: str) -> CpiError:
    return CpiError(
        f"joining server group {cid} did not last",
        why="another writer replaced its list of members",
        remedy="find out who else writes this group, then repeat",
        retryable=True,
    )
