"""Objects of EC2 as rows: how each kind is listed and read, and the tags and marks on them. The filters of a cloud are
never believed: some ignore one that they do not know."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from coterie.cpi.contract import CpiError, InvalidCall, Kind, Mark, OutcomeUnknown
from coterie.cpi.drivers.aws.client import Client, Refusal, Row
from coterie.cpi.kit.create_once import wait_or_remove
from coterie.cpi.kit.marking import mark_tags, metadata_tags, read_mark_tags
from coterie.slotted import dataclass, field

T = TypeVar("T")
Listed = Kind | Literal["interface", "address", "vpc", "zone", "host", "instance_type", "modification"]
_LONGEST_KEY, _LONGEST_VALUE = 127, 255
_GOING = ("shutting-down", "terminated", "deleting", "deleted", "deregistered")
_BROKEN = ("error", "failed", "invalid")


@dataclass(frozen=True, slots=True)
class _Listing:
    """`operation`, the key of its answer, and what a row's id is called. `own`: what restricts a list to this account,
    where no id is asked for. `id_filter` may be empty. `most`: rows that EC2 gives in one page; 0: it has no pages."""

    operation: str
    key: str
    id: str
    id_filter: str
    own: Mapping[str, Any] = field(default_factory=dict)
    most: int = 1000


LISTINGS: Mapping[Listed, _Listing] = {
    "vm": _Listing("describe_instances", "Reservations", "InstanceId", "instance_id"),
    "disk": _Listing("describe_volumes", "Volumes", "VolumeId", "volume_id"),
    "snapshot": _Listing("describe_snapshots", "Snapshots", "SnapshotId", "snapshot_id", {"OwnerIds": ["self"]}),
    "image": _Listing("describe_images", "Images", "ImageId", "image_id", {"Owners": ["self"]}),
    "security_group": _Listing("describe_security_groups", "SecurityGroups", "GroupId", "group_id"),
    "server_group": _Listing("describe_placement_groups", "PlacementGroups", "GroupName", "group_name", most=0),
    "network": _Listing("describe_subnets", "Subnets", "SubnetId", "subnet_id"),
    "interface": _Listing(
        "describe_network_interfaces", "NetworkInterfaces", "NetworkInterfaceId", "network_interface_id"
    ),
    "address": _Listing("describe_addresses", "Addresses", "PublicIp", "public_ip", most=0),
    "vpc": _Listing("describe_vpcs", "Vpcs", "VpcId", "vpc_id"),
    "zone": _Listing("describe_availability_zones", "AvailabilityZones", "ZoneName", "zone_name", most=0),
    "host": _Listing("describe_hosts", "Hosts", "HostId", "", most=500),
    "instance_type": _Listing("describe_instance_types", "InstanceTypes", "InstanceType", "instance_type", most=100),
    "modification": _Listing(
        "describe_volumes_modifications", "VolumesModifications", "VolumeId", "volume_id", most=500
    ),
}


# -- many rows --


def list_page(
    client: Client, kind: Listed, cursor: str | None, **wanted: Sequence[str] | str
) -> tuple[list[Row], str | None]:
    """One page and the cursor of the next one; a page may be short, or empty with a cursor. `wanted` are filters, whose
    names are written with underscores: two for a colon, `tag__coterie_director`."""
    listing = LISTINGS[kind]
    given: dict[str, Any] = {} if listing.id_filter in wanted else dict(listing.own)
    if wanted:
        given["Filters"] = [
            {"Name": name.replace("__", ":").replace("_", "-"), "Values": [one] if isinstance(one, str) else list(one)}
            for name, one in wanted.items()
        ]
    if listing.most:
        given["MaxResults"] = min(client.settings.page_size, listing.most)
    if cursor:
        given["NextToken"] = cursor
    answer = client.ask(listing.operation.replace("describe", "list").replace("_", " "), listing.operation, **given)
    rows = list(answer.get(listing.key) or ())
    if kind == "vm":
        rows = [row for reservation in rows for row in reservation.get("Instances") or ()]
    return rows, answer.get("NextToken") or None


def list_rows(client: Client, kind: Listed, **wanted: Sequence[str] | str) -> list[Row]:
    rows, cursor = list_page(client, kind, None, **wanted)
    while cursor:
        further, cursor = list_page(client, kind, cursor, **wanted)
        rows += further
    return rows


def list_marked(client: Client, kind: Kind, mark: Mark) -> list[Row]:
    """Those that bear exactly this mark."""
    return [row for row in list_rows(client, kind, tag__coterie_intent=mark.intent) if mark_of(row) == mark]


# -- one row --


def look(client: Client, kind: Listed, cid: str) -> Row | None:
    """As AWS shows it now, of whatever account. By a filter: an id that is not there is then no error."""
    listing = LISTINGS[kind]
    rows = list_rows(client, kind, **{listing.id_filter: cid})
    return next((row for row in rows if row[listing.id] == cid), None)


def read(client: Client, kind: Listed, cid: str) -> Row | None:
    """None where it is not there, or on its way out. Raises where this process made it just now, so that not seeing it
    means nothing."""
    row = look(client, kind, cid)
    if row is None:
        client.require_settled(cid)
    return None if row is None or is_gone(row) else row


def find(client: Client, kind: Kind, mark: Mark) -> Row | None:
    """What bears exactly this mark, and is not on its way out."""
    return next((row for row in list_marked(client, kind, mark) if not is_gone(row)), None)


def is_gone(row: Row) -> bool:
    """On its way out, or the trace of what was."""
    state = row.get("State")
    return (state["Name"] if isinstance(state, Mapping) else state) in _GOING


# -- what was just created --


def create_named(
    client: Client, what: str, create: Callable[[], object], duplicate: str, read_back: Callable[[], T | None]
) -> tuple[T, bool]:
    """What has this name now, and whether this call created it. The name makes it once: a second call is refused by the
    code `duplicate`, and finds the first one's. Others take what is not visible yet for gone, so that is waited for."""
    is_new = True
    try:
        create()
    except Refusal as error:
        if not error.is_one(duplicate):
            raise
        is_new = False
    try:
        return wait_until_visible(client, what, read_back), is_new
    except CpiError as error:
        if not is_new:
            raise
        remedy = "look for it by its mark"
        raise OutcomeUnknown(f"{what} was created, and cannot be read", why=str(error), remedy=remedy) from error


