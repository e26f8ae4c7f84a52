"""Checks that every driver makes in the same way: what is asked for is known, and what is deleted is what was meant."""

from __future__ import annotations

from collections.abc import Collection

from coterie.cpi.contract.errors import Changed, InvalidCall, NotSupported, VMNotFound
from coterie.cpi.contract.mark import Mark, read_group_cid
from coterie.cpi.contract.types import KINDS, CloudObject, Expected, GroupMetadata, SecurityGroup


def require_kind(kind: str) -> None:
    if kind not in KINDS:
        raise InvalidCall(f"there is no kind {kind!r}", remedy=f"use one of: {', '.join(KINDS)}")


def vm_missing(cid: str) -> VMNotFound:
    return VMNotFound(f"VM {cid[:80]} is not there", remedy="list what exists, and use one of those")


def require_same(found: CloudObject, expected: Expected) -> None:
    """Refuse an object that is not proven to be the expected one; without a mark nothing is proven."""
    for what, has, wanted in (
        ("mark", found.mark, expected.mark),
        ("creation time", found.created_at, expected.created_at),
        ("etag", found.etag, expected.etag),
    ):
        if (wanted is None and what == "mark") or (wanted is not None and has != wanted):
            raise Changed(
                f"{found.kind} {found.cid} is not the one that was expected",
                why=f"its {what} differs",
                remedy="survey again, and decide on what is there now",
            )


def require_group_spec(metadata: GroupMetadata, policies: Collection[str], options: Collection[str]) -> None:
    """Refuse a server group that this cloud cannot make, or options that its driver does not know."""
    if metadata.policy is not None and metadata.policy not in policies:
        raise NotSupported(
            f"policy {metadata.policy!r} is impossible on this cloud",
            remedy=f"use one of: {', '.join(sorted(policies)) or 'none'}",
        )
    for key in metadata.options:
        if key not in options:
            raise InvalidCall(f"options.{key} is not known", remedy=f"use one of: {', '.join(options)}")


def refuse_security_groups(security_groups: Collection[SecurityGroup]) -> None:
    """For a server group that an operator created."""
    if security_groups:
        raise InvalidCall(
            "an adopted server group is never changed, so it takes no security groups",
            remedy="name them in the VM's cloud_properties.security_groups",
            details={"field": "security_groups"},
        )


def mark_of_group(cid: str, director_uuid: str) -> Mark:
    """The mark behind the CID of a server group of this Director."""
    found = read_group_cid(cid)
    if found is None or not found.belongs_to(director_uuid):
        raise InvalidCall(f"{cid} is no server group of this Director", remedy="use the CID that create answered")
    return Mark(director_uuid, found.intent)
