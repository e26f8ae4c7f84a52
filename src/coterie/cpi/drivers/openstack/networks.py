"""Networks of VMs: ports, which are created before their VM, so that its addresses are known and its mark is in the
cloud first; floating addresses; and networks that a Director manages."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence

from coterie.cpi.contract import CpiError, InvalidCall, Json, Mark, NetworkCreated, Networks, VMCreationFailed
from coterie.cpi.drivers.openstack.client import CONFLICT, MISSING, Client, Refusal, Row
from coterie.cpi.drivers.openstack.lookups import Lookups
from coterie.cpi.drivers.openstack.rows import (
    LISTINGS,
    Rows,
    description,
    director_tag,
    ids,
    mark_of_description,
    part_name,
)
from coterie.cpi.kit.create_once import Created, Hold, SingleWriter, create_if_absent, wait_or_remove
from coterie.cpi.kit.create_vm import NetworkRequest, group_by_nic
from coterie.slotted import dataclass

_LEAVES = "coterie-leaves-"  # a port's tag: the server that is being deleted, should this process die
_DEFAULT_RANGE = "10.{0}.{1}.0/24"


@dataclass(frozen=True, slots=True)
class Nic:
    """One port of a VM: networks of one `nic_group` share it. `ips` empty: the cloud chooses."""

    labels: tuple[str, ...]
    network: str | None
    ips: tuple[str, ...]
    security_groups: tuple[str, ...]


def read_nics(requests: Sequence[NetworkRequest]) -> list[Nic]:
    return [
        Nic(
            tuple(one.label for one in sharing),
            network,
            tuple(one.ip for one in sharing if one.ip),
            tuple(dict.fromkeys(each for one in sharing for each in one.properties.get("security_groups", ()))),
        )
        for network, sharing in group_by_nic(requests, network_name, "net_id")
    ]


def network_name(request: NetworkRequest) -> str | None:
    return request.properties.get("net_id") or request.properties.get("name")


def networks_with_addresses(networks: Networks, ports: Mapping[str, Row]) -> Json:
    """The argument of create_vm with the address and MAC that each network got; `ports`: by the network's name."""
    answer: Json = {name: dict(spec) for name, spec in networks.items()}
    for name, port in ports.items():
        given = _addresses(port)
        if answer[name].get("type", "manual") == "dynamic" or answer[name].get("ip") not in given:
            answer[name]["ip"] = given[0] if given else None
        answer[name]["mac"] = port.get("mac_address")
    return answer


# -- ports --


@dataclass(frozen=True, slots=True)
class VmPorts:
    """By the name of each network. `are_new`: whether this very call created the first one."""

    by_label: Mapping[str, Row]
    are_new: bool

    @property
    def first(self) -> Row:
        """The NIC with the default gateway: floating addresses lead there."""
        return next(iter(self.by_label.values()))

    @property
    def ids(self) -> list[str]:
        return list(dict.fromkeys(ids(self.by_label.values())))


