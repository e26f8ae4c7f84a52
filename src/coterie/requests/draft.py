"""A plan on refreshed facts, and its way into the ledger: in one transaction, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from coterie.cpi.contract import Capabilities
from coterie.errors import Conflict, StalePlan
from coterie.ids import Ids
from coterie.ledger.rows import alarms, clouds, deployments, enrolled, groups, identity, nodes, objects, pins, snapshot
from coterie.ledger.rows.cloud_contents import list_contents
from coterie.ledger.rows.clouds import CloudRow
from coterie.ledger.store import Ledger, Tx
from coterie.ledger.work import conductors
from coterie.manifest import InstanceGroupSpec
from coterie.plan.model import Change, CloudNow, Plan
from coterie.plan.nodes import Options
from coterie.plan.planner import make_plan, plan_removal, refusal_error
from coterie.plan.security_groups import names_to_own
from coterie.redact import hide_yaml
from coterie.requests.accept import PlanRows
from coterie.requests.ask_clouds import ask
from coterie.requests.cloud_requirements import groups_seen, known_groups, needs, security_groups_seen
from coterie.requests.machine_secrets import seal_groups
from coterie.requests.pinned_clouds import refuse_moved_clouds
from coterie.requests.regroup import Inheritance, move_clouds, require_conductors
from coterie.requests.request import CheckedRequest, PlanRequest, az_groups, read
from coterie.requests.resurrection import find_doubtful_clouds

Permit = Callable[[Tx], None]


@dataclass(frozen=True, slots=True)
class Draft:
    """A plan and what it was made from, until it is accepted or thrown away."""

    request: PlanRequest
    checked: CheckedRequest
    groups: Sequence[InstanceGroupSpec]
    fingerprint: tuple[object, ...]  # of the rows that the plan was made from
    plan: Plan


def draft_plan(ledger: Ledger, request: PlanRequest) -> Draft:
    """Read the request, ask the clouds, plan. Changes no cloud; the only rows it writes are dated facts."""
    checked = read(ledger, request)
    wanted = checked.groups()
    facts = ask_clouds(ledger, checked, wanted)
    checked.check({name: cloud.capabilities for name, cloud in facts.items()})
    with ledger.read() as tx:
        fingerprint = snapshot.fingerprint(tx, checked.name)
        doubtful = find_doubtful_clouds(tx, nodes.of_deployment(tx, checked.name), request.meltdown)
        shared = checked.shared_security_groups()
        seen = snapshot.read(tx, checked.name, facts, shared, _disk_sources(wanted), doubtful)
    if checked.deployment is None:
        plan = plan_removal(seen, request.delete_disks)
    else:
        options = Options(
            request.recreate,
            frozenset(request.nodes),
            request.delete_disks,
            resurrection=checked.deployment.value.resurrection,
            reuse_disks=request.reuse_disks,
        )
        plan = make_plan(seen, wanted, options)
    with ledger.read() as tx:
        plan = require_conductors(tx, checked.name, checked.clouds, wanted, plan)
        refuse_alarmed(tx, plan)
    return Draft(request, checked, wanted, fingerprint, plan)


def _disk_sources(wanted: Sequence[InstanceGroupSpec]) -> frozenset[str]:
    """Other deployments whose kept disks the manifest asks for."""
    return frozenset(spec.disk_from.deployment for spec in wanted if spec.disk_from and spec.disk_from.deployment)


def refuse_alarmed(tx: Tx, plan: Plan) -> None:
    """Nothing is recreated, stopped or deleted in a cloud with an alarm: what looks lost may be there."""
    alarms.refuse(tx, {change.cloud for change in plan.changes if _is_unsafe(change)})


def _is_unsafe(change: Change) -> bool:
    """Whether it goes wrong where a VM is there that the cloud does not show; a stopped node has none."""
    return change.action in ("recreate", "delete", "stop") or (change.action == "start" and change.destructive)


def accept_draft(ledger: Ledger, draft: Draft, kind: str, by: str | None, permit: Permit | None = None) -> int:
    """The task that carries the plan out: all its rows in one transaction, or none."""
    name, manifest = draft.checked.name, hide_yaml(draft.checked.manifest)
    if draft.request.cloud_config is not None:
        refuse_moved_clouds(ledger, draft.checked.clouds)
    with ledger.write() as tx:
        deployments.lock(tx, name)
        if permit is not None:
            permit(tx)
        refuse_alarmed(tx, draft.plan)
        if snapshot.fingerprint(tx, name) != draft.fingerprint:
            raise StalePlan(f"deployment {name} changed while it was planned", remedy="plan and confirm again")
        _require_security_groups(tx, draft)
        director = identity.director(tx)
        _save(tx, draft, manifest, _set_config(tx, draft), by)
        seal_groups(tx, name, draft.groups)
        rows = PlanRows(tx, draft.plan, Ids(), director.name, Inheritance.of(draft.groups))
        return rows.write("delete" if draft.request.delete else kind, by)


def _require_security_groups(tx: Tx, draft: Draft) -> None:
    """Of two deployments that plan to create a security group of one name, the second is refused."""
    wanted = names_to_own(draft.plan.changes)
    if not wanted:
        return
    groups.lock_security_groups(tx)
    holders = groups.security_group_holders(tx)
    taken = [
        f"{name} of cloud {cloud}"
        for cloud, name in wanted
        if holders.get((cloud, name), draft.checked.name) != draft.checked.name
    ]
    if taken:
        raise StalePlan(
            f"another deployment took the security group {', '.join(taken)} while this one was planned",
            remedy="plan again; use another name, or adopt it",
        )


def ask_clouds(ledger: Ledger, checked: CheckedRequest, wanted: Sequence[InstanceGroupSpec]) -> dict[str, CloudNow]:
    """All questions at once: what `check` says of the manifest's needs, and how our server groups are."""
    configured_clouds = checked.clouds
    with ledger.read() as tx:
        present = groups.of_deployment(tx, checked.name)
        used = {node.cloud for node in nodes.of_deployment(tx, checked.name)}
        director = identity.director(tx).uuid
        fleet = conductors.living(tx)
    used |= {group.cloud for group in present} | {az.cloud for group in wanted for az in group.azs}
    lost = used - configured_clouds.keys()
    if lost:
        raise refusal_error(
            checked.name, [f"cloud {name} is in use but not in the cloud config" for name in sorted(lost)]
        )
    rows = [configured_clouds[name] for name in sorted(used)]
    for row in rows:
        fleet.require(row.conductor_group, row.driver)  # refuse before anything is written, even a question
    cids = {row.name: [g.cid for g in present if g.cloud == row.name and g.cid] for row in rows}
    known = known_groups(present, wanted, director)
    checks = [(row, "check", needs(wanted, row.name, known)) for row in rows]
    views = [(row, "groups", {"cids": cids[row.name]}) for row in rows]
    answers = ask(ledger, [*checks, *views])
    return {
        row.name: CloudNow(
            row.name,
            row.driver,
            row.conductor_group,
            Capabilities.of_published(check),
            tuple(check["items"]),
            *groups_seen(check["capabilities"], seen),
            *security_groups_seen(seen),
        )
        for row, check, seen in zip(rows, answers[: len(rows)], answers[len(rows) :], strict=True)
    }


