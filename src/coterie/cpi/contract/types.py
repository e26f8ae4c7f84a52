"""Values that cross the contract. Plain frozen data; `wire()` gives the JSON form, `of_wire` reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from coterie.cpi.contract.mark import Mark
from coterie.slotted import asdict, dataclass, field

Json = dict[str, Any]

POLICIES = ("soft-anti-affinity", "anti-affinity", "affinity", "soft-affinity", "host-affinity")
Kind = Literal[
    "vm",
    "disk",
    "snapshot",
    "image",
    "server_group",
    "security_group",
    "port",
    "ip",
    "keypair",
    "folder",
    "network",
]
KINDS: tuple[Kind, ...] = Kind.__args__  # type: ignore[attr-defined]
GroupState = Literal["reserved", "live", "missing", "drifted"]


@dataclass(frozen=True, slots=True)
class VmCreated:
    """`disks`: where the agent finds the disks that come with the VM, {"system": path, "ephemeral": path or null}."""

    cid: str
    networks: Json
    disks: Json | None = None  # for our own process; BOSH's wire has no place for it

    def wire(self) -> list[Any]:
        return [self.cid, self.networks]


@dataclass(frozen=True, slots=True)
class NetworkCreated:
    cid: str
    addresses: Json  # range, gateway, reserved
    cloud_properties: Json

    def wire(self) -> list[Any]:
        return [self.cid, self.addresses, self.cloud_properties]


@dataclass(frozen=True, slots=True)
class SecurityGroup:
    """A security group by name. `rules`: all that it shall have; None: they are left as they are. `adopt`: the group of
    this name that an operator or another deployment has; it is used, and never changed."""

    name: str
    rules: tuple[Json, ...] | None = None
    adopt: bool = False

    @staticmethod
    def of_wire(value: str | Mapping[str, Any]) -> SecurityGroup:
        """An empty list leaves the rules as they are, as in release 0.1.0; beside `adopt: false` it means none."""
        if isinstance(value, str):
            return SecurityGroup(value)
        rules = None if value.get("rules") is None else tuple(value["rules"])
        if not rules and value.get("adopt") is not False:
            rules = None
        return SecurityGroup(str(value["name"]), rules, bool(value.get("adopt")))

    def wire(self) -> Json:
        """`adopt` only where it is needed: programs of release 0.1.0 do not know it."""
        shown: Json = {"name": self.name, "rules": list(self.rules or ())}
        return {**shown, "adopt": self.adopt} if self.adopt or self.rules == () else shown


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """What a server group is asked to be. `policy` None: the nodes share security groups only.

    options: `name` (the user's word for it; taken by a foreign group → NameTaken), `adopt` (use the operator's
    group of that name), and what a driver documents (vSphere: vm_group, host_group, rule).
    """

    director: Mapping[str, str]  # name, uuid
    deployment: str
    instance_group: str
    azs: tuple[str, ...] = ()
    security_groups: tuple[SecurityGroup, ...] = ()
    policy: str | None = "soft-anti-affinity"
    options: Mapping[str, Any] = field(default_factory=dict)

    def wire(self) -> Json:
        return {
            "director": dict(self.director),
            "deployment": self.deployment,
            "instance_group": self.instance_group,
            "azs": list(self.azs),
            "security_groups": [s.wire() for s in self.security_groups],
            "policy": self.policy,
            "options": dict(self.options),
        }

    @staticmethod
    def of_wire(value: Mapping[str, Any]) -> GroupMetadata:
        return GroupMetadata(
            director=dict(value["director"]),
            deployment=str(value["deployment"]),
            instance_group=str(value["instance_group"]),
            azs=tuple(value.get("azs") or ()),
            security_groups=tuple(SecurityGroup.of_wire(s) for s in value.get("security_groups") or ()),
            policy=value.get("policy", "soft-anti-affinity"),
            options=dict(value.get("options") or {}),
        )


@dataclass(frozen=True, slots=True)
class GroupResource:
    """`name` and `rules`: of a security group that we created. None: not told."""

    kind: str
    cid: str
    az: str | None
    created_by_us: bool
    name: str | None = None
    rules: tuple[Json, ...] | None = None

    @staticmethod
    def of_wire(value: Mapping[str, Any]) -> GroupResource:
        rules = value.get("rules")
        return GroupResource(**{**value, "rules": None if rules is None else tuple(rules)})


@dataclass(frozen=True, slots=True)
class GroupMember:
    """`domain`: the failure domain that the cloud shows the VM in (a fault domain, a partition). VMs in different ones
    are on different hosts; VMs in one may or may not share a host. The domains of a group are of one sort, do not
    overlap, and their names tell them apart over all azs. `update_domain`: with whose members the VM goes down when the
    cloud maintains its hosts; it says nothing of hosts."""

    vm_cid: str
    host: str | None
    ours: bool
    domain: str | None = None
    update_domain: str | None = None

    def wire(self) -> Json:
        """Domains only where there are any: releases before them refuse the keys."""
        shown: Json = {"vm_cid": self.vm_cid, "host": self.host, "ours": self.ours}
        domains = {"domain": self.domain, "update_domain": self.update_domain}
        return {**shown, **{key: one for key, one in domains.items() if one is not None}}


@dataclass(frozen=True, slots=True)
class GroupView:
    """What the cloud holds behind a server-group CID now. *reserved* is not *missing*. `hosts`: the only ones that
    members may be on, by the names that members' hosts have; None: none are named, or the cloud does not show them."""

    state: GroupState
    policy: str | None
    resources: tuple[GroupResource, ...] = ()
    members: tuple[GroupMember, ...] = ()
    notes: tuple[str, ...] = ()
    hosts: tuple[str, ...] | None = None

    def wire(self) -> Json:
        return {**asdict(self), "members": [member.wire() for member in self.members]}

    @staticmethod
    def of_wire(value: Mapping[str, Any]) -> GroupView:
        return GroupView(
            state=value["state"],
            policy=value["policy"],
            resources=tuple(GroupResource.of_wire(r) for r in value["resources"]),
            members=tuple(GroupMember(**m) for m in value["members"]),
            notes=tuple(value["notes"]),
            hosts=tuple(value["hosts"]) if value.get("hosts") is not None else None,
        )


