"""What users may write for this driver: the properties of a cloud, and the cloud_properties of VMs, disks and networks.
Read and checked at once; a mistake is named by its field. Touches no cloud."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie.cpi.contract import Form, PropertyMistake
from coterie.cpi.kit import readers
from coterie.cpi.kit.readers import mapping, readers_of, size, text, whole

GROUP_POLICIES = ("anti-affinity", "soft-anti-affinity")
_VOLUME_TYPES = ("gp3", "gp2", "io1", "io2", "st1", "sc1", "standard")
_SOURCES = ("environment", "instance")


@dataclass(frozen=True, slots=True)
class Settings:
    """Every property by its name; docs/aws.md says what each is for."""

    region: str = ""
    access_key_id: str | None = None
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    profile: str | None = None
    credentials_source: str | None = None
    role_arn: str | None = None
    external_id: str | None = None
    endpoint: str | None = None
    ca_cert: str | None = None
    proxy_url: str | None = field(default=None, repr=False)
    default_availability_zone: str | None = None
    default_subnet: str | None = None
    default_security_groups: tuple[str, ...] = ()
    default_key_name: str | None = None
    default_iam_instance_profile: str | None = None
    encrypted: bool = False
    kms_key_arn: str | None = None
    partition_count: int = 7
    policies: frozenset[str] = frozenset(GROUP_POLICIES)
    connect_timeout: float = 10.0
    request_timeout: float = 60.0
    retries: int = 5
    state_timeout: float = 900.0
    poll_s: float = 2.0
    settle_s: float = 300.0
    page_size: int = 1000
    max_parallel_calls: int = 16
    keep: tuple[str, ...] = ()
    agent: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class VolumeSpec:
    """A volume that comes and goes with its VM; `size` in GiB."""

    size: int
    type: str = "gp3"
    iops: int | None = None
    throughput: int | None = None


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
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DiskSpec:
    type: str = "gp3"
    iops: int | None = None
    throughput: int | None = None
    availability_zone: str | None = None


def read_settings(properties: Mapping[str, Any]) -> Settings:
    """The settings of the cloud, with defaults for what the properties leave out."""
    return Settings(**CLOUD.read(properties, "properties"))


def read_vm_spec(properties: Mapping[str, Any]) -> VmSpec:
    return VmSpec(**VM.read(properties, "cloud_properties"))


def read_disk_spec(properties: Mapping[str, Any]) -> DiskSpec:
    return DiskSpec(**DISK.read(properties, "cloud_properties"))


def _read_volume(value: Any) -> VolumeSpec:
    given = mapping(value)
    if set(given) - {"size", "type", "iops", "throughput"} or "size" not in given:
        raise ValueError("write {size: GIB} or {size: GIB, type: gp3, iops: NUMBER, throughput: MIB_PER_S}")
    numbers = {key: size(given[key]) for key in ("size", "iops", "throughput") if given.get(key) is not None}
    return VolumeSpec(type=readers.one_of(*_VOLUME_TYPES)(given.get("type", "gp3")), **numbers)


def _read_tags(value: Any) -> dict[str, str]:
    found = readers.pairs(value)
    if any(key.startswith(("coterie-", "aws:")) for key in found):
        raise ValueError("use keys that begin neither with coterie- nor with aws:")
    return found


def _check_cloud(values: Mapping[str, Any]) -> Iterable[PropertyMistake]:
    """Where credentials come from is always said: on a machine of AWS the usual chain would take the machine's own."""
    static = "access_key_id" in values or "secret_access_key" in values
    ways = [name for name in ("profile", "credentials_source") if name in values] + (
        ["access_key_id"] if static else []
    )
    if not ways:
        remedy = "give access_key_id and secret_access_key, a profile, or credentials_source: environment or instance"
        yield PropertyMistake("access_key_id", "is missing", remedy)
    elif len(ways) > 1:
        yield PropertyMistake(ways[0], f"stands beside {', '.join(ways[1:])}", "say one way to get credentials only")
    elif static and not ("access_key_id" in values and "secret_access_key" in values):
        yield PropertyMistake("secret_access_key", "or access_key_id is missing", "give both of them")
    if "external_id" in values and "role_arn" not in values:
        yield PropertyMistake("external_id", "has no role_arn", "name the role that it is for")


CLOUD = Form(
    readers_of(
        Settings,
        credentials_source=readers.one_of(*_SOURCES),
        endpoint=readers.url,
        proxy_url=readers.proxy_url,
        partition_count=whole(1, 7),
        policies=readers.some_of(*GROUP_POLICIES),
        retries=whole(0, 100),
        page_size=whole(5, 1000),
        max_parallel_calls=whole(1, 1000),
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
)
VM = Form(
    readers_of(
        VmSpec,
        root_disk=_read_volume,
        ephemeral_disk=_read_volume,
        tenancy=readers.one_of("default", "dedicated"),
        tags=_read_tags,
    ),
    needed={"instance_type": "name a type like t3.small"},
    example={"instance_type": "t3.small"},
)
DISK = Form(readers_of(DiskSpec, type=readers.one_of(*_VOLUME_TYPES), iops=size, throughput=size))
NETWORK = Form(
    {"subnet": text, "security_groups": readers.texts, "vpc": text, "availability_zone": text},
    example={"subnet": "subnet-0123456789abcdef0"},
)
