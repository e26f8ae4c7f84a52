"""Which security groups a server group has. Nova's groups hold nothing but members, so this is written as one tag per
server group onto the project's default security group, which nobody can delete: `<cid>.<n>.<policy>.<id>.<id>`; the
highest n counts, so that a change is there before the old memo goes, and an unfinished one is seen."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote
from uuid import UUID

from coterie.cpi.contract import CpiError, InvalidCall
from coterie.cpi.drivers.openstack.api import Row
from coterie.cpi.drivers.openstack.group_rows import GroupRows
from coterie.cpi.drivers.openstack.refusals import MISSING, Refusal

_NO_POLICY = "none"
_GUARDS_LIMIT = 5  # that one tag of 255 characters holds
_TAGS_LIMIT = 50  # of newer Neutrons, for one object


@dataclass(frozen=True, slots=True)
class Memo:
    cid: str
    number: int
    policy: str | None
    guards: tuple[str, ...]

    @property
    def tag(self) -> str:
        ids = [UUID(one).hex for one in self.guards]
        return ".".join([self.cid, str(self.number), self.policy or _NO_POLICY, *ids])


class Memos(GroupRows):
    def memos(self) -> dict[str, Memo]:
        """The newest memo of every server group."""
        found: dict[str, Memo] = {}
        for memo in self._all_memos(self.board()):
            if memo.cid not in found or found[memo.cid].number < memo.number:
                found[memo.cid] = memo
        return found

    def memos_of(self, cid: str) -> list[Memo]:
        """Of one server group, the newest last; more than one only while a change is not finished."""
        found = [memo for memo in self._all_memos(self.board()) if memo.cid == cid]
        return sorted(found, key=lambda memo: memo.number)

    def require_room(self, cid: str, count: int) -> None:
        """What no memo could hold is refused before anything is made."""
        if count > _GUARDS_LIMIT:
            raise InvalidCall(
                f"server group {cid} has {count} security groups", remedy=f"use at most {_GUARDS_LIMIT} for one group"
            )
        tags = self.board().get("tags") or ()
        if len(tags) >= _TAGS_LIMIT and not any(tag.startswith(f"{cid}.") for tag in tags):
            raise CpiError(
                f"this project has {_TAGS_LIMIT} server groups with security groups already, and takes no more",
                remedy="delete some, name the security groups in cloud_properties instead, or use another project",
            )

    def write_memo(self, cid: str, policy: str | None, guards: tuple[str, ...]) -> None:
        """This is what counts from now on. A repeat, or somebody who does the same at once, changes nothing."""
        old = self.memos_of(cid)
        if old and (old[-1].policy, old[-1].guards) == (policy, guards):
            return
        new = Memo(cid, old[-1].number + 1 if old else 1, policy, guards)
        self.api.send("PUT", "note security groups", "network", _path(self.board(), new.tag))

    def forget_memos(self, cid: str, *, but_newest: bool = False) -> None:
        board = self.board()
        old = self.memos_of(cid)
        for memo in old[:-1] if but_newest else old:
            try:
                self.api.send("DELETE", "forget security groups", "network", _path(board, memo.tag))
            except Refusal as error:
                if error.status != MISSING:
                    raise

    def board(self) -> Row:
        """The project's default security group. An administrator's list shows other projects' too."""
        mine = {"name": "default", "project_id": self.api.project, "fields": ["id", "tags"]}  # without its rules
        rows = list(self.rows("security_group", **mine))
        if len(rows) == 1:
            return rows[0]
        raise CpiError(
            f"this project has {len(rows)} security groups named default, not one",
            remedy="have Neutron's default security group, and no other of that name",
        )

    def _all_memos(self, board: Row) -> list[Memo]:
        return [memo for memo in map(_read, board.get("tags") or ()) if memo]


def _path(board: Row, tag: str) -> str:
    return f"/security-groups/{board['id']}/tags/{quote(tag, safe='')}"


def _read(tag: str) -> Memo | None:
    cid, *rest = tag.split(".")
    if not cid.startswith("cg-") or len(rest) < 2 or not rest[0].isdecimal():
        return None
    try:
        guards = tuple(str(UUID(hex=one)) for one in rest[2:])
    except ValueError:
        return None
    return Memo(cid, int(rest[0]), None if rest[1] == _NO_POLICY else rest[1], guards)
