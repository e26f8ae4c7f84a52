"""Server groups as spread placement policies with a life of their own: made by `create_server_group` only, deleted when
they are empty. Google itself refuses to delete one that has members, so nothing here locks. For host-affinity a group
of sole-tenant nodes is adopted; none is made, since nodes are paid for.

A policy has no labels: it bears the CID as its name, and mark and policy in its description. Which security groups a
server group has is written on a disabled firewall rule of the same name; one without a policy is nothing but that."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from coterie.cpi.contract import (
    ADOPTED_PREFIX,
    GroupInUse,
    GroupMember,
    GroupMetadata,
    GroupView,
    InvalidCall,
    Mark,
    SecurityGroup,
    is_adopted,
    read_group_cid,
)
from coterie.cpi.drivers.gcp.client import Client, Refusal
from coterie.cpi.drivers.gcp.machines import Machines, domain_of, host_of
from coterie.cpi.drivers.gcp.marks import Row, cid_of, describe_mark, mark_of, name_of, words_of, write_words
from coterie.cpi.drivers.gcp.properties import HOST_POLICY, SPREAD_POLICIES
from coterie.cpi.drivers.gcp.security_groups import Firewalls
from coterie.cpi.kit.group_records import TAG, GroupRecord, GroupRecords, read_tags, tag_of
from coterie.cpi.kit.marking import GROUP
from coterie.cpi.kit.parts import Parts
from coterie.cpi.kit.security_groups import SecurityGroups
from coterie.cpi.kit.server_groups import ExistingGroup, ServerGroups
from coterie.ids import director_prefix
from coterie.slotted import dataclass, replace

DOMAIN_WORDS: Mapping[str, str] = dict.fromkeys(SPREAD_POLICIES, "availability domain")
NODES = "nodes."  # before the name of a node group, where an id is one
POLICY = "coterie-policy"
_NO_TRAFFIC = "192.0.2.1/32"  # of documentation


@dataclass(frozen=True, slots=True)
class Groups:
    """The kit's parts over Compute Engine."""

    client: Client
    machines: Machines
    firewalls: Firewalls
    parts: Parts

    @property
    def policies(self) -> Policies:
        return Policies(self.client, self.machines)

    @property
    def records(self) -> GroupRecords:
        return GroupRecords(RuleRecords(self.client, self.firewalls))

    @property
    def security(self) -> SecurityGroups:
        return SecurityGroups(self.firewalls, self.records, self.parts)

    @property
    def server(self) -> ServerGroups:
        policies, director = self.client.settings.policies, self.client.director_uuid
        return ServerGroups(self.policies, self.security, self.records, policies, director)

    def count_missing_rules(self, groups: Sequence[Mapping[str, Any]]) -> int:
        """How many firewall rules are still to be created for these server groups, as `Needs` has them: those of their
        security groups, and one for each group's record."""
        wanted, unnamed = set[str](), 0
        for group in groups:
            asked = list(map(SecurityGroup.of_wire, group.get("security_groups") or ()))
            wanted |= {name for one in asked if not one.adopt for name in self.firewalls.rule_names(one)}
            if asked and group.get("cid"):
                wanted.add(str(group["cid"]))
            elif asked:
                unnamed += 1
        return unnamed + len(wanted - self.firewalls.list_names()) if wanted else unnamed

    def create(self, metadata: GroupMetadata, mark: Mark) -> str:
        return self.server.create(metadata, mark)

    def update(self, cid: str, metadata: GroupMetadata) -> None:
        self.server.update(cid, metadata)

    def delete(self, cid: str) -> None:
        self.server.delete(cid)

    def inspect(self, cid: str) -> GroupView:
        """The nodes of a node group are the only hosts that its members may be on."""
        view = self.server.inspect(cid)
        if view.policy != HOST_POLICY:
            return view
        return replace(view, hosts=tuple(str(node["name"]) for node in self.policies.list_nodes(_wanted(cid))))


