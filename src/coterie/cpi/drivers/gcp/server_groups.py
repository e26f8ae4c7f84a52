"""Server groups as spread placement policies with a life of their own: made by `create_server_group` only, deleted when
they are empty. Google itself refuses to delete one that has members, so nothing here locks. For host-affinity a group
of sole-tenant nodes is adopted; none is made, since nodes are paid for. Members of a strict group name a domain each.

A policy has no labels: it bears the CID as its name, and mark and policy in its description. A server group without one
is nothing but the record of its security groups."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from coterie.cpi.contract import (
    ADOPTED_PREFIX,
    GroupInUse,
    GroupMember,
    GroupMetadata,
    InvalidCall,
    Mark,
    NoPlacement,
    is_adopted,
)
from coterie.cpi.drivers.gcp.client import Client, Refusal
from coterie.cpi.drivers.gcp.machines import Machines, domain_of, has_policy, host_of
from coterie.cpi.drivers.gcp.marks import (
    Row,
    cid_of,
    describe_mark,
    is_ours,
    labels_of,
    mark_of,
    moment,
    words_of,
    zone_of,
)
from coterie.cpi.drivers.gcp.properties import HOST_POLICY, SPREAD_POLICIES
from coterie.cpi.drivers.gcp.security_groups import Firewalls, RuleRecords
from coterie.cpi.kit.group_records import GroupRecord, GroupRecords
from coterie.cpi.kit.kept_policy import PlacedVm, require_kept_policy
from coterie.cpi.kit.parts import Parts
from coterie.cpi.kit.security_groups import SecurityGroups
from coterie.cpi.kit.server_groups import ExistingGroup, Membership, ServerGroups
from coterie.slotted import dataclass, replace

DOMAIN_WORDS: Mapping[str, str] = dict.fromkeys(SPREAD_POLICIES, "availability domain")
NODES = "nodes."  # before the name of a node group, where an id is one
POLICY = "coterie-policy"
_CHOICE, _FREE = "coterie-domain", "free"  # the label of a VM whose domain does not follow from its number


class Groups:
    """The kit's parts over Compute Engine."""

    def __init__(self, client: Client, machines: Machines, firewalls: Firewalls, parts: Parts) -> None:
        store = RuleRecords(client, firewalls)
        self.policies = Policies(client, machines)
        self.firewalls = firewalls
        self.records = GroupRecords(store)
        self.security = SecurityGroups(firewalls, self.records, parts)
        self.server = ServerGroups(
            self.policies, self.security, self.records, client.settings.policies, client.director_uuid
        )


