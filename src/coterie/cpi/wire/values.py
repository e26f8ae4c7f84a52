"""Shapes of the contract's values that travel as arguments: marks, kinds, networks, sizes, group metadata."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from coterie.cpi.contract import KINDS, POLICIES, GroupMetadata, Kind, Mark, Networks
from coterie.cpi.wire.shapes import (
    Mismatch,
    Shape,
    json_type,
    nullable,
    read_array,
    read_fields,
    read_labels,
    read_object,
    read_text,
    read_texts,
    read_whole,
    same,
)

_INTENT = re.compile(r"[0-9a-z]{26}\Z")
_NETWORK_TYPES = ("manual", "dynamic", "vip")


def read_mark(value: Any) -> Mark:
    fields = read_fields(value, required=("director", "intent"))
    if not isinstance(fields["intent"], str) or not _INTENT.match(fields["intent"]):
        raise Mismatch("must have an `intent` of 26 characters, a-z and 0-9")
    return Mark(read_text(fields["director"]), fields["intent"])


def read_kind(value: Any) -> Kind:
    for kind in KINDS:
        if value == kind:
            return kind
    raise Mismatch(f"must be one of {', '.join(KINDS)}")


def read_networks(value: Any) -> Networks:
    networks = read_object(value)
    for name, network in networks.items():
        if not isinstance(network, Mapping):
            raise Mismatch(f"must hold objects, but network {name[:64]!r} is {json_type(network)}")
        if network.get("type", "manual") not in _NETWORK_TYPES:
            raise Mismatch(f"has network {name[:64]!r} whose type is none of {', '.join(_NETWORK_TYPES)}")
    return networks


def read_sizes(value: Any) -> Mapping[str, int]:
    fields = read_fields(value, required=("cpu", "ram", "ephemeral_disk_size"), others=True)
    return {name: read_whole(fields[name]) for name in ("cpu", "ram", "ephemeral_disk_size")}


def read_metadata(value: Any) -> GroupMetadata:
    optional = ("azs", "security_groups", "policy", "options")
    fields = read_fields(value, required=("director", "deployment", "instance_group"), optional=optional)
    for name in ("deployment", "instance_group"):
        read_text(fields[name])
    read_fields(read_labels(fields["director"]), required=("name", "uuid"))
    read_texts(fields.get("azs") or [])
    read_object(fields.get("options") or {})
    if fields.get("policy") not in (None, *POLICIES):
        raise Mismatch(f"must have a `policy` that is null or one of {', '.join(POLICIES)}")
    for group in read_array(fields.get("security_groups") or []):
        _security_group(group)
    return GroupMetadata.of_wire(fields)


def _security_group(value: Any) -> None:
    if isinstance(value, str) and value:
        return
    fields = read_fields(value, required=("name",), optional=("rules", "adopt"))
    read_text(fields["name"])
    if not isinstance(fields.get("adopt", False), bool):
        raise Mismatch("must have an `adopt` that is true or false")
    for rule in read_array(fields.get("rules") or []):
        read_object(rule)


MARK: Shape[Mark] = Shape(read_mark, Mark.wire)
MARK_OR_NULL = nullable(MARK)
KIND = same(read_kind)
NETWORKS = same(read_networks)
SIZES = same(read_sizes)
GROUP_METADATA: Shape[GroupMetadata] = Shape(read_metadata, GroupMetadata.wire)
