"""Creating a VM: one request carries the instance, its NICs, its disks and the mark, which labels the disks, too.
Nothing is orphaned; names follow from the mark, so a repeat finds what is there, or what is left."""

from __future__ import annotations

import time

from coterie.cpi.contract import CpiError, InvalidCall, Json, OutcomeUnknown, VmCreated, VMCreationFailed
from coterie.cpi.drivers.gcp.client import Client, Refusal, require_marked
from coterie.cpi.drivers.gcp.machines import BOOT, EPHEMERAL, NODE_GROUP, Machines, group_label
from coterie.cpi.drivers.gcp.marks import OF_VM, Row, cid_of, marked
from coterie.cpi.drivers.gcp.networks import Subnetworks
from coterie.cpi.drivers.gcp.properties import HOST_POLICY, NETWORK, VmSpec, read_vm_spec
from coterie.cpi.drivers.gcp.server_groups import NODES, Domains, Groups, names_domain
from coterie.cpi.drivers.gcp.stemcells import Stemcells
from coterie.cpi.kit.agent_settings import dhcp_settings
from coterie.cpi.kit.calls import is_passing
from coterie.cpi.kit.create_vm import CreateVmArgs, CreateVmCall, Undo, answer_networks, create_vm
from coterie.cpi.kit.kept_policy import YoungerStays
from coterie.cpi.kit.marking import GROUP
from coterie.cpi.kit.server_groups import Membership, group_missing
from coterie.slotted import dataclass

Args = CreateVmArgs[VmSpec]
_SETTINGS = ("bosh_settings", "user-data")  # where agents of BOSH's stemcells look, and cloud-init
_METADATA = 256 * 1024
_ENDED = ("STOPPING", "TERMINATED", "DEPROVISIONING")
_DEVICE = "/dev/disk/by-id/google-"


@dataclass(frozen=True, slots=True)
class VmFactory:
    """The parts that each creation needs."""

    client: Client
    groups: Groups
    machines: Machines
    stemcells: Stemcells
    networks: Subnetworks

    @property
    def domains(self) -> Domains:
        return Domains(self.client, self.machines)

    def create(self, call: CreateVmCall) -> VmCreated:
        args = call.read(read_vm_spec, NETWORK)
        row = create_vm(_Creation(self, args, self.machines.require_zone(args.spec.zone)))
        given: dict[str, tuple[str | None, str | None]] = {}
        for request, nic in zip(args.nics, row.get("networkInterfaces") or (), strict=False):
            given[request.label] = nic.get("networkIP"), None
        return VmCreated(cid_of(row), answer_networks(args.networks, given), _disks(args))