@dataclass(frozen=True, slots=True)
class Policies:
    """Fills the kit's `ServerGroupCloud`."""

    noun = "placement policy"
    leave_hint = "a VM leaves its placement policy when it is deleted"

    client: Client
    machines: Machines

    def find(self, cid: str) -> ExistingGroup | None:
        wanted = _wanted(cid)
        if wanted.startswith(NODES):
            nodes = self._node_group(wanted.removeprefix(NODES))
            return ExistingGroup(wanted, str(nodes["name"]), HOST_POLICY, (), False, nodes) if nodes else None
        row = self.client.get(f"{self.client.region}/resourcePolicies/{wanted}")
        return self._existing(row) if row else None

    def find_to_join(self, cid: str) -> ExistingGroup | None:
        return self.find(cid)

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
            "name": cid,
            "description": describe_mark(mark, **{POLICY: str(metadata.policy)}),
            "groupPlacementPolicy": {"availabilityDomainCount": self.client.settings.availability_domains},
        }
        collection, what = f"{self.client.region}/resourcePolicies", f"create placement policy {cid}"
        row = self.client.insert(what, collection, body, mark, lambda: self._delete(cid))
        return self._existing(row), True

    def delete(self, group: ExistingGroup) -> None:
        """Google refuses it while a VM has it; that is the only lock."""
        try:
            self._delete(group.name)
        except Refusal as error:
            if not error.is_in_use:
                raise
            raise GroupInUse(
                f"placement policy {group.name} is in use", why=error.why, remedy="delete its members first"
            ) from error

    def list_tagged(self, cid: str) -> list[str]:
        return [cid_of(row) for row in self.machines.members(cid)]

    def list_members(self, name: str, vms: Sequence[Row] | None = None) -> list[Row]:
        """All that have the policy, of all owners. `vms`: all instances, where they are known already."""
        rows = self.machines.list_all() if vms is None else vms
        return [row for row in rows if name in {name_of(one) for one in row.get("resourcePolicies") or ()}]

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
            return self._members_on_nodes(group), []
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
            mark = mark_of(row)
            if mark is not None and mark.director == self.client.director_uuid:
                self.machines.exchange_tags(cid_of(row), set(old), set(new))

    def list_nodes(self, group: str) -> list[Row]:
        row = self._node_group(group.removeprefix(NODES))
        if row is None:
            return []
        path = f"{self.client.project}/zones/{name_of(row['zone'])}/nodeGroups/{row['name']}/listNodes"
        return list(
            self.client.ask_url("list nodes", self.client.url("compute", f"compute/v1/{path}"), "POST")["items"]
        )

    def _members_on_nodes(self, group: ExistingGroup) -> list[GroupMember]:
        rows = {cid_of(row): row for row in self.machines.list_all()}
        zone, found = name_of(group.row["zone"]), []
        for node in self.list_nodes(group.id):
            for link in node.get("instances") or ():
                row = rows.get(f"{zone}/{name_of(link)}")
                found += [replace(self._member(row), host=str(node["name"]))] if row else []
        return found

    def _node_group(self, name: str) -> Row | None:
        rows = self.client.everywhere("nodeGroups", filter=f'name="{name}"')
        return next((row for row in rows if row["name"] == name), None)

    def _delete(self, name: str) -> None:
        self.client.delete(f"delete placement policy {name}", f"{self.client.region}/resourcePolicies/{name}")

    def _existing(self, row: Row) -> ExistingGroup:
        """An operator's policy that spreads is a soft one: who else chooses domains in it is not known."""
        name, mark = str(row["name"]), mark_of(row)
        spreads = (row.get("groupPlacementPolicy") or {}).get("availabilityDomainCount")
        ours = mark is not None and mark.director == self.client.director_uuid and mark.group_cid == name
        policy = words_of(row).get(POLICY) if mark else "soft-anti-affinity" if spreads else None
        return ExistingGroup(name, name, policy, (), ours, row)

    def _member(self, row: Row) -> GroupMember:
        mark = mark_of(row)
        ours = mark is not None and mark.director == self.client.director_uuid
        return GroupMember(cid_of(row), host_of(row), ours, domain_of(row))


@dataclass(frozen=True, slots=True)
class RuleRecords:
    """Fills the kit's `RecordStore`: the kit's tags as words in the description of a disabled rule, whose name is the
    CID."""

    limit = 10  # security groups of a server group: a description has 2,048 characters

    client: Client
    firewalls: Firewalls

    def list_records(self) -> list[GroupRecord]:
        rows = self.firewalls.list_rows(f"cg-{director_prefix(self.client.director_uuid)}-")
        return [record for row in rows for record in read_tags(str(row["name"]), words_of(row))]

    def records_of(self, cid: str) -> list[GroupRecord]:
        row = self.client.get(self.client.firewall(cid))
        return read_tags(cid, words_of(row)) if row else []

    def require_room(self, cid: str) -> None:
        """Every server group has a rule of its own for its records."""

    def add_record(self, record: GroupRecord) -> None:
        found = read_group_cid(record.cid)
        if found is None:
            raise InvalidCall(f"{record.cid} is no server group of ours", remedy="use the CID that create answered")
        mark, path = Mark(self.client.director_uuid, found.intent), self.client.firewall(record.cid)
        word = tag_of(record)
        network = (
            f"projects/{self.client.settings.network_project}/global/networks/{self.client.settings.default_network}"
        )
        body = {
            "name": record.cid,
            "network": network,
            "description": describe_mark(mark, **{GROUP: record.cid, **word}),
            "disabled": True,
            "targetTags": [record.cid],
            "sourceRanges": [_NO_TRAFFIC],
            "denied": [{"IPProtocol": "all"}],
        }
        what = f"record the security groups of {record.cid}"
        row = self.client.get(path) or self.client.insert(what, path.rpartition("/")[0], body, None)
        words = words_of(row)
        if words.items() < {**words, **word}.items():
            self._write(path, {**words, **word})

    def delete_records(self, records: Sequence[GroupRecord]) -> None:
        path = self.client.firewall(records[0].cid)
        row = self.client.get(path)
        if row is None:
            return
        gone = {f"{TAG}{record.number}" for record in records}
        left = {key: value for key, value in words_of(row).items() if key not in gone}
        if any(key.startswith(TAG) for key in left):
            self._write(path, left)
        else:
            self.client.delete(f"delete the records of {records[0].cid}", path)

    def _write(self, path: str, words: Mapping[str, str]) -> None:
        name = path.rsplit("/", 1)[-1]
        body = {"name": name, "description": write_words(words)}
        self.client.change(f"record the security groups of {name}", "PATCH", path, body)


def _wanted(cid: str) -> str:
    return cid.removeprefix(ADOPTED_PREFIX) if is_adopted(cid) else cid
