"""Items of a check that every driver answers in the same words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from coterie.cpi.contract.errors import CpiError, GroupMissing, InvalidCall, NameTaken, NotSupported
from coterie.cpi.contract.types import CheckItem, GroupMetadata, GroupView, Needs
from coterie.slotted import replace

_FINDINGS = (GroupMissing, InvalidCall, NameTaken, NotSupported)  # what the rules of server groups raise


class GroupRules(Protocol):
    """What the kit's `ServerGroups` refuses, asked beforehand."""

    def inspect(self, cid: str) -> GroupView: ...

    def find_adopted(self, metadata: GroupMetadata) -> object: ...

    def require_security_groups(self, cid: str | None, metadata: GroupMetadata) -> object: ...


def credentials_item(look: Callable[[], str]) -> CheckItem:
    """The first item of a check, without which nothing else can be asked: what `look` says of the account. A retryable
    error is no finding but an unanswered question, and is raised."""
    try:
        return CheckItem("credentials", True, look())
    except CpiError as error:
        if error.retryable:
            raise
        return CheckItem("credentials", False, str(error), error.remedy)


def need_items(
    needs: Needs,
    policies: Iterable[str],
    kinds: Iterable[str],
    groups: GroupRules,
    refuse: Callable[[GroupMetadata], object] | None = None,
) -> list[CheckItem]:
    """Whether this cloud has the policies and kinds that are needed, and makes the server groups as they are named.
    `refuse`: in place of `groups.find_adopted`, where a driver has further rules."""
    return [
        *policy_items(needs, policies),
        *kind_items(needs, kinds),
        *group_items(needs, groups.inspect, refuse or groups.find_adopted),
        *security_group_items(needs, groups.require_security_groups),
    ]


def run_check(what: str, look: Callable[[], CheckItem]) -> CheckItem:
    """The item that `look` gives; a failure becomes an item that is not ok."""
    try:
        return look()
    except CpiError as error:
        return CheckItem(what, False, str(error), error.remedy)


def policy_items(needs: Needs, can: Iterable[str]) -> list[CheckItem]:
    possible = sorted(can)
    return [
        CheckItem(f"policy {policy}", True, "possible")
        if policy in possible
        else CheckItem(
            f"policy {policy}", False, "impossible on this cloud", f"use {', '.join(possible) or 'no policy'}"
        )
        for policy in needs.policies
    ]


def kind_items(needs: Needs, can: Iterable[str]) -> list[CheckItem]:
    missing = [kind for kind in needs.kinds if kind not in can]
    return [CheckItem(f"kind {kind}", False, "this cloud makes none", "do without") for kind in missing]


def quota_item(
    needs: Needs,
    facts: Mapping[str, Mapping[str, Any]],
    resources: Mapping[str, str],
    remedy: str = "ask for fewer, delete some, or have an administrator raise the limit",
) -> CheckItem:
    """`facts`: resource → {limit, used}, limit None where there is none; `resources`: the cloud's words for kinds."""
    asked: Counter[str] = Counter()
    for kind, count in needs.counts.items():
        asked[resources.get(kind, kind)] += count
    short = [
        f"{name}: {asked[name]} more needed, {one['used']} of {one['limit']} used"
        for name, one in facts.items()
        if asked[name] and one["limit"] is not None and (one["used"] or 0) + asked[name] > one["limit"]
    ]
    detail = "; ".join(short) or "enough is left"
    return CheckItem("quotas", not short, detail, remedy if short else "", {"quotas": facts})


def group_items(
    needs: Needs, inspect: Callable[[str], GroupView], require: Callable[[GroupMetadata], object]
) -> Iterator[CheckItem]:
    """Server groups by a name that an operator's may have, refused beforehand as `create_server_group` would.

    `inspect`: what is behind a CID; a group that exists with the requested policy is not created again. `require`:
    raises where the name is taken, or where there is no such group to adopt.
    """
    for group in needs.groups:
        name, cid = group.get("name"), group.get("cid")
        metadata = _metadata(group)
        named = metadata.options.get("name") or metadata.options.get("adopt")
        if not named or (cid and _matches(inspect(cid), metadata)):
            continue
        try:
            require(metadata)
        except _FINDINGS as error:  # any other error is an unanswered question
            if error.retryable:
                raise
            yield CheckItem(
                f"server group {name}", False, f"{_field(error, 'placement.policy')}: {error}", error.remedy
            )


def requirement_items(needs: Needs, require: Callable[[GroupMetadata, str | None], object]) -> Iterator[CheckItem]:
    """Server groups that this cloud cannot have as they are requested. `require`: raises then; it gets what the server
    group shall be, and its CID, if there is one."""
    for group in needs.groups:
        try:
            require(_metadata(group), group.get("cid"))
        except _FINDINGS as error:
            if error.retryable:
                raise
            yield CheckItem(
                f"server group {group['name']}", False, f"{_field(error, 'placement.policy')}: {error}", error.remedy
            )


def security_group_items(needs: Needs, require: Callable[[str | None, GroupMetadata], object]) -> Iterator[CheckItem]:
    """Security groups by a name that is taken, or with rules that the cloud cannot have, refused beforehand as
    `create_server_group` would. `require`: raises then; it gets the CID of the server group, if there is one, and what
    the server group shall be."""
    for group in needs.groups:
        metadata = _metadata(group)
        for one in metadata.security_groups:
            try:
                require(group.get("cid"), replace(metadata, security_groups=(one,)))
            except _FINDINGS as error:
                if error.retryable:
                    raise
                field = _field(error, "security_groups")
                yield CheckItem(f"security group {one.name}", False, f"{field}: {error}", error.remedy)


def _metadata(group: Mapping[str, Any]) -> GroupMetadata:
    return GroupMetadata.of_wire({"director": {}, "deployment": "", "instance_group": group.get("name"), **group})


def _matches(view: GroupView, metadata: GroupMetadata) -> bool:
    return view.state != "missing" and view.policy == metadata.policy


def _field(error: CpiError, usual: str) -> str:
    """Which word of the manifest is at fault."""
    fields = {NameTaken: "placement.server_group", GroupMissing: "placement.adopt"}
    return str(error.details.get("field") or fields.get(type(error), usual))