@dataclass(frozen=True, slots=True)
class Ports:
    client: Client
    rows: Rows
    lookups: Lookups
    writer: SingleWriter[Refusal]

    def create(self, nics: Sequence[Nic], security_groups: Mapping[str, Sequence[str]], mark: Mark) -> VmPorts:
        """A port for each NIC; `security_groups`: by the NIC's first label. A port with a static address can be created
        once only: the call that created the first port boots the VM."""
        found: dict[str, Row] = {}
        are_new = True
        fixed = [ip for nic in nics for ip in nic.ips]
        for number, nic in enumerate(nics):
            body = self._body(nic, security_groups[nic.labels[0]], mark)
            if nic.ips:
                port, is_new = self._create_fixed(body, mark)
            else:
                port, is_new = self._create_free(body, mark, ids(found.values()), fixed)
            are_new = is_new if number == 0 else are_new
            found.update(dict.fromkeys(nic.labels, port))
        return VmPorts(found, are_new)

    def create_free_once(self, change: Json, hold: Hold) -> Created:
        """Applies a change of `_create_free` as the only writer of its VM: the first port that fits and belongs to no
        other NIC, or a new one."""
        mark, body = Mark.of_wire(change["mark"]), change["body"]

        def list_fitting() -> list[str]:
            rows = [row for row in self.rows.list_parts("port", mark) if row["network_id"] == body["network_id"]]
            free = [row for row in rows if not set(_addresses(row)) & set(change["fixed"])]
            return [one for one in ids(free) if one not in change["taken"]]

        return create_if_absent(
            list_fitting,
            lambda: str(self.rows.create("port", mark, body)["id"]),
            lambda second: self.rows.delete("port", second),
            hold,
        )

    def delete(self, ports: Iterable[Row]) -> None:
        for port in ports:
            self.rows.delete("port", str(port["id"]))

    def list_leaving(self, server: str) -> list[Row]:
        """Ports of ours that were noted as this server's when its deletion began."""
        note = f"{_LEAVES}{server}"
        return [
            row
            for row in self.rows.list_all("port", tags=note)
            if self._is_ours(row) and note in (row.get("tags") or ()) and row.get("device_id") in (None, "", server)
        ]

    def note_leaving(self, ports: Iterable[Row], server: str) -> None:
        """Nova takes its own id off a port when it deletes a server; then only this note says whose it was."""
        note = f"{_LEAVES}{server}"
        for port in ports:
            if note not in (port.get("tags") or ()):
                self._put(port, f"/tags/{note}", None)

    def change(self, port: Row, change: Json) -> None:
        self._put(port, "", {"port": change})

    def _put(self, port: Row, below: str, body: Json | None) -> None:
        try:
            self.client.put(f"change port {port['id']}", "network", f"/ports/{port['id']}{below}", body)
        except Refusal as error:
            if error.status != MISSING:
                raise

    def _is_ours(self, port: Row) -> bool:
        mark = self._mark(port)
        return mark is not None and self.rows.is_part("port", port, mark)

    def _mark(self, port: Row) -> Mark | None:
        return LISTINGS["port"].mark(port, self.client.director_uuid)

    def _body(self, nic: Nic, security_groups: Sequence[str], mark: Mark) -> Json:
        return {
            "network_id": self.lookups.network(nic.network)["id"],
            "name": mark.name(),
            "description": director_tag(mark.director),
            **({"security_groups": list(security_groups)} if security_groups else {}),
            **({"fixed_ips": [{"ip_address": ip} for ip in nic.ips]} if nic.ips else {}),
        }

    def _create_free(self, body: Json, mark: Mark, taken: list[str], fixed: list[str]) -> tuple[Row, bool]:
        """Without an address of its own a port could be created twice. `taken`: ports of the VM's NICs before this one;
        `fixed`: addresses of all its NICs that have one."""
        change = {**self.rows.create_change("port", mark, body), "taken": taken, "fixed": fixed}
        created = self.writer.submit("port", mark.intent, change)
        return self.rows.read("port", created.cid) or {"id": created.cid}, created.new

    def _create_fixed(self, body: Json, mark: Mark) -> tuple[Row, bool]:
        try:
            return self.rows.create("port", mark, body), True
        except Refusal as error:
            if error.status != CONFLICT or error.is_quota:
                raise
        return self._create_after_conflict(body, mark)

    def _create_after_conflict(self, body: Json, mark: Mark) -> tuple[Row, bool]:
        """The address belongs to this very VM, to one of ours that is gone, or to something that keeps it."""
        for ip in [one["ip_address"] for one in body["fixed_ips"]]:
            for port in list(self.rows.list_all("port", network_id=body["network_id"], fixed_ips=f"ip_address={ip}")):
                if ip not in _addresses(port) or port["network_id"] != body["network_id"]:
                    continue  # a filter that was ignored proves nothing
                holder = self._mark(port)
                if holder == mark and self.rows.is_part("port", port, mark):
                    self.rows.parts.record(mark, "port", part_name("port", port), str(port["id"]))
                    return port, False
                if holder is None or not self._is_ours(port) or not self._is_abandoned(port, holder):
                    raise _address_error(ip, port, ours=holder is not None)
                self.delete([port])
        return self.rows.create("port", mark, body), True

    def _is_abandoned(self, port: Row, holder: Mark) -> bool:
        """A port of ours without a server, and without one that could still get it."""
        return not port.get("device_id") and not self.rows.list_marked("vm", holder)


def _addresses(port: Row) -> list[str]:
    return [str(one["ip_address"]) for one in port.get("fixed_ips") or ()]


def _address_error(ip: str, port: Row, *, ours: bool) -> VMCreationFailed:
    user = port.get("device_id")
    return VMCreationFailed(
        f"address {ip} is taken",
        why=f"port {port['id']} has it" + (f", of {port.get('device_owner') or 'device'} {user}" if user else ""),
        remedy="use another address, or delete what has it",
        retryable=bool(user and ours),
    )


# -- floating addresses --


