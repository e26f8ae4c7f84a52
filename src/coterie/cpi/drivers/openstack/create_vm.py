"""Creating a VM, from the arguments to a server that runs: everything that can be refused is refused first; then key
pair, ports and floating addresses are created; then the server boots on its ports. Under a mark that was begun before,
its ports are there, and what was begun is finished.

Boots into one group are handed to the scheduler one after the other where its policy needs it: Nova's scheduler counts
members by their hosts, so one without a host yet is invisible to the next, and six at once into a soft group land
anywhere. Only the choice of a host is waited for, never the boot."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from coterie.cpi.contract import CpiError, InvalidCall, Json, Mark, NoPlacement, OutcomeUnknown, VmCreated
from coterie.cpi.drivers.openstack.client import BAD, BROKEN, CONFLICT, Client, Refusal, Row, has_lost_host
from coterie.cpi.drivers.openstack.disks import Volumes
from coterie.cpi.drivers.openstack.lookups import Lookups
from coterie.cpi.drivers.openstack.machines import Machines, NovaKeyPairs, Servers
from coterie.cpi.drivers.openstack.networks import FloatingIps, Nic, Ports, VmPorts, networks_with_addresses, read_nics
from coterie.cpi.drivers.openstack.properties import NETWORK, VmSpec, read_vm_spec
from coterie.cpi.drivers.openstack.rows import KEY, VIP, VOLUME, Rows, group_tag, host_of, is_gone, tags, user_metadata
from coterie.cpi.drivers.openstack.server_groups import Groups, NovaServerGroups
from coterie.cpi.kit.agent_settings import AgentSettings, agent_networks, base64_text, compact_json
from coterie.cpi.kit.create_once import Created, Hold, SingleWriter
from coterie.cpi.kit.create_vm import CreateVmArgs, CreateVmCall, Undo, create_vm
from coterie.cpi.kit.key_pairs import KeyPairs
from coterie.cpi.kit.sealing import seal, unseal
from coterie.cpi.kit.server_groups import Membership, group_missing
from coterie.cpi.kit.waits import Overdue, Waits
from coterie.slotted import dataclass

Args = CreateVmArgs[VmSpec]
_USERDATA_LIMIT = 65535  # of the base64 text, Nova's own
_SYSTEM, _EPHEMERAL = "/dev/vda", "/dev/vdb"
_STRICT = "anti-affinity"
_CHOICE_S = 15.0  # a scheduler that takes longer holds up one boot, not the whole group
_BOOT_S = 120.0  # the same for a whole boot
_NEWS_S = 1.0  # within which a compute host has reported to all schedulers that a server runs


@dataclass(frozen=True, slots=True)
class Resolved:
    """What the arguments mean in this cloud. `security_groups`: ids by each NIC's first label."""

    membership: Membership | None
    nics: Sequence[Nic]
    security_groups: dict[str, list[str]]
    devices: list[Json]
    disks: Json
    common: Json


@dataclass(frozen=True, slots=True)
class VmFactory:
    """The parts that each creation needs."""

    client: Client
    rows: Rows
    lookups: Lookups
    volumes: Volumes
    groups: Groups
    ports: Ports
    floating_ips: FloatingIps
    key_pairs: KeyPairs
    nova_keys: NovaKeyPairs
    machines: Machines
    boots: Boots

    def create(self, call: CreateVmCall) -> VmCreated:
        return create_vm(_Creation(self, call.read(read_vm_spec, NETWORK)))


