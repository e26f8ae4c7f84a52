"""What users may write for this driver: the properties of a cloud, and the cloud_properties of VMs, disks and networks.
Read and checked at once; a mistake is named by its field. Touches no cloud."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from coterie.cpi.contract import Form, PropertyMistake
from coterie.cpi.kit import readers
from coterie.cpi.kit.readers import nested, readers_of, size, text, whole
from coterie.cpi.kit.settings import HttpSettings
from coterie.slotted import dataclass, field

GROUP_POLICIES = ("anti-affinity", "soft-anti-affinity")
HOST_POLICY = "host-affinity"  # only where `policies` names it: dedicated hosts are paid for
_VOLUME_TYPES = ("gp3", "gp2", "io1", "io2", "st1", "sc1", "standard")
_SOURCES = ("static", "environment", "instance")


@dataclass(frozen=True, slots=True)
class Settings(HttpSettings):
    """Every property by its name; docs/aws.md says what each is for."""

    region: str = ""
    access_key_id: str | None = None
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    profile: str | None = None
    credentials_source: str | None = None
    role_arn: str | None = None
    external_id: str | None = None
    default_availability_zone: str | None = None
    default_subnet: str | None = None
    default_security_groups: tuple[str, ...] = ()
    default_key_name: str | None = None
    default_iam_instance_profile: str | None = None
    encrypted: bool = False
    kms_key_arn: str | None = None
    metadata_options: Mapping[str, Any] = field(default_factory=dict)
    partition_count: int = 7
    policies: frozenset[str] = frozenset(GROUP_POLICIES)
    settle_s: float = 300.0
    page_size: int = 1000


@dataclass(frozen=True, slots=True)
class VolumeSpec:
    """A volume that comes and goes with its VM; `size` in MiB, as everywhere."""

    size: int
    type: str = "gp3"
    iops: int | None = None
    throughput: int | None = None
    encrypted: bool | None = None
    kms_key_arn: str | None = None


@dataclass(frozen=True, slots=True)
class VmSpec:
    instance_type: str
    availability_zone: str | None = None
    key_name: str | None = None
    public_key: str | None = None
    iam_instance_profile: str | None = None
    security_groups: tuple[str, ...] = ()
    root_disk: VolumeSpec | None = None
    ephemeral_disk: VolumeSpec | None = None
    tenancy: str | None = None
    metadata_options: Mapping[str, Any] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DiskSpec:
    type: str = "gp3"
    iops: int | None = None
    throughput: int | None = None
    encrypted: bool | None = None
    kms_key_arn: str | None = None
    availability_zone: str | None = None


def read_settings(properties: Mapping[str, Any]) -> Settings:
    """The settings of the cloud, with defaults for what the properties leave out."""
    return Settings(**CLOUD.read(properties, "properties"))


def read_vm_spec(properties: Mapping[str, Any]) -> VmSpec:
    return VmSpec(**VM.read(properties, "cloud_properties"))


def read_disk_spec(properties: Mapping[str, Any]) -> DiskSpec:
    return DiskSpec(**DISK.read(properties, "cloud_properties"))


def _read_tags(value: Any) -> dict[str, str]:
    found = readers.pairs(value)
    if any(key.startswith(("coterie-", "aws:")) for key in found):
        raise ValueError("use keys that begin neither with coterie- nor with aws:")
    return found


def _check_cloud(values: Mapping[str, Any]) -> Iterable[PropertyMistake]:
    """Where credentials come from is always said: on a machine of AWS the usual chain would take the machine's own."""
    source = values.get("credentials_source")
    static = "access_key_id" in values or "secret_access_key" in values or source == "static"
    named = {"profile": "profile" in values, "credentials_source": source not in (None, "static")}
    ways = [name for name, is_named in {**named, "access_key_id": static}.items() if is_named]
    if not ways:
        remedy = "give access_key_id and secret_access_key, a profile, or credentials_source: environment or instance"
        yield PropertyMistake("access_key_id", "is missing", remedy)
    elif len(ways) > 1:
        yield PropertyMistake(ways[0], f"stands beside {', '.join(ways[1:])}", "say one way to get credentials only")
    elif static and not ("access_key_id" in values and "secret_access_key" in values):
        yield PropertyMistake("secret_access_key", "or access_key_id is missing", "give both of them")
    if "kms_key_arn" in values and not values.get("encrypted"):
        yield PropertyMistake("kms_key_arn", "has no effect", "say encrypted: true beside it")
    if "external_id" in values and "role_arn" not in values:
        yield PropertyMistake("external_id", "has no role_arn", "name the role that it is for")


