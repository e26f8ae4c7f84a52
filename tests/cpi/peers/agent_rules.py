"""What a BOSH agent demands of its settings before it obeys a Director. The rules are those of the agent's sources
(settings, applyspec, interface configuration); every driver's settings are held against them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

TWO_NICS_AND_A_VIP = {
    "front": {"type": "manual", "default": ["dns", "gateway"], "dns": ["203.0.113.53"], "prefix": "32"},
    "back": {"type": "dynamic"},
    "public": {"type": "vip"},
}
AGENT = {
    "mbus": "https://mbus:hidden@0.0.0.0:6868",
    "ntp": ["time.example"],
    "blobstore": {"provider": "local", "options": {"blobstore_path": "/var/vcap/micro_bosh/data/cache"}},
}


def broken_rules(settings: Mapping[str, Any], requested: Mapping[str, Any], macs: Collection[str]) -> list[str]:
    """Empty where a real agent starts and takes the Director's spec. `requested`: the networks argument of create_vm;
    `macs`: those that the VM's NICs have."""
    return [
        *_identity(settings),
        *_networks(settings.get("networks") or {}, requested, macs),
        *_disks(settings.get("disks") or {}),
        *_services(settings),
    ]


def _identity(settings: Mapping[str, Any]) -> Iterator[str]:
    if not settings.get("agent_id"):
        yield "agent_id is empty"
    if not (settings.get("vm") or {}).get("name"):
        yield "vm.name is empty"


def _networks(told: Mapping[str, Any], requested: Mapping[str, Any], macs: Collection[str]) -> Iterator[str]:
    yield from (f"network {name} is not found in settings" for name in requested if name not in told)
    plugged = {name: spec for name, spec in told.items() if spec.get("type") != "vip"}
    for name, spec in plugged.items():
        mac = spec.get("mac")
        if mac and mac not in macs:
            yield f"no device found for network {name} with MAC {mac}"
        if not mac and len(macs) > 1:
            yield f"network {name} has no MAC, so it is on none of {len(macs)} NICs"
        uses_dhcp = (
            spec.get("type") == "dynamic" or spec.get("use_dhcp") or not (spec.get("ip") and spec.get("netmask"))
        )
        if not uses_dhcp and not mac:
            yield f"network {name} is static and has no MAC"
    for category in ("dns", "gateway"):
        wanted = {name for name, spec in requested.items() if category in (spec.get("default") or ())}
        given = {name for name, spec in told.items() if category in (spec.get("default") or ())}
        if wanted != given or (len(plugged) > 1 and not given):
            yield f"default network for {category}: {given}, not {wanted}"
    for name, spec in requested.items():
        if spec.get("dns") and told.get(name, {}).get("dns") != spec["dns"]:
            yield f"network {name} lacks its name servers"
        if spec.get("type") == "vip" and told.get(name, {}).get("ip") != spec.get("ip"):
            yield f"network {name} lacks its address"


def _disks(told: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(told.get("system"), str) or not told["system"]:
        yield "disks.system is no text"
    if not isinstance(told.get("ephemeral"), str | dict | None):
        yield "disks.ephemeral is neither a text nor a mapping"
    if not isinstance(told.get("persistent"), dict):
        yield "disks.persistent is no mapping"


def _services(settings: Mapping[str, Any]) -> Iterator[str]:
    bosh = (settings.get("env") or {}).get("bosh") or {}
    if not ((bosh.get("mbus") or {}).get("urls") or settings.get("mbus")):
        yield "neither env.bosh.mbus.urls nor mbus"
    blobstore = next(iter(bosh.get("blobstores") or ()), settings.get("blobstore") or {})
    if not blobstore.get("provider"):
        yield "neither env.bosh.blobstores nor blobstore"
    if not (bosh.get("ntp") or settings.get("ntp")):
        yield "neither env.bosh.ntp nor ntp"