def _set_config(tx: Tx, draft: Draft) -> int:
    """Only a config that came with the request is stored: the one in force may be newer than this draft."""
    if draft.request.cloud_config is None:
        present = clouds.config(tx)
        return present.id if present else 0
    checked = draft.checked
    return store_config(tx, checked.config_text, checked.clouds, az_groups(checked.config.value))


def _save(tx: Tx, draft: Draft, manifest: str, config_id: int, by: str | None) -> None:
    """`manifest`: without secrets. It is only shown: the next request brings its own, and nodes have their specs."""
    checked = draft.checked
    if checked.deployment is None:
        deployments.stop_resurrection(tx, checked.name)
        return
    resurrection = checked.deployment.value.resurrection
    deployments.save(tx, checked.name, manifest=manifest, config_id=config_id, resurrection=resurrection)
    deployments.add_to_history(tx, checked.name, manifest, by)
    groups.set_instance_groups(tx, checked.name, {group.name: group.conductor_group for group in draft.groups})


def store_config(tx: Tx, text: str, wanted: Mapping[str, CloudRow], azs: Mapping[str, str | None]) -> int:
    """The only way of a cloud config into the ledger. `azs`: the conductor group of each az; None: its cloud's."""
    _refuse_lost_clouds(tx, set(wanted))
    pins.forget_unused(tx)
    move_clouds(tx, wanted, azs)
    return clouds.set_config(tx, text, wanted.values())


def _refuse_lost_clouds(tx: Tx, wanted: set[str]) -> None:
    lost = sorted({*objects.clouds_in_use(tx), *enrolled.clouds_of(tx)} - wanted)
    if lost:
        left = list_contents(tx, lost)
        raise Conflict(
            f"the cloud config leaves out {', '.join(lost)}",
            why=f"still there: {', '.join(what for what, _ in left)}",
            remedy="; ".join([*dict.fromkeys(way for _, way in left), "or keep the cloud in the config"]),
        )
