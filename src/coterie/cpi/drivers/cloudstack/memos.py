"""Which security groups a server group has. Affinity groups can neither be tagged nor changed, so this is written as
tags onto the account's default security group, which every account has and nobody can delete: key `<cid>.<n>`, value
`<policy>|<id>,<id>`; the highest n counts, so that a change is there before the old memo goes."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.cpi.contract import InvalidCall, NotSupported
from coterie.cpi.drivers.cloudstack.affinity import Affinity
from coterie.cpi.drivers.cloudstack.api import Row
from coterie.cpi.drivers.cloudstack.marking import VALUE_LIMIT
from coterie.cpi.drivers.cloudstack.refusals import Refusal

_KIND = "SecurityGroup"
_NO_POLICY = "none"


@dataclass(frozen=True, slots=True)
class Memo:
    cid: str
    number: int
    policy: str | None
    guards: tuple[str, ...]

    @property
    def key(self) -> str:
        return f"{self.cid}.{self.number}"


class Memos(Affinity):
    def default_guard(self) -> Row:
        """The account's own default security group."""
        rows, _ = self.api.page("listSecurityGroups", 1, securitygroupname="default")
        if rows:
            return rows[0]
        raise NotSupported(
            "this account has no default security group, so the zone has no security groups",
            remedy="leave security_groups out, and give the group a policy",
        )

    def memos(self) -> dict[str, Memo]:
        """The newest memo of every server group."""
        found: dict[str, Memo] = {}
        for memo in self._all_memos():
            if memo.cid not in found or found[memo.cid].number < memo.number:
                found[memo.cid] = memo
        return found

    def write_memo(self, cid: str, policy: str | None, guards: tuple[str, ...]) -> None:
        """This is what counts from now on. A repeat, or somebody who does the same at once, changes nothing."""
        old = self.memos().get(cid)
        if old and (old.policy, old.guards) == (policy, guards):
            return
        value = f"{policy or _NO_POLICY}|{','.join(guards)}"
        if len(value) > VALUE_LIMIT:
            raise InvalidCall(f"server group {cid} has too many security groups", remedy="use at most five")
        new = Memo(cid, old.number + 1 if old else 1, policy, guards)
        try:
            self.tag(_KIND, self.default_guard()["id"], {new.key: value})
        except Refusal:
            if self.memos().get(cid) != new:
                raise
        self._drop_memos(cid, keep=new.number)

    def forget_memos(self, cid: str) -> None:
        self._drop_memos(cid, keep=None)

    def _drop_memos(self, cid: str, keep: int | None) -> None:
        old = [memo for memo in self._all_memos() if memo.cid == cid and memo.number != keep]
        if old:
            keys = [{"key": memo.key} for memo in old]
            self.api.run("deleteTags", resourceids=[self.default_guard()["id"]], resourcetype=_KIND, tags=keys)

    def _all_memos(self) -> list[Memo]:
        rows, _ = self.api.page("listSecurityGroups", 1, securitygroupname="default")
        tags = rows[0].get("tags") or () if rows else ()
        return [memo for memo in (_read(str(tag["key"]), str(tag["value"])) for tag in tags) if memo]


def _read(key: str, value: str) -> Memo | None:
    cid, _, number = key.rpartition(".")
    policy, bar, guards = value.partition("|")
    if not cid.startswith("cg-") or not bar or not number.isdecimal():
        return None
    ids = tuple(one for one in guards.split(",") if one)
    return Memo(cid, int(number), None if policy == _NO_POLICY else policy, ids)