@dataclass(frozen=True, slots=True)
class CloudObject:
    """One thing in the cloud. Unknown is None, never a guess. `tags`: all that people may write on it, a bare tag or a
    word of a description as `read_keep_words` gives it; empty where the cloud lets them write nothing."""

    kind: Kind
    cid: str
    name: str
    created_at: float | None = None
    etag: str | None = None
    mark: Mark | None = None
    in_use_by: tuple[str, ...] | None = None
    az: str | None = None
    state: str | None = None  # for a vm: running, stopped, error, building
    host: str | None = None
    tags: Mapping[str, str] | None = None

    @property
    def is_readable(self) -> bool:
        """Whether it is known if the object bears a mark: without a mark, its tags must have been read."""
        return self.mark is not None or self.tags is not None

    def wire(self) -> Json:
        value = asdict(self)
        value["mark"] = self.mark.wire() if self.mark else None
        return value

    @staticmethod
    def of_wire(value: Mapping[str, Any]) -> CloudObject:
        fields = dict(value)
        fields["mark"] = Mark.of_wire(value["mark"]) if value.get("mark") else None
        used = value.get("in_use_by")
        fields["in_use_by"] = tuple(used) if used is not None else None
        return CloudObject(**fields)


@dataclass(frozen=True, slots=True)
class SurveyPage:
    """`complete` False: the list is partial or its filter was ignored; nothing may be concluded from absence."""

    objects: tuple[CloudObject, ...]
    next: str | None
    complete: bool
    calls: int

    def wire(self) -> Json:
        return {
            "objects": [o.wire() for o in self.objects],
            "next": self.next,
            "complete": self.complete,
            "calls": self.calls,
        }


@dataclass(frozen=True, slots=True)
class Expected:
    """What delete_object must still find: the mark, and the creation time or etag where the cloud gives one."""

    mark: Mark | None
    created_at: float | None = None
    etag: str | None = None


@dataclass(frozen=True, slots=True)
class Needs:
    """What a manifest asks of one cloud. `groups`: server groups, each `{name, policy, azs, security_groups,
    options, cid}` (azs as the cloud calls them; `cid` where there is one already), so that a driver can refuse what it
    will not be able to fulfil."""

    kinds: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    azs: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    groups: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class CheckItem:
    """One finding of `check`. `facts` carries what was read on the way.

    what = "hosts": {"hosts": [{"name", "az", "rack"|null, "free_cpu"|null, "free_ram_mb"|null}]};
    what = "quotas": {"quotas": {name: {"limit"|null, "used"}}}; both keyed as the planner reads them.
    """

    what: str
    ok: bool
    detail: str
    remedy: str = ""
    facts: Mapping[str, Any] | None = None

    def wire(self) -> Json:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Trial:
    """What a deep check has made, for nothing else: VMs in one az, their server group, a disk on the first."""

    vms: tuple[str, ...]
    server_group: str | None
    disk: str | None
    stemcell: str


@dataclass(frozen=True, slots=True)
class Proof:
    """Whether a promise was seen to hold. "not possible": this cloud has not what it takes to try it."""

    outcome: Literal["ok", "failed", "not possible"]
    detail: str
    remedy: str = ""


Networks = Mapping[str, Mapping[str, Any]]
DiskHint = str | Mapping[str, Any]
Strings = Sequence[str]
