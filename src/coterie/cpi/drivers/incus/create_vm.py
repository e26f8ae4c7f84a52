"""Creating a VM: everything that can be refused is refused first; then a member of the cluster is chosen and reserved,
and one request creates the instance there, with its mark and its settings, and starts it.

The name of an instance follows from its mark and is unique in the cluster, so that a create that arrives late makes no
second one. The settings hold secrets and the writer of a group reads from the ledger: so they are no part of its
work."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from coterie.cpi.contract import (
    CpiError,
    InvalidCall,
    Json,
    NetworkNotFound,
    NoPlacement,
    OutcomeUnknown,
    Throttled,
    Unavailable,
    VmCreated,
    VMCreationFailed,
)
from coterie.cpi.drivers.incus.client import Client, NotSent, Refusal, Row, look_after
from coterie.cpi.drivers.incus.disks import Disks
from coterie.cpi.drivers.incus.machines import Machines
from coterie.cpi.drivers.incus.marks import (
    RESERVATION,
    SETTINGS,
    address_key,
    is_unread,
    mark_config,
    mark_of,
    user_config,
)
from coterie.cpi.drivers.incus.placement import Members, Reservation
from coterie.cpi.drivers.incus.properties import MACHINE, NETWORK, VmSpec, read_vm_spec
from coterie.cpi.drivers.incus.reservations import Placements
from coterie.cpi.drivers.incus.server_groups import Groups, profile_of
from coterie.cpi.drivers.incus.stemcells import Stemcells
from coterie.cpi.kit.agent_settings import AgentSettings, agent_networks, compact_json
from coterie.cpi.kit.create_vm import (
    CreateVmArgs,
    CreateVmCall,
    NetworkRequest,
    Undo,
    answer_networks,
    chosen_mac,
    create_vm,
)
from coterie.cpi.kit.server_groups import Membership, group_missing
from coterie.cpi.kit.waits import Overdue
from coterie.slotted import dataclass

Args = CreateVmArgs[VmSpec]
_STRICT = ("anti-affinity", "affinity", "host-affinity")
_ROOT_MIB = 1024
# a small disk with what SETTINGS holds, for guests without Incus's own agent: its label is `cidata`
_SETTINGS_DISK = {"settings": {"type": "disk", "source": "cloud-init:config"}}
_OTHER_CALL_S = 5.0
_RESTS_S = (0.1, 0.5, 1.0)


@dataclass(frozen=True, slots=True)
class Resolved:
    """`wish`: what the choice of a member depends on, without secrets. `body`: of the request that creates it."""

    membership: Membership | None
    wish: Json
    body: Json


@dataclass(frozen=True, slots=True)
class VmFactory:
    """The parts that each creation needs."""

    client: Client
    members: Members
    machines: Machines
    groups: Groups
    disks: Disks
    stemcells: Stemcells
    placements: Placements

    def create(self, call: CreateVmCall) -> VmCreated:
        args = call.read(read_vm_spec, NETWORK)
        creation = _Creation(self, args)
        try:
            row = create_vm(creation)
        except CpiError as error:
            raise creation.explain_left(error) from error.__cause__
        macs = {label: (args.networks[label].get("ip"), mac) for label, mac in creation.macs().items()}
        return VmCreated(str(row["name"]), answer_networks(args.networks, macs), creation.disk_hints())


class _Creation:
    """One create_vm: the steps of the kit's `VmCreation`."""

    def __init__(self, parts: VmFactory, args: Args) -> None:
        self._parts = parts
        self._args = args
        self._name = args.mark.name()
        self._type = args.spec.type or parts.client.settings.default_type
        self._is_ours = False

    def find_existing(self) -> Row | None:
        """One that runs is whole. One that does not may be another call's that is still at it."""
        row = self._parts.machines.read(self._name)
        return row if row and row["status"] == "Running" and mark_of(row) == self._args.mark else None

    def resolve(self) -> Resolved:
        parts, args, spec = self._parts, self._args, self._args.spec
        membership = parts.groups.server.membership(args.env)
        image = args.stemcell_cid
        parts.stemcells.require(image, self._type)
        parts.disks.require_type(args.disk_cids, self._type)
        group = spec.cluster_group or parts.client.settings.default_cluster_group
        parts.members.require_free(self._addresses(), self._name)
        wish = {
            "name": self._name,
            "profile": profile_of(membership.cid) if membership else "",
            "policy": membership.policy if membership else None,
            "group": group,
            "pins": self._pins(parts.members.names_of(group)),
            "cpu": spec.cpu,
            "memory": spec.memory,
            "type": self._type,
        }
        return Resolved(membership, wish, self._body(membership, image))

    def _pins(self, allowed: Sequence[str] | None) -> list[str]:
        """Members that hold its disks. Where its cluster group has none of them the disks come to it."""
        pins = self._parts.disks.locations(self._args.disk_cids)
        return pins if allowed is None or set(pins) & set(allowed) else []

    def prepare(self, resolved: Resolved, undo: Undo) -> None:
        """The instance is all that is created."""

    def boot(self, resolved: Resolved, undo: Undo) -> Row:
        try:
            row = self._create(resolved, undo)
        except CpiError as error:
            raise self._explain(error, resolved.membership) from error.__cause__
        if is_unread(row):
            undo.clear()
            raise OutcomeUnknown(
                f"instance {self._name} is there, and its member is silent",
                why=f"member {row.get('location')} does not answer",
                remedy="bring it back, or have the instance deleted",
            )
        if mark_of(row) != self._args.mark:
            undo.clear()
            raise InvalidCall(f"instance {self._name} exists and is not ours", remedy="have its owner delete it")
        return row

    def _create(self, resolved: Resolved, undo: Undo) -> Row:
        """On the first member that answers. Under the name of the next try nothing can come of an earlier one."""
        parts, silent = self._parts, dict[str, str]()
        doubt: CpiError | None = None
        operation = ""
        while True:
            try:
                reservation = parts.placements.take(resolved.wish, silent)
            except NoPlacement as error:
                raise doubt or error from error.__cause__
            except CpiError as error:
                raise _after(doubt, error) from error.__cause__
            if reservation is None:
                break
            try:
                operation = self._begin(reservation, resolved.body)
                self._is_ours = True
                undo.add(lambda: parts.machines.delete(self._name))
                break
            except Refusal as error:
                if look_after(error, partial(parts.machines.read, self._name)):
                    break
                if error.http_status < 500:
                    parts.placements.recorded.release(reservation)
                    raise _after(doubt, error) from error.__cause__
                doubt, silent[reservation.member] = _after(doubt, error), error.why
            except NotSent:
                parts.placements.recorded.release(reservation)
            except (Unavailable, Throttled) as error:  # nothing was sent
                parts.placements.recorded.release(reservation)
                raise _after(doubt, error) from error.__cause__
            except CpiError as error:
                raise _after(doubt, error) from error.__cause__
        row, failure = self._await_end(operation, undo)
        if reservation:
            parts.placements.recorded.release(reservation)
        if row is None:
            why = failure.why if failure else "another call began it"
            what = f"Incus could not create {self._name}"
            failed = _after(doubt, VMCreationFailed(what, why=why, remedy="repeat", retryable=not failure))
            if isinstance(failed, OutcomeUnknown):
                undo.clear()
            raise failed
        return row

    def _begin(self, reservation: Reservation, body: Json) -> str:
        parts = self._parts
        query = {"target": reservation.member} if parts.members.is_clustered() else {}
        if reservation.profile:
            body = {**body, "config": {**body["config"], RESERVATION: reservation.note}}
        return parts.client.change(
            f"create instance {self._name}",
            "POST",
            "/instances",
            body,
            send_by=reservation.send_by,
            **query,
        )[1]

    def _await_end(self, operation: str, undo: Undo) -> tuple[Row | None, Refusal | None]:
        """Incus removes by itself what it could not create; what it could not start stays."""
        machines = self._parts.machines
        try:
            return machines.await_creation(self._name, operation), None
        except Refusal as error:
            row = machines.read(self._name)
            if (row and self._is_ours) or (row is None and error.is_over):
                return row, error
            undo.clear()
            raise OutcomeUnknown(error.what, why=error.why, remedy="look for it by its mark") from error

    def finish(self, vm: Row, undo: Undo) -> Row:
        """Repeatable: also for one that an interrupted call left."""
        row = vm if self._is_ours else self._await_other_call()
        for rest in _RESTS_S:
            if row["status"] == "Running":
                return row
            try:
                self._parts.machines.start(self._name)
                return vm
            except Refusal as error:
                refusal = error
            time.sleep(rest)  # another call may be at it, which Incus refuses in many words
            found = self._parts.machines.await_idle(self._name)
            if found is None:
                undo.clear()
                raise self._removed() from refusal
            row = found
        raise self._not_started(refusal) from refusal

    def _await_other_call(self) -> Row:
        """What the call that created it makes of it; soon it is taken for dead."""

        def look() -> Row | None:
            row = self._parts.machines.read(self._name)
            if row is None:
                raise self._removed()
            return row if row["status"] == "Running" else None

        limit = min(_OTHER_CALL_S, self._parts.client.settings.settle_s)
        with suppress(Overdue):
            return self._parts.machines.waits.until("the start by another call", look, limit)
        return self._parts.machines.require_read(self._name)

    def _removed(self) -> CpiError:
        return VMCreationFailed(f"{self._name} was removed by another call", remedy="repeat", retryable=True)

    def explain_left(self, error: CpiError) -> CpiError:
        """No error may say that nothing was made while something of an earlier call is there."""
        kind = error.kind if isinstance(error, Refusal) else type(error)
        if issubclass(kind, OutcomeUnknown):
            return error
        try:
            row = self._parts.machines.read(self._name)
        except CpiError:
            row = None if issubclass(kind, Unavailable) else {}
        if row is None:
            return error
        return OutcomeUnknown(
            f"instance {self._name} is there, or cannot be looked for, and was not finished",
            why=str(error),
            remedy=error.remedy or "look for it by its mark",
            retryable=error.retryable,
        )

    @property
    def _is_machine(self) -> bool:
        return self._type == MACHINE

    def disk_hints(self) -> Json:
        """The ephemeral disk is a share of the system's."""
        return {"system": "/dev/sda" if self._is_machine else "/", "ephemeral": None}

    def macs(self) -> dict[str, str]:
        """Of a static address the MAC follows, so that no neighbour has a wrong one in mind."""
        return {
            one.label: chosen_mac(f"{self._parts.client.settings.project}/{one.ip}" if one.ip else self._name, number)
            for number, one in enumerate(self._args.nics)
        }

    def _body(self, membership: Membership | None, image: str) -> Json:
        args, spec, settings = self._args, self._args.spec, self._parts.client.settings
        config = {
            **spec.config,
            **user_config({"name": self._name}),
            **mark_config(args.mark),
            **{address_key(ip): network for ip, network in self._addresses().items()},
            "limits.cpu": str(spec.cpu),
            **({"limits.memory": f"{spec.memory}MiB"} if settings.memory_limits or self._is_machine else {}),
            SETTINGS: self._settings(),
            "boot.autostart": "false",  # else a VM that was replaced comes back with its member
        }
        if membership and membership.policy in _STRICT:
            config["cluster.evacuate"] = "stop"  # an evacuation would put it where the policy forbids
        root = {"type": "disk", "path": "/", "pool": settings.storage_pool}
        if spec.root_disk or spec.ephemeral_disk:
            root["size"] = f"{(spec.root_disk or _ROOT_MIB) + spec.ephemeral_disk}MiB"
        return {
            "name": self._name,
            "type": self._type,
            "source": {"type": "image", "fingerprint": image},
            "start": True,
            "profiles": [*spec.profiles, *([profile_of(membership.cid)] if membership else ())],
            "config": config,
            "devices": {"root": root, **(_SETTINGS_DISK if self._is_machine else {}), **self._nics(membership)},
        }

    def _addresses(self) -> dict[str, str]:
        """Static ones, each with its network."""
        default = self._parts.client.settings.default_network
        found = {one.ip: one.properties for one in self._args.nics if one.ip}
        return {ip: str(one.get("parent") or one.get("network") or default) for ip, one in found.items()}

    def _nics(self, membership: Membership | None) -> Json:
        args, macs = self._args, self.macs()
        if not args.nics:
            raise InvalidCall("networks names no manual or dynamic network", remedy="give the VM at least one")
        if args.vips:
            raise InvalidCall(
                f"networks.{args.vips[0].label} is a vip network", remedy="Incus has none; use a manual one"
            )
        found = {}
        for number, request in enumerate(args.nics):
            found[f"eth{number}"] = {
                "type": "nic",
                "name": f"eth{number}",
                "hwaddr": macs[request.label],
                **self._nic(request, membership),
            }
        return found

    def _nic(self, request: NetworkRequest, membership: Membership | None) -> Json:
        parts, settings = self._parts, self._parts.client.settings
        require = parts.groups.security.require_existing
        own = self._args.spec.security_groups or settings.default_security_groups
        named = require((*own, *request.properties.get("security_groups", ())))
        acls = list(dict.fromkeys([*(membership.security_groups if membership else ()), *named]))
        parent = request.properties.get("parent")
        if parent:
            if acls:
                raise InvalidCall(
                    f"networks.{request.label}.cloud_properties.parent is an unmanaged bridge",
                    why="Incus has ACLs on managed networks only",
                    remedy="name a managed network, or leave the security groups out",
                )
            return {"nictype": "bridged", "parent": parent}
        network = request.properties.get("network") or settings.default_network
        if not network:
            raise InvalidCall(
                f"networks.{request.label}.cloud_properties.network is missing",
                remedy="name a network of Incus, or set properties.default_network",
            )
        row = parts.members.cache.get(f"network {network}", lambda: self._network(network))
        if not row:
            raise NetworkNotFound(f"there is no network {network}", remedy="name one that `incus network list` shows")
        return {"network": network, **({"security.acls": ",".join(acls)} if acls else {})}

    def _network(self, name: str) -> Sequence[Row]:
        row = self._parts.client.ask(f"read network {name}", f"/networks/{name}")
        return [row] if row and row.get("managed") else []

    def _settings(self) -> str:
        args, settings = self._args, self._parts.client.settings
        document = AgentSettings(
            agent_id=args.agent_id,
            vm_name=self._name,
            networks=agent_networks(args.networks, dict(self.macs())),
            requested_networks=args.networks,
            disks=self.disk_hints(),
            env=args.env,
            cloud=settings.agent,
        ).document()
        return compact_json(document).decode()

    def _explain(self, error: CpiError, membership: Membership | None) -> CpiError:
        if membership and not isinstance(error, (NoPlacement, OutcomeUnknown)):
            with suppress(CpiError):
                if self._parts.groups.profiles.read(profile_of(membership.cid)) is None:
                    return group_missing(membership.cid)
        return error

    def _not_started(self, error: Refusal) -> CpiError:
        if error.is_over:
            return VMCreationFailed(f"Incus could not start {self._name}", why=error.why, remedy=error.remedy)
        return error


def _is_open(error: CpiError) -> bool:
    """Whether something may still come of the call."""
    return issubclass(error.kind if isinstance(error, Refusal) else type(error), OutcomeUnknown)


def _after(doubt: CpiError | None, error: CpiError) -> CpiError:
    """What a try says that followed one whose end is not known: of that one, something may still come. It is raised
    from the error's own cause, which tells an outage of the ledger from what the cloud says."""
    if doubt is None or not _is_open(doubt) or _is_open(error):
        return error
    return OutcomeUnknown(doubt.what, why=f"{doubt.why}; then: {error}", remedy="look for it by its mark")