def _with_encryption(values: Mapping[str, Any]) -> Iterable[PropertyMistake]:
    if "kms_key_arn" in values and values.get("encrypted") is False:
        yield PropertyMistake("kms_key_arn", "has no effect", "leave it out, or encrypted: false")


_PARTS = {
    "type": readers.one_of(*_VOLUME_TYPES),
    "iops": size,
    "throughput": size,
    "encrypted": readers.flag,
    "kms_key_arn": text,
}
_VOLUME = nested(Form({"size": size, **_PARTS}, needed={"size": "give a number of MiB"}), VolumeSpec)
_SWITCH = readers.one_of("enabled", "disabled")
_METADATA_OPTIONS = nested(
    Form(
        {
            "http_tokens": readers.one_of("required", "optional"),
            "http_endpoint": _SWITCH,
            "http_put_response_hop_limit": whole(1, 64),
            "http_protocol_ipv6": _SWITCH,
            "instance_metadata_tags": _SWITCH,
        }
    ),
    dict,
)
_NO_BALANCER = "load balancers are not registered"
_NO_SPOT = "a spot instance is taken away at any time, and a repeated request for one may cost twice"
CLOUD = Form(
    readers_of(
        Settings,
        credentials_source=readers.one_of(*_SOURCES),
        partition_count=whole(1, 7),
        metadata_options=_METADATA_OPTIONS,
        policies=readers.some_of(*GROUP_POLICIES, HOST_POLICY),
        page_size=whole(5, 1000),
    ),
    needed={"region": "name a region like eu-central-1"},
    between=_check_cloud,
    secret=True,
    public=frozenset(
        {
            *("region", "endpoint", "profile", "credentials_source", "role_arn", "default_availability_zone"),
            *("default_subnet", "default_security_groups", "default_key_name", "default_iam_instance_profile"),
            *("kms_key_arn", "policies", "keep"),
        }
    ),
    example={"region": "eu-central-1", "access_key_id": "ID", "secret_access_key": "SECRET"},
    unsupported={
        "max_retries": ("what changes something is sent once", "use retries, which repeats questions"),
        "ec2_endpoint": ("one address serves all services", "use endpoint, with its scheme"),
        "elb_endpoint": (_NO_BALANCER, "leave it out"),
        "connection_options": ("it only holds certificates", "use ca_cert"),
        "fast_path_delete": ("a deleted VM is waited for", "leave it out"),
        "stemcell": ("images are hardware virtual machines", "leave it out"),
    },
)
VM = Form(
    readers_of(
        VmSpec,
        root_disk=_VOLUME,
        ephemeral_disk=_VOLUME,
        tenancy=readers.one_of("default", "dedicated"),
        metadata_options=_METADATA_OPTIONS,
        tags=_read_tags,
    ),
    unsupported={
        "placement_group": (
            "server groups place VMs",
            "write placement: {policy: POLICY, server_group: NAME, adopt: true} into the instance group",
        ),
        "spot_bid_price": (_NO_SPOT, "leave it out"),
        "spot_ondemand_fallback": (_NO_SPOT, "leave it out"),
        "elbs": (_NO_BALANCER, "have the VMs register themselves, or a target group by tag"),
        "lb_target_groups": (_NO_BALANCER, "have the VMs register themselves, or a target group by tag"),
        "auto_assign_public_ip": ("AWS takes such an address away when the VM stops", "use a vip network"),
        "advertised_routes": ("route tables are not changed", "have an operator write the routes"),
        "source_dest_check": ("it is changed after the creation only", "have an operator change it on the instance"),
        "raw_instance_storage": ("instance storage is not mapped", "use ephemeral_disk"),
    },
    needed={"instance_type": "name a type like t3.small"},
    example={"instance_type": "t3.small"},
)
DISK = Form({**_PARTS, "availability_zone": text}, between=_with_encryption)
NETWORK = Form(
    {"subnet": text, "security_groups": readers.texts, "vpc": text, "availability_zone": text},
    example={"subnet": "subnet-0123456789abcdef0"},
)
