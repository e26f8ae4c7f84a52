"""The settings of the agent inside a VM, as one JSON document: complete, so that the agent needs no registry. Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from coterie.cpi.contract import InvalidCall, Json, Networks
from coterie.cpi.kit.create_vm import CreateVmArgs
from coterie.slotted import dataclass, field

_OF_THE_CLOUD = ("mbus", "ntp", "blobstore")  # what properties.agent may say for all VMs of a cloud


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """`networks`: as they are written for the agent. `requested_networks`: the argument of create_vm, for name servers.
    `disks`: the disks that the VM is born with. `keys`: public SSH keys. `cloud`: the cloud's `properties.agent`.
    `more`: further top-level keys."""

    agent_id: str
    vm_name: str
    networks: Json
    requested_networks: Networks
    disks: Json
    env: Json
    keys: Sequence[str] = ()
    cloud: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)

    def document(self) -> Json:
        """An env with `bosh.registry` is for old agents: where the registry is, and the VM's name there, go beside
        `env`, where those agents look for them."""
        env, registry = _without_registry(self.env)
        return {
            "agent_id": self.agent_id,
            "vm": {"name": self.vm_name},
            "server": {"name": registry.get("instance") or self.vm_name},
            "networks": self.networks,
            "disks": {**self.disks, "persistent": {}},
            "env": _with_keys(env, self.keys),
            "dns": {"nameserver": [one for spec in self.requested_networks.values() for one in spec.get("dns") or ()]},
            **({"registry": {"endpoint": registry["endpoint"]}} if registry.get("endpoint") else {}),
            **{key: value for key, value in self.cloud.items() if key in _OF_THE_CLOUD},
            **self.more,
        }


def dhcp_settings(
    args: CreateVmArgs[Any], disks: Json, agent: Mapping[str, Any], *, most: int, cloud: str, keys: Sequence[str] = ()
) -> bytes:
    """The document for a VM that is named by its mark, and asks for its addresses by DHCP. Sorted, so that a repeat is
    the same. `agent`: the cloud's `properties.agent`; `most`: as many bytes as the cloud takes, refused before anything
    is created."""
    document = AgentSettings(
        agent_id=args.agent_id,
        vm_name=args.mark.name(),
        networks={label: {**spec, "use_dhcp": True} for label, spec in args.networks.items()},
        requested_networks=args.networks,
        disks=disks,
        env=args.env,
        keys=keys,
        cloud=agent,
    ).document()
    raw = json.dumps(document, separators=(",", ":"), sort_keys=True).encode()
    if len(raw) > most:
        raise InvalidCall(f"the agent's settings have {len(raw)} bytes, {cloud} takes {most}", remedy="shorten env")
    return raw


def agent_networks(networks: Networks, macs: Mapping[str, str | None], *, use_dhcp: bool | None = None) -> Json:
    """All networks of create_vm, vip ones included: an agent refuses a spec with a network that it was not told of.
    `macs`: by label, of those that have a NIC. With two NICs an agent finds by them which network is on which."""
    return {label: {**spec, **_nic(label, macs, use_dhcp)} for label, spec in networks.items()}


def _nic(label: str, macs: Mapping[str, str | None], use_dhcp: bool | None) -> Json:
    if label not in macs:
        return {}
    mac = macs[label]
    return {**({"mac": mac} if mac else {}), **({} if use_dhcp is None else {"use_dhcp": use_dhcp})}


def compact_json(document: Json) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def base64_text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _without_registry(env: Json) -> tuple[Json, Mapping[str, str]]:
    bosh = dict(env.get("bosh") or {})
    registry = bosh.pop("registry", None) or {}
    return ({**env, "bosh": bosh} if registry else dict(env)), registry


def _with_keys(env: Mapping[str, Any], keys: Sequence[str]) -> Json:
    if not keys:
        return dict(env)
    bosh = dict(env.get("bosh") or {})
    bosh["authorized_keys"] = [*(bosh.get("authorized_keys") or ()), *keys]
    return {**env, "bosh": bosh}
