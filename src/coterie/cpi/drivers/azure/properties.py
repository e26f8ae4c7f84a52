"""What users may write for this driver: the properties of a cloud, and the cloud_properties of VMs, disks and networks.
Names are those of the BOSH Azure CPI where they mean the same. Touches no cloud."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from coterie.cpi.contract import Form, PropertyMistake
from coterie.cpi.kit import readers
from coterie.cpi.kit.disks import gib
from coterie.cpi.kit.readers import mapping, one_of, readers_of, size, whole
from coterie.cpi.kit.settings import HttpSettings
from coterie.slotted import dataclass, field

SET_POLICIES = ("anti-affinity", "soft-anti-affinity")
POLICIES = (*SET_POLICIES, "host-affinity")
SCALE_SETS = "scale-set"  # of `spread`
_DATA_DISKS = ("PremiumV2_LRS", "UltraSSD_LRS")
_DISK_TYPES = ("Standard_LRS", "StandardSSD_LRS", "StandardSSD_ZRS", "Premium_LRS", "Premium_ZRS", *_DATA_DISKS)
_CACHING = ("None", "ReadOnly", "ReadWrite")
_PLACEMENT = "say placement.policy and placement.server_group in the instance group"


@dataclass(frozen=True, slots=True)
class Settings(HttpSettings):
    """Every property by its name; docs/azure.md says what each is for."""

    tenant_id: str = ""
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    certificate: str | None = field(default=None, repr=False)
    federated_token_file: str | None = None
    managed_identity: bool = False
    subscription_id: str = ""
    resource_group: str = ""
    location: str = ""
    environment: str = "public"
    authority: str | None = None
    scope: str | None = None
    default_subnet: str | None = None
    default_security_group: str | None = None
    default_application_security_groups: tuple[str, ...] = ()
    ssh_user: str = "vcap"
    ssh_public_key: str = ""
    spread: str = "availability-set"
    scale_set_zones: tuple[str, ...] = ()
    fault_domains: int = 2
    update_domains: int = 5
    policies: frozenset[str] = frozenset(SET_POLICIES)
    state_timeout: float = 1800.0
    poll_s: float = 5.0


@dataclass(frozen=True, slots=True)
class VolumeSpec:
    """A disk that comes and goes with its VM; `size` in GiB, though users write MiB as for the BOSH Azure CPI."""

    size: int
    type: str = "Premium_LRS"


@dataclass(frozen=True, slots=True)
class VmSpec:
    instance_type: str
    availability_zone: str | None = None
    root_disk: VolumeSpec | None = None
    ephemeral_disk: VolumeSpec | None = None
    caching: str = "ReadWrite"
    security_group: str | None = None
    application_security_groups: tuple[str, ...] = ()
    accelerated_networking: bool = False
    ip_forwarding: bool = False
    public_key: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DiskSpec:
    type: str = "Premium_LRS"
    caching: str = "None"
    availability_zone: str | None = None
    iops: int | None = None
    mbps: int | None = None


@dataclass(frozen=True, slots=True)
class NetworkSpec:
    virtual_network_name: str | None = None
    subnet_name: str | None = None
    resource_group_name: str | None = None
    security_group: str | None = None
    application_security_groups: tuple[str, ...] = ()


def read_settings(properties: Mapping[str, Any]) -> Settings:
    """The settings of the cloud, with defaults for what the properties leave out."""
    found = CLOUD.read(properties, "properties")
    if found.get("spread") == SCALE_SETS:
        found.setdefault("policies", frozenset({"soft-anti-affinity"}))
    return Settings(**found)


def read_vm_spec(properties: Mapping[str, Any]) -> VmSpec:
    return VmSpec(**VM.read(properties, "cloud_properties"))


def read_disk_spec(properties: Mapping[str, Any]) -> DiskSpec:
    return DiskSpec(**DISK.read(properties, "cloud_properties"))


def _read_volume(value: Any) -> VolumeSpec:
    given = mapping(value)
    if set(given) - {"size", "type"} or "size" not in given:
        raise ValueError("write {size: MIB} or {size: MIB, type: Premium_LRS}")
    type_ = one_of(*_DISK_TYPES)(given.get("type", "Premium_LRS"))
    if type_ in _DATA_DISKS:
        raise ValueError(f"use another type: Azure takes {type_} for data disks only")
    return VolumeSpec(gib(size(given["size"])), type_)


def _read_tags(value: Any) -> dict[str, str]:
    found = readers.pairs(value)
    if any(key.lower().startswith("coterie-") or set(key) & set("<>%&\\?/") for key in found):
        raise ValueError("use keys that do not begin with coterie- and have none of < > % & \\ ? /")
    return found


def _read_subnet(value: Any) -> str:
    """NETWORK/SUBNET, or GROUP/NETWORK/SUBNET."""
    if isinstance(value, str) and len(value.split("/")) in (2, 3) and all(value.split("/")):
        return value
    raise ValueError("write NETWORK/SUBNET, or RESOURCE_GROUP/NETWORK/SUBNET")


def _check_cloud(values: Mapping[str, Any]) -> Iterable[PropertyMistake]:
    """Who calls is always said: on a machine of Azure the usual chain would take the machine's own identity."""
    ways = [name for name in ("client_secret", "certificate", "federated_token_file") if name in values]
    ways += ["managed_identity"] if values.get("managed_identity") else []
    remedy = "give client_secret, certificate, federated_token_file, or managed_identity: true"
    if len(ways) != 1:
        yield PropertyMistake(
            ways[0] if ways else "client_secret", "is not the only one" if ways else "is missing", remedy
        )
    elif ways != ["managed_identity"]:
        for key in ("tenant_id", "client_id"):
            if key not in values:
                yield PropertyMistake(key, "is missing", f"name it: {ways[0]} belongs to an application of a tenant")

    if values.get("spread") == SCALE_SETS:
        if set(values.get("policies", ())) - {"soft-anti-affinity"}:
            why = "names more than soft-anti-affinity, which is all that scale sets promise"
            yield PropertyMistake("policies", why, "name the others in a cloud with spread: availability-set")
    elif values.get("scale_set_zones"):
        yield PropertyMistake("scale_set_zones", "is set without spread: scale-set", "set spread, or leave it out")


