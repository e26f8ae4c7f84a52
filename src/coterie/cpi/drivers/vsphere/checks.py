"""Whether this vCenter can do what a manifest needs, with the facts that were read on the way; the privileges that this
driver uses, which `grant` gives to a user; and what a deep check tries. Checks change nothing, proofs leave nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from coterie.cpi.contract import (
    AuthenticationFailed,
    CheckItem,
    CpiError,
    GroupMetadata,
    NameTaken,
    Needs,
    Proof,
    Trial,
)
from coterie.cpi.drivers.vsphere import devices, sdk
from coterie.cpi.drivers.vsphere.client import Client
from coterie.cpi.drivers.vsphere.disks import Disks
from coterie.cpi.drivers.vsphere.drs import Clusters, ClusterView, DrsRule
from coterie.cpi.drivers.vsphere.group_records import POLICIES, GroupRecords, GroupSpec, read_spec, requested_name
from coterie.cpi.drivers.vsphere.inventory import Attributes, Inventory
from coterie.cpi.drivers.vsphere.membership import Membership
from coterie.cpi.drivers.vsphere.placement import Placement, Store
from coterie.cpi.drivers.vsphere.sdk import Refusal, contract_error, tolerate
from coterie.cpi.drivers.vsphere.server_groups import ServerGroups
from coterie.cpi.drivers.vsphere.settings import Settings
from coterie.cpi.drivers.vsphere.stemcells import Stemcells
from coterie.cpi.kit.check_items import kind_items, policy_items
from coterie.cpi.kit.quotas import az_item, host, host_items
from coterie.slotted import dataclass, replace

Level = Literal["root", "datacenter", "cluster"]
ROLES: dict[Level, str] = {"root": "coterie-root", "datacenter": "coterie", "cluster": "coterie-groups"}
# The custom attributes of VMs are defined once, for the whole vCenter.
_ROOT_PRIVILEGES = ("Global.ManageCustomFields",)
# On the datacenter, propagated to its folders, clusters, datastores and networks.
_DATACENTER_FAMILIES = {
    "Datastore": "AllocateSpace Browse FileManagement",
    "Folder": "Create Delete Rename",
    "Global": "SetCustomField",
    "Network": "Assign",
    "Resource": "AssignVMToPool",
    "VApp": "Import",
    "VirtualMachine.Config": "AddExistingDisk AddNewDisk AddRemoveDevice AdvancedConfig CPUCount DiskExtend EditDevice "
    "Memory RemoveDisk Settings",
    "VirtualMachine.Interact": "DeviceConnection PowerOff PowerOn Reset SetCDMedia",
    "VirtualMachine.Inventory": "Create CreateFromExisting Delete",
    "VirtualMachine.Provisioning": "Clone CloneTemplate DeployTemplate MarkAsTemplate",
    "VirtualMachine.State": "CreateSnapshot",
}
_DATACENTER_PRIVILEGES = tuple(
    f"{family}.{name}" for family, some in _DATACENTER_FAMILIES.items() for name in some.split()
)
# On each cluster, and only where server groups are used.
_CLUSTER_PRIVILEGES = ("Host.Inventory.EditCluster",)
_SAMPLE_CID = "cg-0000000000-00000000000000000000000000"  # stands for the CID that a group will get


@dataclass(frozen=True, slots=True)
class Rights:
    """Whether the session has the privileges that a manifest needs, object by object; and the roles that give them."""

    client: Client
    inventory: Inventory
    placement: Placement
    cloud: str
    user: str

    def check(self, zones: Sequence[str], groups: bool) -> list[CheckItem]:
        """One finding per object that lacks something, or one that says that nothing is lacking."""
        lacking = [item for level in _privileges(groups) for item in self._lacking(level, zones)]
        return lacking or [CheckItem("privileges", True, "all that this needs are granted")]

    def grant(self, user: str, groups: bool) -> list[str]:
        """Create or renew the roles, and give them to a user; what was done, in words. Of a user's roles only the one
        nearest to an object counts there: where that is another one, a role with the privileges of both takes its
        place. Nothing that the user has is lost, and nothing is spread to objects where they did not have it."""
        done = []
        for level, privileges in _privileges(groups).items():
            whole = {*privileges, *(_DATACENTER_PRIVILEGES if level == "cluster" else ())}
            for name, ref in self._objects(level, ()):
                present, is_own = self._find_permission(user, ref)
                named, also = self._role_beside(ROLES[level], whole, present)
                if present and also and is_own and level != "root" and not present.propagate:
                    raise CpiError(
                        f"{user} has another role on {name}, which is not propagated",
                        why="ours must be propagated, and a user has one role on an object",
                        remedy="give the other role propagated, or take it back, or use another user for this cloud",
                    )
                role = self._ensure_role(named, sorted(whole | also))
                propagate = level != "root" or bool(present and present.propagate)
                self._set_permission(user, role, ref, propagate)
                done.append(f"{user} has role {named} on {name}")
        return done

    def _find_permission(self, user: str, ref: Any) -> tuple[Any | None, bool]:
        """The one that counts for a user on an object, and whether it is on this very object."""
        wanted, at = _principal(user), ref
        while at is not None:
            for one in self.client.query(self._manager.RetrieveEntityPermissions, at, False) or ():
                if not one.group and _principal(one.principal) == wanted and (at == ref or one.propagate):
                    return one, at == ref
            at = self.client.get(at, "parent")
        return None, False

    def _role_beside(self, ours: str, whole: set[str], present: Any | None) -> tuple[str, frozenset[str]]:
        """The name of the role to give, and the privileges that the user has beside ours."""
        roles = self.client.get(self._manager, "roleList") or ()
        role = next((one for one in roles if present is not None and one.roleId == present.roleId), None)
        has = frozenset(one for one in role.privilege or () if not one.startswith("System.")) if role else frozenset()
        if role is None or has <= whole:
            return ours, frozenset()
        other = role.name
        for one in ROLES.values():
            other = other.removeprefix(f"{one}-and-")
        return f"{ours}-and-{other}", has - whole

    @property
    def _manager(self) -> Any:
        return self.client.content.authorizationManager

    def _lacking(self, level: Level, zones: Sequence[str]) -> Iterator[CheckItem]:
        objects, wanted = self._objects(level, zones), list(_privileges(True)[level])
        refs, session = [ref for _, ref in objects], self.client.session.key
        names = {ref: name for name, ref in objects}
        for answer in self.client.query(self._manager.HasPrivilegeOnEntities, refs, session, wanted):
            missing = sorted(one.privId for one in answer.privAvailability if not one.isGranted)
            if missing:
                yield CheckItem(
                    f"privileges on {names.get(answer.entity, level)}",
                    False,
                    f"{self.user} lacks {', '.join(missing)}",
                    f"`coterie clouds grant {self.cloud} --user {self.user}` as an administrator",
                )

    def _objects(self, level: Level, zones: Sequence[str]) -> list[tuple[str, Any]]:
        """With names that people know. `zones` empty: all."""
        if level == "root":
            return [("the vCenter", self.client.content.rootFolder)]
        if level == "datacenter":
            return [(f"datacenter {self.inventory.datacenter.path}", self.inventory.datacenter.ref)]
        wanted = [one for one in self.placement.clusters.values() if not zones or one.zone in zones]
        return list({one.ref._moId: (f"cluster {one.name}", one.ref) for one in wanted}.values())

    def _ensure_role(self, name: str, privileges: list[str]) -> int:
        """The id of the role, with exactly these privileges; read back by its name, which is certain."""
        found = self._find_role(name)
        if found is None:
            self.client.change(self._manager.AddAuthorizationRole, name, privileges)
        else:
            self.client.change(self._manager.UpdateAuthorizationRole, found.roleId, name, privileges)
        role = self._find_role(name)
        if role is None:
            raise CpiError(f"role {name} was made and does not show", remedy="repeat", retryable=True)
        return int(role.roleId)

    def _find_role(self, name: str) -> Any | None:
        roles = self.client.get(self._manager, "roleList") or ()
        return next((role for role in roles if role.name == name), None)

    def _set_permission(self, user: str, role: int, ref: Any, propagate: bool) -> None:
        permission = sdk.vim.AuthorizationManager.Permission(
            principal=user, group=False, propagate=propagate, roleId=role, entity=ref
        )
        self.client.change(self._manager.SetEntityPermissions, ref, [permission])


@dataclass(frozen=True, slots=True)
class GroupChecks:
    """Server groups that a manifest requests, checked beforehand: DRS, host groups, names, adopted groups."""

    placement: Placement
    clusters: Clusters
    records: GroupRecords
    server_groups: ServerGroups

    def uses_groups(self, needs: Needs) -> bool:
        return bool(needs.policies or needs.groups) or any(self._tied_zones(needs.azs))

    def check(self, needs: Needs) -> Iterator[CheckItem]:
        if not self.uses_groups(needs):
            return
        views = self.clusters.views()
        for view in {view.name: view for view in self._in_zones(needs.azs, views).values()}.values():
            if not view.drs:
                detail = f"DRS is off in cluster {view.name}, so groups and rules have no effect"
                yield CheckItem(f"DRS {view.name}", False, detail, "have the administrator switch DRS on")
        for zone in self._tied_zones(needs.azs):
            yield from self._check_zone(zone, views)
        for request in needs.groups:
            yield from self._check_group(request, views)
        yield from _check_names(needs)

    def _tied_zones(self, zones: Sequence[str]) -> list[str]:
        return [zone for zone in self.records.zones if not zones or zone in zones]

    def _check_zone(self, zone: str, views: dict[str, ClusterView]) -> Iterator[CheckItem]:
        """Its host group; and, as a remark, what others changed in its VM group."""
        what, record = f"zone {zone}", self.records.zones[zone]
        yield from self._check_hosts(what, record.spec, self._in_zones([zone], views), views)
        notes = self.server_groups.zone_notes(self.server_groups.list_belonging(record.cid), views)
        spec, remedy = (
            record.spec,
            "the next VM of the zone makes a group or rule again, `coterie groups repair` all of it",
        )
        detail = "; ".join(notes) or f"its VMs {spec.rule} be on the hosts of {spec.host_group!r}"
        yield CheckItem(what, True, detail, remedy if notes else "")

    def _in_zones(self, zones: Sequence[str], views: dict[str, ClusterView]) -> dict[str, ClusterView]:
        """The views of these zones; of all, where none is named."""
        return {key: view for key, view in views.items() if not zones or self.placement.clusters[key].zone in zones}

    def _check_group(self, request: Mapping[str, Any], views: dict[str, ClusterView]) -> Iterator[CheckItem]:
        what, options = f"server group {request.get('name')}", request.get("options") or {}
        in_zones = self._in_zones(request.get("azs") or (), views)
        metadata = GroupMetadata({}, "", str(request.get("name")), policy=request.get("policy"), options=options)
        try:
            spec = read_spec(metadata, _SAMPLE_CID)
        except CpiError as error:
            yield CheckItem(what, False, str(error), error.remedy)
            return
        if options.get("adopt"):
            yield from _check_adopted(what, requested_name(options), spec.policy, in_zones)
        else:
            try:
                self._require_name(request, spec, views)
            except NameTaken as taken:
                yield CheckItem(what, False, str(taken), taken.remedy)
        if spec.host_group:
            yield from self._check_hosts(what, spec, in_zones, views)

    def _require_name(self, request: Mapping[str, Any], spec: GroupSpec, views: dict[str, ClusterView]) -> None:
        """Free to take; a group that is there and stays what it is has its name already."""
        options, cid = request.get("options") or {}, request.get("cid")
        present = self.records.find(cid, unfinished=True) if cid else None
        named = options.get("vm_group")
        if present is None or named not in (None, present.spec.name):
            self.server_groups.require_free_name(options, spec, views)
        elif present.spec.policy == spec.policy:
            self.server_groups.require_free_host_rule(present, replace(spec, name=present.spec.name), views)
        elif named:
            raise NameTaken(
                f"{named!r} is the name of the present group, and another policy needs another group",
                remedy="give another placement.vm_group along with the new policy",
            )

    def _check_hosts(
        self, what: str, spec: GroupSpec, in_zones: dict[str, ClusterView], views: dict[str, ClusterView]
    ) -> Iterator[CheckItem]:
        name = str(spec.host_group)
        elsewhere = sorted(view.name for view in views.values() if view.host_group(name))
        tied: set[str] = set()
        for key, view in in_zones.items():
            group = view.host_group(name)
            if group is None:
                why = f"it is in {', '.join(elsewhere)}" if elsewhere else "no cluster has it"
                detail = f"cluster {view.name} has no host group {name!r}: {why}"
                yield CheckItem(what, False, detail, "have the administrator make it there, or leave this zone out")
                continue
            up = {one.ref._moId: one.name for one in self.placement.list_hosts(self.placement.clusters[key])}
            if spec.affine and not up.keys() & set(group.members):
                detail = f"no host of {name!r} is up in cluster {view.name}"
                yield CheckItem(what, False, detail, "add hosts to the host group, or end their maintenance")
            tied |= {up[moid] for moid in up if (moid in group.members) is spec.affine}
        if spec.rule == "must":
            detail = f"{len(tied)} hosts are up that {name!r} allows"
            yield CheckItem(f"hosts of {what}", True, detail, facts={"hosts": sorted(tied)})


@dataclass(frozen=True, slots=True)
class Checks:
    client: Client
    inventory: Inventory
    placement: Placement
    rights: Rights
    groups: GroupChecks
    settings: Settings
    kinds: Mapping[str, Any]

    def identity(self) -> str:
        """What is in another datacenter of the same vCenter is neither listed nor found."""
        datacenter = self.inventory.datacenter.ref._moId
        return f"{datacenter} of vCenter {self.client.content.about.instanceUuid}"

    def run(self, needs: Needs) -> list[CheckItem]:
        try:
            clusters = self.placement.refresh().values()
        except (Refusal, AuthenticationFailed) as error:
            problem = contract_error(error) if isinstance(error, Refusal) else error
            if problem.retryable:
                raise problem from error
            return [CheckItem(problem.details.get("check", "credentials"), False, str(problem), problem.remedy)]
        hosts = [
            host(one.name, cluster.zone, free_ram_mb=one.free_mb)
            for cluster in clusters
            for one in self.placement.list_hosts(cluster)
        ]
        return [
            CheckItem("credentials", True, f"{self.settings.user} is logged in"),
            *_check_certificate(self.settings),
            az_item(needs, sorted({cluster.zone for cluster in clusters}), None, "zone"),
            *host_items(needs, hosts, strict=True),
            *self.rights.check(needs.azs, self.groups.uses_groups(needs)),
            *policy_items(needs, POLICIES),
            *self.groups.check(needs),
            *kind_items(needs, self.kinds),
            *self._check_stores(),
        ]

    def _check_stores(self) -> Iterator[CheckItem]:
        for cluster in self.placement.clusters.values():
            for disk, what in ((False, "VMs"), (True, "persistent disks")):
                if not self.placement.list_allowed_stores([cluster], (), disk=disk):
                    words, remedy = self.placement.describe_allowed([cluster], (), disk=disk)
                    detail = f"no datastore of cluster {cluster.name}, for {what}, {words}"
                    remedy = f"check the patterns and the datastores{remedy}"
                    yield CheckItem(f"datastores {cluster.zone}", False, detail, remedy)


_POWER, _CHECK_RULE = "runtime.powerState", "coterie-check"
_NO_GROUP = Proof("not possible", "the deployment has no server group")
_ONE_STORE = Proof("not possible", "the zone has one datastore", "name an az whose cluster has two shared datastores")


@dataclass(frozen=True, slots=True)
class Proofs:
    """What only a real vCenter can show: each is tried on VMs that were made for that, and undone."""

    client: Client
    inventory: Inventory
    placement: Placement
    attributes: Attributes
    clusters: Clusters
    records: GroupRecords
    membership: Membership
    disks: Disks
    stemcells: Stemcells

    @property
    def table(self) -> Mapping[str, Callable[[Trial], Proof]]:
        return {
            "groups and rules are read": self._prove_reading,
            "a VM joins while it is off": self._prove_joining_off,
            "an emptied group stays for an administrator's rule": self._prove_emptied,
            "a disk has one uuid everywhere": self._prove_disk_uuid,
            "a VM that was renamed and moved is found": self._prove_moved_vm,
            "a disk that Storage vMotion moved comes home": self._prove_moved_disk,
            "a template is copied to another datastore": self._prove_copy,
            "placement without DRS": self._prove_without_drs,
        }

    def _prove_reading(self, trial: Trial) -> Proof:
        views = {view.name: view for view in self.clusters.views().values()}
        read = [f"{name} has {len(view.groups)} groups and {len(view.rules)} rules" for name, view in views.items()]
        return Proof("ok", "; ".join(read))

    def _prove_joining_off(self, trial: Trial) -> Proof:
        """Off, out, in again, and only then on: as every new VM comes into its group."""
        machine, cid = self.inventory.require_vm(trial.vms[-1]), trial.server_group
        if cid is None:
            return _NO_GROUP
        with tolerate("InvalidPowerState"):
            self.client.run(machine.PowerOffVM_Task)
        try:
            self.membership.leave(machine, cid)
            self.membership.join(cid, machine)
            joined = machine._moId in self._members(machine, cid)
        finally:
            with tolerate("InvalidPowerState"):
                self.client.run(machine.PowerOnVM_Task)
        if joined and machine._moId in self._members(machine, cid):
            return Proof("ok", "it joined while it was off, and is a member after its start")
        return Proof("failed", "it is no member after its start" if joined else "it joined and is not shown")

    def _prove_emptied(self, trial: Trial) -> Proof:
        machine, cid = self.inventory.require_vm(trial.vms[0]), trial.server_group
        if cid is None:
            return _NO_GROUP
        cluster, name = self.inventory.cluster_of(machine), self.records.require(cid).spec.name
        view = self.clusters.view(cluster)
        host_group = next((one for one in view.groups.values() if one.of_hosts), None)
        if host_group is None:
            return Proof("not possible", f"cluster {view.name} has no host group", "make one to prove this")
        self._drop_rule(cluster)  # that of a check that was killed
        rule = DrsRule(_CHECK_RULE, "hosts", vm_group=name, host_group=host_group.name)
        self.clusters.write(cluster, [("add", rule)])
        try:
            for vm in trial.vms:
                self.membership.move(vm, None)
            group = self.clusters.view(cluster).vm_group(name)
        finally:
            self._drop_rule(cluster)
            for vm in trial.vms:
                self.membership.move(vm, cid)
        if group is None or group.members:
            return Proof("failed", "it is gone" if group is None else f"it still has {len(group.members)} members")
        return Proof("ok", f"group {name} stayed without members while a rule named it, and was filled again")

    def _prove_disk_uuid(self, trial: Trial) -> Proof:
        if trial.disk is None:
            return Proof("not possible", "the deployment has no disk")
        found = [one for one in self._read_disks(trial) if one.stem == trial.disk.partition("@")[0]]
        if not found:
            return Proof("failed", f"disk {trial.disk} is not known on VM {trial.vms[0]}")
        path, shown = devices.disk_path(found[0].device), devices.disk_uuid(found[0].device)
        query = self.client.content.virtualDiskManager.QueryVirtualDiskUuid
        stored = devices.plain_uuid(self.client.query(query, path, self.inventory.datacenter.ref))
        if not shown or shown != stored:
            return Proof("failed", f"{path}: the VM says {shown or 'nothing'}, the disk manager {stored or 'nothing'}")
        return Proof("ok", f"{path} has {shown} on the VM and for the disk manager")

    def _prove_moved_vm(self, trial: Trial) -> Proof:
        machine, root = self.inventory.require_vm(trial.vms[0]), self.inventory.datacenter.vm_folder
        row = self.client.read(machine, "name", "parent")
        name = str(row.get("name")).removesuffix("-moved")
        folder = self.inventory.ensure_folder("vms")
        try:
            self.client.run(machine.Rename_Task, f"{name}-moved")
            self.client.run(root.MoveIntoFolder_Task, [machine])
            found = self.inventory.find_vm(trial.vms[0])
        finally:
            for undo, argument in ((machine.Rename_Task, name), (folder.MoveIntoFolder_Task, [machine])):
                with tolerate("NoPermission", "DuplicateName"):
                    self.client.run(undo, argument)
        return Proof("ok", f"{name} was found by its uuid") if found == machine else Proof("failed", f"{name} was lost")

    def _prove_moved_disk(self, trial: Trial) -> Proof:
        vm, disk = trial.vms[0], trial.disk
        if disk is None:
            return Proof("not possible", "the deployment has no disk")
        machine, stem = self.inventory.require_vm(vm), disk.partition("@")[0]
        present = {one.device.backing.datastore._moId for one in self._read_disks(trial) if one.stem == stem}
        store = self._other_store(machine, present)
        if store is None:
            return _ONE_STORE
        self.client.run(machine.RelocateVM_Task, sdk.vim.vm.RelocateSpec(datastore=store.ref), "defaultPriority")
        if stem not in {one.stem for one in self._read_disks(trial)}:
            return Proof("failed", f"disk {disk} is not known any more on VM {vm}", "move its file back by hand")
        self.disks.detach(vm, disk)
        found = self.disks.find_object("disk", disk, self.disks.director_uuid)
        if found is None or found.in_use_by:
            return Proof("failed", f"disk {disk} did not come back to our folder", "look for its file on the datastore")
        self.disks.attach(vm, disk)
        return Proof("ok", f"it is {found.cid} now")

    def _prove_copy(self, trial: Trial) -> Proof:
        machine = self.inventory.require_vm(trial.vms[0])
        (cluster, *_) = self.placement.of_vm(machine)
        template = self.stemcells.require_template(trial.stemcell)
        store = self._other_store(machine, set(template.stores))
        if store is None:
            return _ONE_STORE
        copy = self.stemcells.ensure_replica(template, cluster, store)
        return Proof("ok", f"{copy.name} is on {store.name}, and goes with its template")

    def _prove_without_drs(self, trial: Trial) -> Proof:
        (cluster, *_) = self.placement.of_vm(self.inventory.require_vm(trial.vms[0]))
        if cluster.drs:
            return Proof("not possible", f"DRS is on in cluster {cluster.name}", "name an az of a cluster without it")
        return Proof("ok", f"VMs run in cluster {cluster.name}, which has no DRS")

    def _members(self, machine: Any, cid: str) -> tuple[str, ...]:
        return self.clusters.view(self.inventory.cluster_of(machine)).members(self.records.require(cid).spec)

    def _drop_rule(self, cluster: Any) -> None:
        rule = self.clusters.view(cluster).rules.get(_CHECK_RULE)
        if rule is not None:
            self.clusters.write(cluster, [("remove", rule)])

    def _read_disks(self, trial: Trial) -> Any:
        return self.disks.read_attached(self.inventory.require_vm(trial.vms[0]))

    def _other_store(self, machine: Any, present: set[str]) -> Store | None:
        """One that the VM could have been put on."""
        clusters = self.placement.of_vm(machine)
        stores = self.placement.list_stores(clusters, *self.placement.patterns(clusters, (), disk=False))
        return next((one for one in stores if one.ref._moId not in present), None)


def _principal(name: str) -> str:
    """`DOMAIN\\user` and `user@domain` are the same."""
    domain, slash, user = str(name).partition("\\")
    return (f"{user}@{domain}" if slash else domain).lower()


def _privileges(groups: bool) -> dict[Level, tuple[str, ...]]:
    """`groups`: whether server groups are used."""
    found: dict[Level, tuple[str, ...]] = {"root": _ROOT_PRIVILEGES, "datacenter": _DATACENTER_PRIVILEGES}
    return {**found, "cluster": _CLUSTER_PRIVILEGES} if groups else found


def _check_names(needs: Needs) -> Iterator[CheckItem]:
    """A DRS VM group belongs to one server group, unless it is an operator's."""
    owners: dict[str, str] = {}
    for request in needs.groups:
        options = request.get("options") or {}
        name = None if options.get("adopt") else options.get("vm_group")
        if name in owners:
            detail = f"server group {owners[name]} has the vm_group {name!r} already"
            remedy = "give them the same placement.server_group to share one, or another vm_group"
            yield CheckItem(f"server group {request.get('name')}", False, detail, remedy)
        elif name:
            owners[str(name)] = str(request.get("name"))


def _check_adopted(
    what: str, name: str | None, policy: str | None, in_zones: dict[str, ClusterView]
) -> Iterator[CheckItem]:
    if not name:
        yield CheckItem(what, False, "adopt needs a name", "say placement.vm_group or placement.server_group")
        return
    for view in in_zones.values():
        group = view.vm_group(name)
        if group is None:
            detail = f"cluster {view.name} has no DRS VM group {name!r} to adopt"
            yield CheckItem(what, False, detail, "have the operator make it there, or leave this zone out")
        elif view.policy(group.name) != policy:
            detail = f"DRS VM group {name!r} in {view.name} promises {view.policy(group.name)}, not {policy}"
            yield CheckItem(what, False, detail, f"say placement.policy: {view.policy(group.name)}")


def _check_certificate(settings: Settings) -> Iterator[CheckItem]:
    if settings.insecure:
        detail = "not checked: properties.insecure is true, so the password can be read on the network"
        yield CheckItem("certificate", True, detail, "give the vCenter's authority as properties.ca_cert instead")
    elif settings.url.startswith("https:"):
        signer = "properties.ca_cert" if settings.ca_cert else "an authority of this system"
        yield CheckItem("certificate", True, f"signed by {signer}")