def wait_until_visible(client: Client, what: str, read_back: Callable[[], T | None]) -> T:
    return client.waits.until(f"{what} being visible", read_back, client.settings.settle_s)


def wait_for_new(client: Client, kind: Kind, cid: str, ready: Sequence[str], remove: Callable[[str], None]) -> None:
    """For what a creating call answered. A token answers what it made for as long as AWS remembers it, also after its
    deletion."""
    client.note_created(cid)
    if not wait_or_remove(lambda: becomes_ready(client, kind, cid, ready), lambda: remove(cid)):
        client.forget_created(cid)
        raise CpiError(f"{kind} {cid} of this mark was deleted", remedy="repeat under a new mark", retryable=True)


def becomes_ready(client: Client, kind: Kind, cid: str, ready: Sequence[str]) -> bool:
    """Whether it turned up and came to one of these states; one that is going, or does not turn up, is never coming.
    That AWS is too busy to show it is no reason to remove it."""
    last = time.monotonic() + client.settings.settle_s

    def look_again() -> bool | None:
        try:
            row = look(client, kind, cid)
        except CpiError as error:
            raise OutcomeUnknown(
                f"{kind} {cid} was made, and cannot be read", why=str(error), remedy="look for it by its mark"
            ) from error
        if row is None:
            return False if time.monotonic() > last else None
        if row["State"] in _BROKEN:
            raise _broken_error(kind, cid, row)
        return False if is_gone(row) else row["State"] in ready or None

    return client.waits.until(f"{kind} {cid} being {ready[0]}", look_again)


def _broken_error(kind: Kind, cid: str, row: Row) -> CpiError:
    reason = (row.get("StateReason") or {}).get("Message") or row.get("StateMessage")
    return CpiError(
        f"{kind} {cid} came to state {row['State']}",
        why=str(reason or "AWS gives no reason; often it is a KMS key without rights"),
        remedy="mend what the reason names, or check the rights to the KMS key, then repeat",
        retryable=kind != "image",  # whose upload is long
    )


# -- tags --


def tags_of(row: Row) -> dict[str, str]:
    """Of a row of any kind; users' tags may have an empty value."""
    return {str(tag["Key"]): str(tag.get("Value") or "") for tag in row.get("Tags") or ()}


def mark_of(row: Row) -> Mark | None:
    return read_mark_tags(tags_of(row))


def own_mark(client: Client, row: Row) -> Mark | None:
    """None on what bears no mark, or that of another Director."""
    mark = mark_of(row)
    return mark if mark and mark.director == client.director_uuid else None


def tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]


def tagged(kind: str, tags: Mapping[str, str]) -> list[dict[str, Any]]:
    """`TagSpecifications` of a creating call; `kind` is EC2's own word."""
    return [{"ResourceType": kind, "Tags": tag_list(tags)}]


def marked(kind: str, mark: Mark, **more: str) -> list[dict[str, Any]]:
    return tagged(kind, {"Name": mark.name(), **mark_tags(mark), **more})


def user_tags(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Users' metadata as tags. Keys that would change our own, or AWS's, are refused."""
    for key in metadata:
        if key.startswith("aws:"):
            raise InvalidCall(f"metadata key {key!r} is reserved", remedy="use keys that do not begin with aws:")
    found = metadata_tags(metadata, longest_key=_LONGEST_KEY, longest_value=_LONGEST_VALUE)
    return {"Name" if key == "name" else key: value for key, value in found.items()}


def write_tags(client: Client, cid: str, tags: Mapping[str, str]) -> None:
    if tags:
        client.change(f"write tags of {cid}", "create_tags", Resources=[cid], Tags=tag_list(tags))