class _Creation:
    """One create_vm: the steps of the kit's `VmCreation`."""

    def __init__(self, parts: VmFactory, args: Args, zone: str) -> None:
        self._parts = parts
        self._client = parts.client
        self._args = args
        self._zone = zone
        self._cid = f"{zone}/{args.mark.name()}"
        self._membership: Membership | None = None
        self._created_at = 0.0  # or found; by the monotonic clock

    def find_existing(self) -> Row | None:
        """One that came to its end is removed, and proven gone, before it is made again."""
        row = self._parts.machines.read(self._cid)
        if row is None:
            return None
        require_marked(row, self._args.mark)
        if row.get("status") in _ENDED:
            self._parts.machines.delete(self._cid)
            return None
        self._created_at = time.monotonic()
        return self._wait_until_running()

    def resolve(self) -> Row:
        """The request. What it names is looked up first, so that each missing thing has its own error."""
        parts, args, spec, settings = self._parts, self._args, self._args.spec, self._client.settings
        membership = self._membership = parts.groups.server.membership(args.env)
        for vip in args.vips:
            parts.networks.require_address(str(vip.ip))
        for disk in args.disk_cids:
            if disk.partition("/")[0] != self._zone:
                raise InvalidCall(
                    f"disk {disk} is not in zone {self._zone}, where the VM is wanted",
                    remedy="put the VM into the disk's zone",
                )
        tags = (
            *settings.default_tags,
            *spec.tags,
            *(tag for one in args.nics for tag in one.properties.get("tags", ())),
        )
        placement, choice = self._placement(membership)
        labels = {**spec.labels, **marked(args.mark), **choice}
        if membership:
            labels[GROUP] = group_label(membership.cid)
            tags = (*tags, *membership.security_groups)
        account = spec.service_account or settings.service_account
        scopes = list(spec.service_scopes or settings.service_scopes)
        return {
            "labels": labels,
            "machineType": f"{self._client.project}/zones/{self._zone}/machineTypes/{spec.size}",
            "disks": self._own_disks(parts.stemcells.reference(args.stemcell_cid)),
            "networkInterfaces": self._nics(membership),
            "metadata": {"items": self._metadata()},
            "tags": {"items": list(dict.fromkeys(tags))},
            **({"serviceAccounts": [{"email": account, "scopes": scopes}]} if account else {}),
            **({"canIpForward": True} if spec.ip_forwarding else {}),
            **placement,
        }

    def prepare(self, resolved: Row, undo: Undo) -> None:
        """One request creates everything."""

    def boot(self, resolved: Row, undo: Undo) -> Row:
        """What is there stays, whatever becomes of this call: another under the mark may have answered it."""
        path, what = self._client.path("instances", self._cid), f"create VM {self._cid}"
        try:
            row = self._client.insert(what, path, resolved, self._args.mark, self._remove_rest)
        except Refusal as error:
            membership = self._membership
            if membership and error.is_missing and f"resourcePolicies/{membership.group}" in error.why:
                raise group_missing(membership.cid) from error
            raise
        self._created_at = time.monotonic()
        return self._wait_until_running(row)

    def finish(self, row: Row, undo: Undo) -> Row:
        """A strict member beside an elder in its domain goes, whichever call under the mark made it: they all compare
        it, and agree. Beside a younger one, which did not go in time, it stays: another call may have waited longer."""
        if not names_domain(row):
            return row
        membership = self._membership or self._parts.groups.server.membership(self._args.env)
        if membership and membership.policy == "anti-affinity":
            try:
                self._parts.domains.require_alone(row, membership, self._number(), self._created_at)
            except YoungerStays:
                raise
            except VMCreationFailed:
                undo.add(self._remove)
                raise
        return row

    def _wait_until_running(self, row: Row | None = None) -> Row:
        """The operation ends when the instance is there; one that another call began may be on its way."""

        def look() -> Row | None:
            try:
                found = row if row and row.get("status") == "RUNNING" else self._parts.machines.read(self._cid)
            except CpiError as error:
                if is_passing(error):
                    return None
                raise OutcomeUnknown(f"VM {self._cid} was made, and cannot be read", why=str(error)) from error
            if found is None or found.get("status") in _ENDED:
                raise OutcomeUnknown(f"VM {self._cid} ended while it was starting", remedy="repeat")
            return found if found.get("status") not in ("PROVISIONING", "STAGING", "PENDING") else None

        return self._client.waits.until(f"VM {self._cid} running", look)

    def _remove_rest(self) -> None:
        """Of a creation that came to nothing: disks. A VM that is there by now is another call's, which may have
        answered it."""
        row = self._parts.machines.read(self._cid)
        if row is not None and row.get("status") != "FAILED":
            require_marked(row, self._args.mark)
            raise OutcomeUnknown(f"VM {self._cid} was made by another call", remedy="repeat")
        self._remove()

    def _remove(self) -> None:
        row = self._parts.machines.read(self._cid)
        if row is not None:
            require_marked(row, self._args.mark)
        self._parts.machines.delete(self._cid)

    def _placement(self, membership: Membership | None) -> tuple[Row, dict[str, str]]:
        """And labels that tell of it."""
        spec, choice = self._args.spec, dict[str, str]()
        schedule: Row = {"onHostMaintenance": spec.on_host_maintenance, "automaticRestart": spec.automatic_restart}
        if membership is None or membership.group is None:
            return {"scheduling": schedule}, choice
        if membership.policy == HOST_POLICY:
            name = membership.group.removeprefix(NODES)
            schedule["nodeAffinities"] = [{"key": NODE_GROUP, "operator": "IN", "values": [name]}]
            return {"scheduling": schedule}, choice
        if membership.policy == "anti-affinity":
            domain, choice = self._parts.domains.choose(self._zone, membership, self._number())
            schedule["availabilityDomain"] = domain
        policies = [self._client.path("resourcePolicies", membership.group)]
        return {"scheduling": schedule, "resourcePolicies": policies}, choice

    def _number(self) -> int | None:
        found = (self._args.env.get("bosh") or {}).get("server_group_member")
        return None if found is None else int(found)

    def _own_disks(self, image: str) -> list[Row]:
        spec, settings, types = self._args.spec, self._client.settings, f"{self._client.project}/zones/{self._zone}"
        boot = spec.root_disk_size_gb or settings.default_root_disk_size_gb
        kind = spec.root_disk_type or settings.default_root_disk_type
        parts = [(BOOT, kind, {"sourceImage": image, **({"diskSizeGb": str(boot)} if boot else {})})]
        if spec.ephemeral_disk_size_gb:
            parts.append((EPHEMERAL, spec.ephemeral_disk_type, {"diskSizeGb": str(spec.ephemeral_disk_size_gb)}))
        name = self._args.mark.name()
        return [
            {
                "boot": part == BOOT,
                "autoDelete": True,
                "deviceName": f"{name}-{part}",
                "initializeParams": {
                    "diskName": f"{name}-{part}",
                    "diskType": f"{types}/diskTypes/{kind}",
                    "labels": marked(self._args.mark, **{OF_VM: name}),
                    **more,
                },
            }
            for part, kind, more in parts
        ]

    def _nics(self, membership: Membership | None) -> list[Row]:
        args, found = self._args, list[Row]()
        if not args.nics:
            raise InvalidCall("networks names no manual or dynamic network", remedy="give the VM at least one")
        if len(args.vips) > 1 or any(one.nic_group for one in args.requests):
            raise InvalidCall("networks asks for more than a NIC can have", remedy="one vip, one network for each NIC")
        for number, request in enumerate(args.nics):
            link, network = self._parts.networks.link(request)
            if membership and membership.security_groups and network != self._client.settings.default_network:
                raise InvalidCall(
                    f"networks.{request.label} is in {network}, security groups are in "
                    f"{self._client.settings.default_network}",
                    why="firewall rules are of one network, so its NIC would have none",
                    remedy="use one network, and name it as properties.default_network",
                )
            public = [str(vip.ip) for vip in args.vips] if number == 0 else []
            found.append(
                {
                    **link,
                    **({"networkIP": request.ip} if request.ip else {}),
                    **({"accessConfigs": [{"type": "ONE_TO_ONE_NAT", "natIP": ip} for ip in public]} if public else {}),
                }
            )
        return found

    def _metadata(self) -> list[Json]:
        args, keys = self._args, [self._args.spec.public_key] if self._args.spec.public_key else []
        agent = self._client.settings.agent
        raw = dhcp_settings(args, _disks(args), agent, most=_METADATA, cloud="Google", keys=keys)
        return [{"key": key, "value": raw.decode()} for key in _SETTINGS]


def _disks(args: Args) -> Json:
    ephemeral = f"{_DEVICE}{args.mark.name()}-{EPHEMERAL}" if args.spec.ephemeral_disk_size_gb else None
    return {"system": "/dev/sda", "ephemeral": ephemeral}