class _Creation:
    """One create_vm: the steps of the kit's `VmCreation`."""

    ports: VmPorts

    def __init__(self, parts: VmFactory, args: Args) -> None:
        self._parts = parts
        self._args = args
        self._key: str | None = None
        self._addresses: list[Row] = []
        self._is_ours = True  # no other call can be booting it
        self._has_volumes = False

    def find_existing(self) -> VmCreated | None:
        """What an earlier call began is found by its ports."""
        return None

    def resolve(self) -> Resolved:
        parts, spec = self._parts, self._args.spec
        membership = parts.groups.server.membership(self._args.env)
        flavor, image = parts.lookups.flavor(spec.instance_type), parts.lookups.image(self._args.stemcell_cid)
        nics = read_nics(self._args.nics)
        security_groups = self._security_groups(nics, membership)
        devices = parts.volumes.block_devices(spec, image, flavor)
        common = self._common_body(membership, flavor, image, devices)
        self._has_volumes = bool(devices)
        return Resolved(membership, nics, security_groups, devices, _own_disks(spec, flavor), common)

    def prepare(self, resolved: Resolved, undo: Undo) -> None:
        parts, args = self._parts, self._args
        self._key = parts.key_pairs.ensure(args.spec.public_key, args.spec.key_name, args.mark)
        undo.add(self._undo)
        with self._keep_what_is_in_doubt(undo):
            self.ports = parts.ports.create(resolved.nics, resolved.security_groups, args.mark)
            self._is_ours = self.ports.are_new
            self._addresses = [parts.floating_ips.claim(vip, self.ports.first, args.mark) for vip in args.vips]

    def boot(self, resolved: Resolved, undo: Undo) -> VmCreated:
        """The answer holds only what is known before the boot: no question may fail once the server runs."""
        networks = networks_with_addresses(self._args.networks, self.ports.by_label)
        with self._keep_what_is_in_doubt(undo):
            request = self._request(resolved)
            return VmCreated(self._boot_with_key(request, resolved.membership), networks, resolved.disks)

    def finish(self, vm: VmCreated, undo: Undo) -> VmCreated:
        with self._keep_what_is_in_doubt(undo):
            for address in self._addresses:
                self._parts.floating_ips.attach(address, self.ports.first)
        if self._has_volumes:
            self._record_volumes(vm.cid)
        return vm

    def _record_volumes(self, vm_cid: str) -> None:
        """Nova creates and names them; they go with the server by Nova's own word, so a failure here does no harm."""
        with suppress(CpiError):
            for volume in self._parts.volumes.list_attached(vm_cid, passing=True):
                self._parts.rows.parts.record(self._args.mark, "disk", volume, volume)

    def _undo(self) -> None:
        self._parts.machines.delete_unfinished(self._args.mark)
        self._parts.key_pairs.release(self._key)

    @contextmanager
    def _keep_what_is_in_doubt(self, undo: Undo) -> Iterator[None]:
        """After a lost answer everything stays, to be found by its mark; so does another call's VM."""
        try:
            yield
        except CpiError as error:
            if isinstance(error, OutcomeUnknown) and not isinstance(error, Overdue):
                undo.clear()
            elif not self._is_ours and self._runs():
                undo.clear()
                raise OutcomeUnknown(
                    "a VM that another call made could not be finished", why=str(error), remedy="repeat"
                ) from error
            raise

    def _runs(self) -> bool:
        rows = self._parts.rows.list_live("vm", self._args.mark)
        return any(row["status"] != "ERROR" for row in rows)

    def _boot_with_key(self, request: Json, membership: Membership | None) -> str:
        """The last VM with the same key may have taken the pair away meanwhile."""
        parts, args = self._parts, self._args
        try:
            return parts.boots.boot(request, membership, args.mark, is_ours=self._is_ours)
        except (Refusal, InvalidCall):
            key = request["server"].get("key_name") if args.spec.public_key else None
            if key is None or parts.nova_keys.exists(key):
                raise
        self._key = parts.key_pairs.ensure(args.spec.public_key, None, args.mark)
        again = {**request, "server": {**request["server"], "key_name": self._key}}
        return parts.boots.boot(again, membership, args.mark, is_ours=self._is_ours)

    def _security_groups(self, nics: Sequence[Nic], membership: Membership | None) -> dict[str, list[str]]:
        """Of each NIC: the server group's, then the VM's or the cloud's, and the network's own."""
        require = self._parts.groups.security.require_existing
        named = self._args.spec.security_groups or self._parts.client.settings.default_security_groups
        common = [*(membership.security_groups if membership else ()), *require(named)]
        return {nic.labels[0]: list(dict.fromkeys([*common, *require(nic.security_groups)])) for nic in nics}

    def _common_body(self, membership: Membership | None, flavor: Row, image: Row, devices: list[Json]) -> Json:
        spec, settings = self._args.spec, self._parts.client.settings
        drive = settings.config_drive if spec.config_drive is None else spec.config_drive
        marks = [
            *tags(self._args.mark),
            *([group_tag(membership.cid)] if membership else ()),
            *([VIP] if self._args.vips else ()),
            *([VOLUME] if devices else ()),
            *([KEY] if spec.public_key else ()),
        ]
        body = {
            "name": self._args.mark.name(),
            "flavorRef": flavor["id"],
            "imageRef": image["id"],
            "availability_zone": spec.availability_zone or settings.default_availability_zone,
            "config_drive": True if drive else None,
            "metadata": user_metadata(spec.metadata) or None,
            "tags": marks,
        }
        return {key: value for key, value in body.items() if value is not None}

    def _request(self, resolved: Resolved) -> Json:
        devices, membership = resolved.devices, resolved.membership
        body = {
            **resolved.common,
            "networks": [{"port": port} for port in self.ports.ids],
            "user_data": userdata(self._agent_settings(resolved.disks)),
            **({"key_name": self._key} if self._key else {}),
            **({"block_device_mapping_v2": devices} if devices else {}),
        }
        if devices and devices[0]["destination_type"] == "volume":
            body["imageRef"] = ""
        group = {"group": membership.group} if membership and membership.group else {}
        hints = {**self._args.spec.scheduler_hints, **group}
        return {"server": body, **({"OS-SCH-HNT:scheduler_hints": hints} if hints else {})}

    def _agent_settings(self, disks: Json) -> AgentSettings:
        args, settings = self._args, self._parts.client.settings
        key = args.spec.public_key
        return AgentSettings(
            agent_id=args.agent_id,
            vm_name=args.mark.name(),
            networks=agent_networks(
                args.networks,
                {label: port.get("mac_address") for label, port in self.ports.by_label.items()},
                use_dhcp=settings.use_dhcp,
            ),
            requested_networks=args.networks,
            disks=disks,
            env=args.env,
            keys=[key] if key else [],
            cloud=settings.agent,
        )


