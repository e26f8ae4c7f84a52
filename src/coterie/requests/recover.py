"""Recovery: the rows of a deployment written again from marks in its clouds and its manifest, when the ledger was lost
or is old. A plan first, applied only if the clouds still show the same; it changes no cloud.
"""

from __future__ import annotations

from collections import Counter

from coterie.errors import NotFound, StalePlan
from coterie.ledger import writes
from coterie.ledger.rows import clouds, deployments, events, groups, identity, parts, recovered, snapshot
from coterie.ledger.rows.events import Event
from coterie.ledger.store import Ledger, Tx, time
from coterie.redact import hide_yaml
from coterie.requests.ask_clouds import ask
from coterie.requests.draft import ask_clouds, store_config
from coterie.requests.machine_secrets import seal_groups
from coterie.requests.recovered_rows import Inventory, Recovery, RecoveryDraft
from coterie.requests.request import CheckedRequest, PlanRequest, az_groups, read

_PATIENCE_S = 300.0


def plan_recovery(ledger: Ledger, request: PlanRequest) -> Recovery:
    """Ask the clouds what carries our mark, and say which rows follow from that. Writes nothing but dated facts."""
    return _draft(ledger, request)[1]


def apply_recovery(ledger: Ledger, request: PlanRequest, expect: str, by: str | None) -> Recovery:
    """Write the rows, if it is the very plan that was looked at."""
    checked, found = _draft(ledger, request)
    if found.id != expect:
        raise StalePlan(
            f"recovery {expect} is out of date",
            why=f"the clouds and the ledger now give {found.id}",
            remedy="look at the new one and confirm that",
        )
    with ledger.write() as tx:
        deployments.lock(tx, checked.name)
        _write(tx, request, checked, found)
        taken = Counter(item.kind for item in found.items if item.taken)
        body = ", ".join(f"{count} {kind}" for kind, count in sorted(taken.items())) or "nothing"
        events.append(tx, [Event(None, "deployment.recovered", checked.name, body, {**taken, "by": by})], time(tx))
    return found


def _draft(ledger: Ledger, request: PlanRequest) -> tuple[CheckedRequest, Recovery]:
    checked = read(ledger, request)
    wanted = checked.groups()
    facts = ask_clouds(ledger, checked, wanted)
    with ledger.read() as tx:
        director = identity.director(tx).uuid
    rows = [checked.clouds[name] for name in sorted(facts)]
    answers = ask(ledger, [(row, "inventory", {"director": director}) for row in rows], _PATIENCE_S)
    inventories = {row.name: Inventory.of_wire(answer) for row, answer in zip(rows, answers, strict=True)}
    with ledger.read() as tx:
        seen = snapshot.read(tx, checked.name, facts, checked.shared_security_groups())
        work = RecoveryDraft(tx, checked.name, director, wanted, seen, facts)
        for cloud, inventory in inventories.items():
            work.add_cloud(cloud, inventory)
    if not work.found.items and not work.found.known:
        raise NotFound(
            f"no cloud holds anything of deployment {checked.name} with the mark of this Director",
            why=f"this Director's uuid is {director}",
            remedy="a Director whose ledger was lost gets its former uuid at its first start: COTERIE_UUID; the tag "
            "coterie-director of any VM shows it",
        )
    return checked, work.found


def _write(tx: Tx, request: PlanRequest, checked: CheckedRequest, found: Recovery) -> None:
    present = clouds.config(tx)
    config_id = present.id if present else 0
    if request.cloud_config is not None:
        config_id = store_config(tx, checked.config_text, checked.clouds, az_groups(checked.config.value))
    wanted, deployment = checked.groups(), checked.deployment
    resurrection = bool(deployment and deployment.value.resurrection)
    seal_groups(tx, checked.name, wanted)
    manifest = hide_yaml(checked.manifest)
    deployments.save(tx, checked.name, manifest=manifest, config_id=config_id, resurrection=resurrection)
    groups.set_instance_groups(tx, checked.name, {group.name: group.conductor_group for group in wanted})
    for group in found.groups:
        recovered.put_group(tx, group)
    for node in found.nodes:
        recovered.put_node(tx, node)
    for thing in found.objects:
        recovered.put_object(tx, thing)
    begun = [parts.begin(one.cloud, one.intent, "vm") for one in found.objects if one.kind == "vm"]
    begun += [parts.begin(one.cloud, one.intent, "server_group") for one in found.groups]
    writes.execute(tx, *begun)
    for part in found.parts:
        parts.record(tx, part.cloud, part.intent, part.kind, part.name, part.cid)
    known = {(row.name, row.cloud): row.intent for row in groups.of_deployment(tx, checked.name)}
    users = [
        (spec.name, known[spec.server_group.name, az.cloud])
        for spec in wanted
        for az in spec.azs
        if spec.server_group and (spec.server_group.name, az.cloud) in known
    ]
    groups.set_users(tx, checked.name, users)
