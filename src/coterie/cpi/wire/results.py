"""Shapes of what the methods answer. Reading is as strict as a BOSH Director; writing refuses what it would refuse."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast, get_args

from coterie.cpi.contract import (
    Capabilities,
    CheckItem,
    CloudObject,
    DiskHint,
    GroupState,
    GroupView,
    Json,
    NetworkCreated,
    SurveyPage,
    VmCreated,
)
from coterie.cpi.wire.shapes import (
    Mismatch,
    Shape,
    json_type,
    nullable,
    read_array,
    read_flag,
    read_object,
    read_text,
    read_texts,
    same,
)

T = TypeVar("T")


def read_info(value: Any) -> Json:
    """A program without `api_version` speaks version 1."""
    fields = read_object(value)
    version = fields.get("api_version", 1)
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise Mismatch("must have an `api_version` that is a whole number")
    return {**fields, "api_version": version, "stemcell_formats": read_texts(fields.get("stemcell_formats") or [])}


def read_vm(value: Any) -> VmCreated:
    if not isinstance(value, list) or len(value) != 2:
        raise Mismatch(f"must be [vm_cid, networks], not {json_type(value)}")
    return VmCreated(read_text(value[0]), read_object(value[1] if value[1] is not None else {}))


def write_vm(value: VmCreated) -> Any:
    return [read_text(value.cid), read_object(value.networks)]


def read_hint(value: Any) -> DiskHint:
    if not isinstance(value, str | Mapping) or not value:
        raise Mismatch(f"must be a disk hint, a non-empty string or object, not {json_type(value)}")
    return value if isinstance(value, str) else dict(value)


def read_network(value: Any) -> NetworkCreated:
    if not isinstance(value, list) or len(value) != 3:
        raise Mismatch(f"must be [network_cid, addresses, cloud_properties], not {json_type(value)}")
    return NetworkCreated(read_text(value[0]), read_object(value[1] or {}), read_object(value[2] or {}))


def write_network(value: NetworkCreated) -> Any:
    return [read_text(value.cid), read_object(value.addresses), read_object(value.cloud_properties)]


def read_view(value: Any) -> GroupView:
    view = _built(GroupView.of_wire, value)
    if view.state not in get_args(GroupState):
        raise Mismatch(f"must have a `state` that is one of {', '.join(get_args(GroupState))}")
    return view


def read_page(value: Any) -> SurveyPage:
    fields = read_object(value)
    objects = tuple(_built(CloudObject.of_wire, one) for one in read_array(fields.get("objects")))
    calls = fields.get("calls")
    if not isinstance(calls, int) or isinstance(calls, bool):
        raise Mismatch("must have `calls`, a whole number")
    return SurveyPage(
        objects, nullable(same(read_text)).read(fields.get("next")), read_flag(fields.get("complete")), calls
    )


def read_items(value: Any) -> list[CheckItem]:
    return [_built(lambda one: CheckItem(**one), item) for item in read_array(value)]


def read_any(value: Any) -> str:
    return value if isinstance(value, str) and value else "pong"


def _built(build: Callable[[Any], T], value: Any) -> T:
    fields = read_object(value)
    try:
        return build(fields)
    except (TypeError, KeyError, ValueError, AttributeError):
        raise Mismatch("does not have the keys that the contract names") from None


INFO = same(read_info)
VM: Shape[VmCreated] = Shape(read_vm, write_vm)
VM_V1: Shape[VmCreated] = Shape(lambda value: VmCreated(read_text(value), {}), lambda value: read_text(value.cid))
HINT = same(read_hint)
# Version 1 has no hint: its agents read the registry.
HINT_V1: Shape[DiskHint] = Shape(lambda value: "", lambda value: None)
NETWORK: Shape[NetworkCreated] = Shape(read_network, write_network)
GROUP_VIEW: Shape[GroupView] = Shape(read_view, GroupView.wire)
FOUND: Shape[CloudObject | None] = nullable(
    Shape(lambda value: _built(CloudObject.of_wire, value), CloudObject.wire),
)
PAGE: Shape[SurveyPage] = Shape(read_page, SurveyPage.wire)
CHECK_ITEMS: Shape[list[CheckItem]] = Shape(read_items, lambda items: [item.wire() for item in items])
CAPABILITIES: Shape[Capabilities] = Shape(lambda value: _built(Capabilities.of_wire, value), Capabilities.wire)
REPORT: Shape[Json] = cast(Shape[Json], same(read_object))
ANY: Shape[str] = same(read_any)