def _own_disks(spec: VmSpec, flavor: Row) -> Json:
    """The disks that a VM is born with. The ephemeral one is a volume, or what the flavor brings; without one the
    agent divides the first disk."""
    has_second = bool(spec.ephemeral_disk or flavor.get("OS-FLV-EXT-DATA:ephemeral"))
    return {"system": _SYSTEM, "ephemeral": _EPHEMERAL if has_second else None}


def userdata(settings: AgentSettings) -> str:
    """Settings that are too long are refused before anything boots."""
    text = base64_text(compact_json(settings.document()))
    if len(text) > _USERDATA_LIMIT:
        raise InvalidCall(
            f"the agent's settings have {len(text)} bytes in base64, Nova takes {_USERDATA_LIMIT}", remedy="shorten env"
        )
    return text


@dataclass(frozen=True, slots=True)
class Boots:
    """From a request body to a server that runs."""

    client: Client
    rows: Rows
    servers: Servers
    groups: NovaServerGroups
    waits: Waits
    writer: SingleWriter[Refusal]

    def boot(self, request: Json, membership: Membership | None, mark: Mark, *, is_ours: bool) -> str:
        """The id of a running server under this mark. `is_ours`: no other call can be booting it."""
        wanted = (None if is_ours else self._await_other_call(mark)) or self._start(request, membership, mark)
        try:
            self.servers.wait_until_running(wanted, mark)
            return wanted
        except NoPlacement as error:
            if membership is None or membership.policy != _STRICT or not has_lost_host(error.why):
                raise self._with_members(error, membership) from error
        return self._boot_alone(request, membership, mark, wanted)

    def _boot_alone(self, request: Json, membership: Membership, mark: Mark, failed: str) -> str:
        """Again, for a server that lost its host to others that booted at once: now the scheduler sees them."""
        self.servers.delete(failed, mark)
        wanted = self._start_through_writer(request, membership, mark)
        try:
            self.servers.wait_until_running(wanted, mark)
        except NoPlacement as error:
            raise self._with_members(error, membership) from error
        return wanted

    def start_once(self, change: Json, hold: Hold) -> Created:
        """Applies a change of `_start_through_writer` alone, once all earlier boots into the group have a host."""
        with suppress(CpiError):  # without the wait only the spread may suffer
            self._await_group(str(change["group"]), hold)
        request, mark = unseal(self._secret(), change["sealed"]), Mark.of_wire(change["mark"])
        known = self.rows.find_live("vm", mark)
        if known:
            return Created(str(known["id"]), False)
        hold()
        return Created(self._create(request, mark), True)

    def _await_other_call(self, mark: Mark) -> str | None:
        """The server of the call that created the ports. None if it failed, or died: then nothing comes within the
        settle time."""

        def look() -> str | None:
            for server in self.rows.list_marked("vm", mark):
                wanted = str(server["id"])
                if server["status"] != "ERROR" and not is_gone(server):
                    return wanted
                self.servers.delete(wanted, mark)
                return ""
            return None

        with suppress(Overdue):
            return self.waits.until("a boot by another call", look, self.client.settings.settle_s) or None
        return None

    def _start(self, request: Json, membership: Membership | None, mark: Mark) -> str:
        try:
            if membership and membership.group and membership.policy != _STRICT:
                return self._start_through_writer(request, membership, mark)
            known = self.rows.find_live("vm", mark)
            return str(known["id"]) if known else self._create(request, mark)
        except (Refusal, InvalidCall) as error:
            bad = isinstance(error, InvalidCall) or error.status == BAD
            if bad and membership and membership.group and self.groups.find(membership.cid) is None:
                raise group_missing(membership.cid) from error
            raise

    def _start_through_writer(self, request: Json, membership: Membership, mark: Mark) -> str:
        """The request holds secrets of the agent, and waits in the ledger: so it is sealed."""
        sealed = seal(self._secret(), request)
        change = {"kind": "vm", "mark": mark.wire(), "group": membership.cid, "sealed": sealed}
        return self.writer.submit("boot", membership.cid, change).cid

    def _create(self, request: Json, mark: Mark) -> str:
        try:
            return str(self.client.send("POST", "create a server", "compute", "/servers", request)["server"]["id"])
        except Refusal as error:
            may_exist = error.status in (BROKEN, CONFLICT) and not error.is_quota
            found = self.rows.find_live("vm", mark) if may_exist else None
            if found is None:
                raise
            return str(found["id"])

    def _await_group(self, cid: str, hold: Hold) -> None:
        if self.client.settings.soft_spread == "host":
            self.waits.until("hosts for a group", lambda: self._are_all_placed(cid), _CHOICE_S)
            return

        def look() -> bool | None:
            hold()  # a boot may take longer than a lease
            return self._are_all_booted(cid)

        self.waits.until("the boots of a group", look, _BOOT_S)
        time.sleep(_NEWS_S)

    def _are_all_placed(self, cid: str) -> bool | None:
        rows = self.rows.list_all("vm", tags=group_tag(cid), status="BUILD")
        return True if all(host_of(row) for row in rows) else None

    def _are_all_booted(self, cid: str) -> bool | None:
        """By Nova's own list of members, which has a server before its tags can be seen."""
        known = {str(row["id"]): row for row in self.rows.list_all("vm", tags=group_tag(cid))}
        group = self.groups.find(cid)
        for member in group.members if group else ():
            row = known.get(member) or self.rows.read("vm", member)
            if row and row["status"] == "BUILD":
                return None
        return True

    def _with_members(self, error: NoPlacement, membership: Membership | None) -> CpiError:
        """Nova does not say which hosts do not fit and why; the hosts of the group's members are what we can add."""
        if membership is None or membership.group is None:
            return error
        rows = self.rows.list_all("vm", tags=group_tag(membership.cid))
        hosts = sorted({host for row in rows if (host := host_of(row))})
        where = f"has members on {len(hosts)} hosts: {', '.join(hosts[:20])}"
        why = f"{error.why} server group {membership.cid} ({membership.policy}) {where}"
        return NoPlacement(error.what, why=why, remedy=error.remedy)

    def _secret(self) -> str:
        """All conductors that may apply a sealed request have it."""
        full = self.client.complete_settings()
        return full.application_credential_secret or full.password or ""