@dataclass(frozen=True, slots=True)
class Policies:
    """Fills the kit's `ServerGroupCloud`."""

    noun = "placement policy"
    leave_hint = "a VM leaves its placement policy when it is deleted"

    client: Client
    machines: Machines

    def find(self, cid: str) -> ExistingGroup | None:
        """The nodes of a node group are the only hosts that its members may be on."""
        found = self.find_to_join(cid)
        if found is None or found.policy != HOST_POLICY:
            return found
        return replace(found, hosts=tuple(str(node["name"]) for node in self._list_nodes(found.id)))

    def find_to_join(self, cid: str) -> ExistingGroup | None:
        wanted = cid.removeprefix(ADOPTED_PREFIX) if is_adopted(cid) else cid
        if wanted.startswith(NODES):
            nodes = self._node_group(wanted.removeprefix(NODES))
            return ExistingGroup(wanted, str(nodes["name"]), HOST_POLICY, (), False, nodes) if nodes else None
        row = self.client.get(self._path(wanted))
        return self._existing(row) if row else None

    def list_named(self, name: str) -> list[ExistingGroup]:
        found = self.find(name)
        return [found] if found else []

    def list_adoptable(self, name: str) -> list[ExistingGroup]:
        found = [self.find(f"{ADOPTED_PREFIX}{name}")]
        if HOST_POLICY in self.client.settings.policies:
            found.append(self.find(f"{ADOPTED_PREFIX}{NODES}{name}"))
        return [one for one in found if one]

    def create(self, metadata: GroupMetadata, mark: Mark) -> tuple[ExistingGroup, bool]:
        """The name makes it once; calls under one mark ask for the same policy."""
        if metadata.policy == HOST_POLICY:
            raise InvalidCall(
                "sole-tenant nodes cost money from their first second, so none are made",
                remedy="have the operator make a node group, and say placement.adopt: true with its name",
            )
        cid = mark.group_cid
        body = {
            "description": describe_mark(mark, **{POLICY: str(metadata.policy)}),
            "groupPlacementPolicy": {"availabilityDomainCount": self.client.settings.availability_domains},
        }
        row = self.client.insert(f"create placement policy {cid}", self._path(cid), body, mark)
        return self._existing(row), True

    def delete(self, group: ExistingGroup) -> None:
        """Google refuses it while a VM has it; that is the only lock."""
        try:
            self.client.delete(f"delete placement policy {group.name}", self._path(group.name))
        except Refusal as error:
            if not error.is_in_use:
                raise
            raise GroupInUse(
                f"placement policy {group.name} is in use", why=error.why, remedy="delete its members first"
            ) from error

    def list_tagged(self, cid: str) -> list[str]:
        return [cid_of(row) for row in self.machines.members(cid)]

    def list_members(self, name: str) -> list[Row]:
        """All that have the policy, of all owners."""
        return [row for row in self.machines.list_all() if has_policy(row, name)]

    def members_left(self, cid: str, groups: Sequence[ExistingGroup], record: GroupRecord | None) -> list[str]:
        if groups:
            return [cid_of(row) for group in groups for row in self.list_members(group.name)]
        return self.list_tagged(cid) if record and record.policy is None else []

    def inspect_members(
        self, cid: str, group: ExistingGroup | None, record: GroupRecord | None
    ) -> tuple[list[GroupMember], list[str]]:
        if group is None:
            return [self._member(row) for row in self.machines.members(cid)], []
        if group.policy == HOST_POLICY:
            nodes = self.nodes_of_vms(group.id)
            rows = [row for row in self.machines.list_all() if cid_of(row) in nodes]
            return [replace(self._member(row), host=nodes[cid_of(row)]) for row in rows], []
        rows = self.list_members(group.name)
        joined = {cid_of(row) for row in rows}
        lost = [one for one in self.list_tagged(cid) if one not in joined]
        return [self._member(row) for row in rows], [f"VM {one} is no member of placement policy {cid}" for one in lost]

    def require_exchange(self, cid: str, group: ExistingGroup | None) -> None:
        """Google changes the tags of living VMs."""

    def exchange_security_groups(
        self, cid: str, group: ExistingGroup | None, old: Collection[str], new: Collection[str]
    ) -> None:
        """Of our members only: an operator's VM in the same policy keeps its own."""
        for row in self.machines.members(cid):
            if is_ours(row, self.client.director_uuid):
                self.machines.exchange_tags(cid_of(row), set(old), set(new))

    def nodes_of_vms(self, group: str) -> dict[str, str]:
        """Of the VMs on a group of sole-tenant nodes, by their CIDs: an instance does not tell its node, the node tells
        its instances."""
        found: dict[str, str] = {}
        for node in self._list_nodes(group):
            for link in node.get("instances") or ():
                zone, _, name = str(link).rsplit("/", 3)[-3:]
                found[f"{zone}/{name}"] = str(node["name"])
        return found

    def _list_nodes(self, group: str) -> list[Row]:
        row = self._node_group(group.removeprefix(NODES))
        if row is None:
            return []
        path = f"{self.client.path('nodeGroups', cid_of(row))}/listNodes"
        return list(self.client.ask("list nodes", path, "POST").get("items") or ())

    def _node_group(self, name: str) -> Row | None:
        rows = self.client.everywhere("nodeGroups", filter=f'name="{name}"')
        return next((row for row in rows if row["name"] == name), None)

    def _path(self, name: str) -> str:
        return self.client.path("resourcePolicies", name)

    def _existing(self, row: Row) -> ExistingGroup:
        """An operator's policy that spreads is a soft one: who else chooses domains in it is not known."""
        name, mark = str(row["name"]), mark_of(row)
        spreads = (row.get("groupPlacementPolicy") or {}).get("availabilityDomainCount")
        ours = mark is not None and is_ours(row, self.client.director_uuid) and mark.group_cid == name
        policy = words_of(row).get(POLICY) if mark else "soft-anti-affinity" if spreads else None
        return ExistingGroup(name, name, policy, (), ours, row)

    def _member(self, row: Row) -> GroupMember:
        return GroupMember(cid_of(row), host_of(row), is_ours(row, self.client.director_uuid), domain_of(row))


@dataclass(frozen=True, slots=True)
class Domains:
    """The availability domain of a member of a strict group. It follows from the member's number; where another VM has
    it, such as one that the ledger has lost, a free one is taken. Nothing is locked: a VM in a free domain is compared
    again when lists show every rival, and of two VMs in one domain the later one goes. `number`: the member's own in
    its group and zone; None for callers that count no members.

    Why that suffices, where lists show everything after `settle_s`, called s, and no two members of one number are
    created within s: VMs are ordered by their creation, those that took a free domain as if they were s younger. Let F
    have taken a free domain, and N that of its number.
    - N was created within s after F: F comes later. It is compared 2 s after its creation; the list has N, and F goes.
    - N was created more than s after F: N comes later. The list shows F as soon as N is there, and N goes.
    - G took a free domain, too, after F: G comes later, is compared at least s after its creation, and goes.
    The order follows from the cloud's own times and a label, so all calls, and repeats of killed ones, agree on it."""

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
