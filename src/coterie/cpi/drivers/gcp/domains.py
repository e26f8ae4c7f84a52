"""The availability domain of a member of a strict group. It follows from the member's number; where another VM has it,
such as one that the ledger has lost, a free one is taken. Nothing is locked: a VM in a free domain is compared again
when lists show every rival, and of two VMs in one domain the later one goes.

Why that suffices, where lists show everything after `settle_s`, called s, and no two members of one number are created
within s: VMs are ordered by their creation, those that took a free domain as if they were s younger. Let F have taken a
free domain, and N that of its number.
- N was created within s after F: F comes later. It is compared 2 s after its creation; the list shows N, and F goes.
- N was created more than s after F: N comes later. The list shows F as soon as N is there, and N goes.
- G took a free domain, too, after F: G comes later, is compared at least s after its creation, and goes.
The order follows from the cloud's own times and a label, so all calls, and repeats of killed ones, agree on it."""

from __future__ import annotations

import time
from functools import partial

from coterie.cpi.contract import NoPlacement
from coterie.cpi.drivers.gcp.client import Client
from coterie.cpi.drivers.gcp.machines import Machines, domain_of
from coterie.cpi.drivers.gcp.marks import Row, cid_of, labels_of, moment, zone_of
from coterie.cpi.kit.kept_policy import PlacedVm, require_kept_policy
from coterie.cpi.kit.server_groups import Membership
from coterie.slotted import dataclass

_CHOICE, _FREE = "coterie-domain", "free"  # the label of a VM whose domain does not follow from its number


@dataclass(frozen=True, slots=True)
class Domains:
    """`number`: the member's own in its group and zone; None for callers that count no members."""

    client: Client
    machines: Machines

    def choose(self, zone: str, membership: Membership, number: int | None) -> tuple[int, dict[str, str]]:
        """The domain of a new member, and labels for it."""
        count = self.client.settings.availability_domains
        held: dict[int, list[Row]] = {one: [] for one in range(1, count + 1)}
        for row in self._members(zone, membership):
            held.setdefault(int((_word(row) or "0").rpartition("/")[2]), []).append(row)
        own = None if number is None else number % count + 1
        if own and not self._is_held(held[own]):
            return own, {} if number == own - 1 else {_CHOICE: _FREE}  # else another number has the same
        free = [one for one in range(1, count + 1) if not held[one]]
        free = free or [one for one in range(1, count + 1) if not self._is_held(held[one])]
        if not free:
            holders = ", ".join(cid_of(row) for one in range(1, count + 1) for row in held[one])
            raise NoPlacement(
                f"server group {membership.cid} takes {count} members in {zone}",
                why=f"its policy has {count} availability domains, and each has a VM: {holders}",
                remedy="use fewer instances, more zones, or soft-anti-affinity; have those that the ledger has lost "
                "cleaned up",
            )
        if own is None:
            return free[0], {_CHOICE: _FREE}
        # From the last: the first are those of siblings that may not be there yet. Calls at once take different ones.
        rank = [one for one in range(1, count + 1) if held[one]].index(own)
        return free[::-1][rank % len(free)], {_CHOICE: _FREE}

    def require_alone(self, row: Row, membership: Membership, number: int | None, created_at: float) -> None:
        """No other member is in its domain, nor will one stay there. `created_at`: by the monotonic clock, or later."""
        settings = self.client.settings
        if _is_free_choice(row):
            settle_s = settings.settle_s if number is None else 2 * settings.settle_s
            time.sleep(max(0.0, created_at + settle_s - time.monotonic()))
        sharers = partial(self._sharers, row, membership)
        require_kept_policy(self._placed(row), membership, sharers, settings.state_timeout, settings.poll_s)

    def _sharers(self, vm: Row, membership: Membership) -> list[PlacedVm]:
        rows = [row for row in self._members(str(zone_of(vm)), membership) if _word(row) == _word(vm)]
        return [self._placed(row) for row in rows if row["name"] != vm["name"] and self._is_held([row])]

    def _members(self, zone: str, membership: Membership) -> list[Row]:
        """Domains are those of one zone, so another that does not answer hinders nothing."""
        return self.machines.placed_members(zone, membership.cid, str(membership.group))

    def _is_held(self, rows: list[Row]) -> bool:
        """Lists show for a while what is gone."""
        return any(self.machines.read(cid_of(row)) is not None for row in rows)

    def _placed(self, row: Row) -> PlacedVm:
        cid, created = cid_of(row), moment(row.get("creationTimestamp")) or 0.0
        order = created + (self.client.settings.settle_s if _is_free_choice(row) else 0.0)
        return PlacedVm(cid, f"availability domain {_word(row)}", (f"{order:020.6f}", cid), is_checked=False)


def names_domain(row: Row) -> bool:
    """Whether it was made as a member of a strict group."""
    return _word(row) is not None


def _is_free_choice(row: Row) -> bool:
    return labels_of(row).get(_CHOICE) == _FREE


def _word(row: Row) -> str | None:
    """The domain that the cloud shows, or that the VM was made with."""
    asked = (row.get("scheduling") or {}).get("availabilityDomain")
    return domain_of(row) or (f"{zone_of(row)}/{asked}" if asked else None)