@dataclass(frozen=True, slots=True)
class FloatingIps:
    """One that the project does not have yet is allocated, and released only if we allocated it."""

    client: Client
    rows: Rows
    lookups: Lookups

    def claim(self, request: NetworkRequest, port: Row, mark: Mark) -> Row:
        """The address, if it is free for this port; allocated now, if the project does not have it."""
        row = self._find(str(request.ip))
        if row is None:
            row = self._allocate(request, mark)
        elif mark_of_description(row.get("description")) == mark and self.rows.is_part("ip", row, mark):
            # The call that allocated it ended before it was recorded.
            self.rows.parts.record_unfinished(mark, "ip", part_name("ip", row), str(row["id"]))
        if row.get("port_id") not in (None, port["id"]):
            raise CpiError(
                f"networks.{request.label}.ip {request.ip} leads to another port",
                why=f"port {row['port_id']}, address {row.get('fixed_ip_address')}",
                remedy="delete what has it, or use another address",
            )
        return row

    def attach(self, row: Row, port: Row) -> None:
        if row.get("port_id") != port["id"]:
            self._attach(row, port["id"])

    def detach(self, ports: Iterable[Row]) -> None:
        """No floating address leads to these ports any more; those that we allocated for them are released."""
        for port in ports:
            rows = self.rows.list_all("ip", port_id=port["id"])
            for row in [row for row in rows if row.get("port_id") == port["id"]]:
                mark = mark_of_description(row.get("description"))
                is_ours = mark is not None and mark.director == self.client.director_uuid
                if mark and is_ours and self.rows.is_part("ip", row, mark):
                    self.release([row])
                else:
                    self._attach(row, None)

    def release(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self.rows.delete("ip", str(row["id"]))

    def _find(self, ip: str) -> Row | None:
        rows = self.rows.list_all("ip", floating_ip_address=ip, project_id=self.client.project)
        return next((row for row in rows if row["floating_ip_address"] == ip), None)

    def _allocate(self, request: NetworkRequest, mark: Mark) -> Row:
        """Only administrators may choose an address; Neutron gives each address once."""
        body = {
            "floating_network_id": self.lookups.external_network(network_name(request))["id"],
            "floating_ip_address": request.ip,
            "description": description(mark),
        }
        try:
            return self.rows.create("ip", mark, body)
        except Refusal as error:
            found = self._find(str(request.ip))
            if found:
                return found
            raise CpiError(
                f"networks.{request.label}.ip {request.ip} is not a floating address of this project",
                why=error.text,
                remedy="allocate it to the project first; only administrators may choose an address",
            ) from error

    def _attach(self, row: Row, port: str | None) -> None:
        what, body = f"change address {row['floating_ip_address']}", {"floatingip": {"port_id": port}}
        self.client.send("PUT", what, "network", f"/floatingips/{row['id']}", body)


# -- managed networks --


@dataclass(frozen=True, slots=True)
class ManagedNetworks:
    """One network with one subnet for each that a Director manages."""

    client: Client
    rows: Rows
    writer: SingleWriter[Refusal]

    def create(self, subnet: Json, mark: Mark) -> NetworkCreated:
        for key in subnet.get("cloud_properties") or {}:
            raise InvalidCall(f"cloud_properties.{key} is not known", remedy="a managed network takes none")
        within = _range(subnet, mark)
        body = {
            "name": mark.name(),
            "description": director_tag(mark.director),
            "cidr": str(within),
            "ip_version": within.version,
            "gateway_ip": str(subnet.get("gateway") or within[1]),
        }
        bare = {key: body[key] for key in ("name", "description")}
        wanted = self.writer.submit("network", mark.intent, self.rows.create_change("network", mark, bare)).cid
        found = wait_or_remove(
            lambda: self._ensure_subnet({**body, "network_id": wanted}), lambda: self.rows.delete("network", wanted)
        )
        addresses = {"range": found["cidr"], "gateway": found["gateway_ip"], "reserved": []}
        return NetworkCreated(wanted, addresses, {"net_id": wanted})

    def delete(self, network_cid: str) -> None:
        if self.rows.read("network", network_cid) is None:
            return
        try:
            self.rows.delete("network", network_cid)
        except Refusal as error:
            if error.status != CONFLICT:
                raise
            ports = ids(self.rows.list_all("port", network_id=network_cid))
            raise CpiError(
                f"network {network_cid} cannot be deleted",
                why=f"ports on it: {', '.join(ports[:5])}" if ports else error.text,
                remedy="delete its VMs and routers first",
                retryable=True,
            ) from error

    def _ensure_subnet(self, body: Json) -> Row:
        """The call that created the network may have died before; Neutron refuses a second one of the same range."""
        found = self._find_subnet(body["network_id"])
        if found:
            return found
        try:
            created: Row = self.client.send("POST", "create a subnet", "network", "/subnets", {"subnet": body})
            return dict(created["subnet"])
        except Refusal:
            found = self._find_subnet(body["network_id"])
            if found is None:
                raise
            return found

    def _find_subnet(self, network: str) -> Row | None:
        rows: list[Row] = self.client.get("list subnets", "network", "/subnets", network_id=network)["subnets"]
        return next(iter(rows), None)


def _range(subnet: Json, mark: Mark) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """Without a range, a private one that follows from the mark, so that a repeat requests the same."""
    if not subnet.get("range"):
        return ipaddress.ip_network(_DEFAULT_RANGE.format(ord(mark.intent[-1]) % 256, ord(mark.intent[-2]) % 256))
    try:
        return ipaddress.ip_network(str(subnet["range"]))
    except ValueError as error:
        raise InvalidCall(
            f"range {subnet['range']!r} is no network", remedy=f"write it like 10.1.0.0/24: {error}"
        ) from None