CLOUD = Form(
    readers_of(
        Settings,
        environment=one_of("public", "usgov", "china"),
        authority=readers.url,
        default_subnet=_read_subnet,
        spread=one_of("availability-set", SCALE_SETS),
        scale_set_zones=readers.some_of("1", "2", "3"),
        fault_domains=whole(1, 3),
        update_domains=whole(1, 20),
        policies=readers.some_of(*POLICIES),
    ),
    needed={
        "subscription_id": "name the subscription by its id",
        "resource_group": "name the resource group that everything goes into",
        "location": "name the region, like westeurope",
        "ssh_public_key": "give the public key of ssh_user: Azure makes no Linux VM without one",
    },
    between=_check_cloud,
    secret=True,
    public=frozenset(
        {
            *("tenant_id", "client_id", "subscription_id", "resource_group", "location", "environment", "authority"),
            *("endpoint", "scope", "default_subnet", "default_security_group", "ssh_user", "ssh_public_key"),
            *("default_application_security_groups", "policies", "keep", "managed_identity"),
            *("spread", "scale_set_zones"),
        }
    ),
    example={
        "tenant_id": "TENANT",
        "client_id": "APPLICATION",
        "client_secret": "SECRET",
        "subscription_id": "SUBSCRIPTION",
        "resource_group": "machines",
        "location": "westeurope",
        "default_subnet": "network/subnet",
        "ssh_public_key": "ssh-ed25519 AAAA…",
    },
)
VM = Form(
    readers_of(
        VmSpec,
        availability_zone=one_of("1", "2", "3"),
        root_disk=_read_volume,
        ephemeral_disk=_read_volume,
        caching=one_of(*_CACHING),
        tags=_read_tags,
    ),
    needed={"instance_type": "name a size like Standard_D2s_v5"},
    example={"instance_type": "Standard_D2s_v5"},
    unsupported={
        "availability_set": ("server groups have a life of their own", _PLACEMENT),
        "platform_fault_domain_count": ("it is the cloud's", "set properties.fault_domains"),
        "platform_update_domain_count": ("it is the cloud's", "set properties.update_domains"),
        "load_balancer": ("balancers are not this driver's business", "add the VMs to it by their addresses"),
        "storage_account_type": ("disks have types of their own", "write root_disk: {size: MIB, type: TYPE}"),
        "storage_account_name": ("all disks are managed disks", "leave it out"),
        "assign_dynamic_public_ip": ("addresses are never made", "make one, and name it in a network of type vip"),
    },
)
DISK = Form(
    readers_of(
        DiskSpec,
        type=one_of(*_DISK_TYPES),
        caching=one_of(*_CACHING),
        availability_zone=one_of("1", "2", "3"),
        iops=size,
        mbps=size,
    )
)
NETWORK = Form(readers_of(NetworkSpec), example={"virtual_network_name": "network", "subnet_name": "subnet"})
