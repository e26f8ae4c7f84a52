"""The spec of one node: everything that its VM is made from. Two equal specs are one and the same machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from coterie.manifest import AzSpec, InstanceGroupSpec, NetworkSpec, SubnetSpec
from coterie.manifest.addresses import number, span_of
from coterie.manifest.spans import Span
from coterie.seal.machine import Holder, MachineSecrets, find_secrets, hide_tags, secret_name

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DiskSpec:
    size_mb: int
    cloud_properties: Mapping[str, Any]

    @staticmethod
    def of_wire(value: Mapping[str, Any]) -> DiskSpec:
        return DiskSpec(value["size_mb"], value["cloud_properties"])

    def wire(self) -> Json:
        return {"size_mb": self.size_mb, "cloud_properties": dict(self.cloud_properties)}


_RECREATE_AFTER = 3


@dataclass(frozen=True, slots=True)
class HealthSpec:
    kind: Literal["none", "tcp", "http"]
    port: int | None
    path: str
    expect: int
    interval_s: float
    timeout_s: float
    recreate_after: int = _RECREATE_AFTER  # failed checks in a row; 0: never

    @staticmethod
    def of_spec(spec: Mapping[str, Any]) -> HealthSpec | None:
        """From the stored form of a whole spec."""
        health = spec.get("health")
        beside = {"recreate_after": spec.get("recreate_after", _RECREATE_AFTER)}
        return HealthSpec(**{**beside, **health}) if health else None

    def wire(self) -> Json:
        """Two keys of a spec. Conductors of release 0.1.0 take no further field in `health`, and leave other keys
        alone: so what came later stands beside."""
        health = asdict(self)
        after = health.pop("recreate_after")
        return {"health": health, **({} if after == _RECREATE_AFTER else {"recreate_after": after})}


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """What a node shall be. Its form on the wire is stored with the node and with the steps that make it.

    `vm`, `networks` and `env` are arguments of create_vm, as the driver and BOSH shape them. `secret`: the name under
    which `env` and `user_data` are stored sealed; they are not here then. `member`: its number among the members of its
    server group in its az, for clouds where the caller chooses a failure domain; no two have the same.
    """

    az: str
    cloud: str
    stemcell: str  # name/version
    vm: Mapping[str, Any]
    networks: Mapping[str, Any]
    disk: DiskSpec | None
    env: Mapping[str, Any]
    user_data: str | None
    tags: Mapping[str, str]
    health: HealthSpec | None
    watch_s: float  # how long it may take to come up
    secret: str | None = None
    member: int | None = None

    @property
    def secrets(self) -> MachineSecrets:
        """In plain; none where they are sealed."""
        return find_secrets(self.env, self.user_data, self.tags)

    @staticmethod
    def of_wire(value: Mapping[str, Any]) -> NodeSpec:
        return NodeSpec(
            az=value["az"],
            cloud=value["cloud"],
            stemcell=value["stemcell"],
            vm=value["vm"],
            networks=value["networks"],
            disk=DiskSpec.of_wire(value["disk"]) if value["disk"] else None,
            env=value.get("env", {}),
            user_data=value.get("user_data"),
            tags=value["tags"],
            health=HealthSpec.of_spec(value),
            watch_s=value["watch_s"],
            secret=value.get("secret"),
            member=value.get("member"),
        )

    def wire(self) -> Json:
        """Without `env` where it is sealed: a release that does not know of that must fail, not leave it out."""
        plain = {"env": dict(self.env), "user_data": self.user_data}
        return {
            "az": self.az,
            "cloud": self.cloud,
            "stemcell": self.stemcell,
            "vm": dict(self.vm),
            "networks": dict(self.networks),
            "disk": self.disk.wire() if self.disk else None,
            **(plain if self.secret is None else {"secret": self.secret}),
            "tags": dict(self.tags),
            **(self.health.wire() if self.health else {"health": None}),
            "watch_s": self.watch_s,
            **({} if self.member is None else {"member": self.member}),
        }


def seal_spec(spec: NodeSpec, holder: Holder) -> NodeSpec:
    """The same with its secrets by name."""
    secrets = spec.secrets
    if not secrets:
        return spec
    tags = hide_tags(spec.tags, secrets)
    return replace(spec, env={}, user_data=None, tags=tags, secret=secret_name(holder, secrets))


class SpecMaker:
    """Makes the specs of one instance group; what its nodes share is worked out once. `holder`: of secrets that are
    sealed; None: they stay in plain."""

    def __init__(self, group: InstanceGroupSpec, stemcell: str, holder: Holder | None) -> None:
        self._group = group
        self._holder = holder
        self._sealed: NodeSpec | None = None
        self._stemcell = stemcell
        self._azs: dict[str, AzSpec] = {az.name: az for az in group.azs}
        self._networks = {az.name: [_Network(network, az.name) for network in group.networks] for az in group.azs}
        self._disk = DiskSpec(group.disk.size_mb, group.disk.cloud_properties) if group.disk else None
        self._health = _health(group)

    def make(
        self, az: str, addresses: Mapping[str, str], *, canary: bool = False, member: int | None = None
    ) -> NodeSpec:
        group, update = self._group, self._group.update
        made = NodeSpec(
            az=az,
            cloud=self._azs[az].cloud,
            stemcell=self._stemcell,
            vm=self._azs[az].vm_properties,
            networks={network.name: network.entry(addresses.get(network.name)) for network in self._networks[az]},
            disk=self._disk,
            env=group.env,
            user_data=group.user_data,
            tags=group.tags,
            health=self._health,
            watch_s=update.canary_watch_s if canary else update.update_watch_s,
            member=member,
        )
        if self._holder is None:
            return made
        self._sealed = self._sealed or seal_spec(made, self._holder)
        sealed = self._sealed
        return replace(made, env=sealed.env, user_data=sealed.user_data, tags=sealed.tags, secret=sealed.secret)

    def secret_of(self, holder: Holder) -> str | None:
        """The name that the secrets of this group have if they are of this holder."""
        group = self._group
        secrets = find_secrets(group.env, group.user_data, group.tags)
        return secret_name(holder, secrets) if secrets else None


# What a difference means. Fields that are in none of these never reach the cloud.
_NEEDS_NEW_VM = ("az", "stemcell", "vm", "networks", "env", "user_data", "secret")
_IN_PLACE = ("tags", "health")


def reasons_to_recreate(now: NodeSpec, wanted: NodeSpec) -> list[str]:
    return _differences(_NEEDS_NEW_VM, now, wanted)


def reasons_to_update(now: NodeSpec, wanted: NodeSpec) -> list[str]:
    return _differences(_IN_PLACE, now, wanted)


def _differences(fields: tuple[str, ...], now: NodeSpec, wanted: NodeSpec) -> list[str]:
    return [_difference(name, now, wanted) for name in fields if getattr(now, name) != getattr(wanted, name)]


def _difference(field: str, now: NodeSpec, wanted: NodeSpec) -> str:
    match field:
        case "stemcell":
            old, new = now.stemcell, wanted.stemcell
            if old.rpartition("/")[0] == new.rpartition("/")[0]:
                new = new.rpartition("/")[2]
            return f"stemcell {old} → {new}"
        case "az":
            return f"az {now.az} → {wanted.az}"
        case "vm":
            return f"vm type: {_keys(now.vm, wanted.vm)}"
        case "tags":
            return f"tags: {_keys(now.tags, wanted.tags)}"
        case "networks":
            return _network_difference(now.networks, wanted.networks)
        case "health":
            return "health check changed"
        case "secret":
            return "env or user data changed"
    return f"{field.replace('_', ' ')} changed"


def _keys(now: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    changed = sorted(key for key in now.keys() | wanted.keys() if now.get(key) != wanted.get(key))
    shown = [f"{key} {now.get(key, '–')} → {wanted.get(key, '–')}" for key in changed[:3]]
    return ", ".join(shown) + (", …" if len(changed) > 3 else "")


def _network_difference(now: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    for name in sorted(now.keys() | wanted.keys()):
        old, new = now.get(name), wanted.get(name)
        if old == new:
            continue
        if old is None or new is None:
            return f"network {name} {'added' if old is None else 'removed'}"
        if old.get("ip") != new.get("ip"):
            return f"address in {name} {old.get('ip')} → {new.get('ip')}"
        return f"network {name} changed"
    return "networks changed"


def _health(group: InstanceGroupSpec) -> HealthSpec | None:
    health = group.health
    if health.kind == "none":
        return None
    times = (health.interval_s, health.timeout_s, health.recreate_after)
    return HealthSpec(health.kind, health.port, health.path, health.expect, *times)


class _Network:
    """Entries of the `networks` argument of create_vm, as BOSH shapes them; all but the address is worked out once."""

    def __init__(self, network: NetworkSpec, az: str) -> None:
        self.name = network.name
        self._type = network.type
        self._default = list(network.default)
        self._subnets = [(_shape(subnet), _span(subnet)) for subnet in network.by_az[az]]

    def entry(self, ip: str | None) -> Json:
        entry: Json = {"type": self._type, **self._shape(ip)}
        if self._default:
            entry["default"] = self._default
        if ip is not None:
            entry["ip"] = ip
        return entry

    def _shape(self, ip: str | None) -> Json:
        if ip is not None and self._type == "manual":
            value = number(ip)
            for shape, span in self._subnets:
                if span is not None and span.first <= value <= span.last:
                    return shape
        return self._subnets[0][0]


def _shape(subnet: SubnetSpec) -> Json:
    shape: Json = {"cloud_properties": dict(subnet.cloud_properties)}
    if subnet.dns:
        shape["dns"] = list(subnet.dns)
    if subnet.range:
        shape.update(netmask=subnet.netmask, prefix=subnet.range.rpartition("/")[2], gateway=subnet.gateway)
    return shape


def _span(subnet: SubnetSpec) -> Span | None:
    return span_of(subnet.range) if subnet.range else None
