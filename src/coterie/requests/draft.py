"""A plan on refreshed facts, and its way into the ledger: in one transaction, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from coterie.cpi.contract import Capabilities
from coterie.errors import Conflict, StalePlan
from coterie.ids import Ids
from coterie.ledger.rows import clouds, deployments, enrolled, groups, identity, nodes, objects, snapshot
from coterie.ledger.rows.clouds import CloudRow
from coterie.ledger.store import Ledger, Tx
from coterie.ledger.work import conductors
from coterie.plan.model import CloudNow, Plan
from coterie.plan.nodes import Options
from coterie.plan.planner import make_plan, plan_removal, refused
from coterie.requests.accept import PlanRows
from coterie.requests.ask_clouds import ask
from coterie.requests.cloud_requirements import groups_seen, known_groups, needs
from coterie.requests.regroup import move_clouds
from coterie.requests.request import PlanRequest, read

Permit = Callable[[Tx], None]


class Draft:
    """A plan and what it was made from, until it is accepted or thrown away."""

    def __init__(self, ledger: Ledger, request: PlanRequest) -> None:
        self._ledger = ledger
        self._request = request
        self._wish = read(ledger, request)
        self._groups = self._wish.groups()
        facts = self._ask()
        self._wish.check({name: cloud.capabilities for name, cloud in facts.items()})
        with ledger.read() as tx:
            self._fingerprint = snapshot.fingerprint(tx, self._wish.name)
            self.snapshot = snapshot.read(tx, self._wish.name, facts)
        self.plan = self._make()

    def accept(self, kind: str, by: str | None, permit: Permit | None = None) -> int:
        wish = self._wish
        with self._ledger.write() as tx:
            deployments.lock(tx, wish.name)
            if permit is not None:
                permit(tx)
            if snapshot.fingerprint(tx, wish.name) != self._fingerprint:
                raise StalePlan(f"deployment {wish.name} changed while it was planned", remedy="plan and confirm again")
            director = identity.director(tx)
            self._save(tx, self._set_config(tx))
            rows = PlanRows(tx, self.plan, Ids(), director.name)
            return rows.write("delete" if self._request.delete else kind, by)

    def _set_config(self, tx: Tx) -> int:
        """Only a config that came with the request is stored: the one in force may be newer than this draft."""
        if self._request.cloud_config is None:
            present = clouds.config(tx)
            return present.id if present else 0
        return store_config(tx, self._wish.config_text, self._wish.clouds)

    def _save(self, tx: Tx, config_id: int) -> None:
        wish = self._wish
        if wish.deployment is None:
            deployments.stop_resurrection(tx, wish.name)
            return
        resurrection = wish.deployment.value.resurrection
        deployments.save(tx, wish.name, manifest=wish.manifest, config_id=config_id, resurrection=resurrection)
        groups.set_instance_groups(tx, wish.name, [group.name for group in self._groups])

    def _make(self) -> Plan:
        request = self._request
        if self._wish.deployment is None:
            return plan_removal(self.snapshot, request.delete_disks)
        options = Options(request.recreate, frozenset(request.nodes), request.delete_disks)
        return make_plan(self.snapshot, self._groups, options)

    def _ask(self) -> dict[str, CloudNow]:
        configured_clouds = self._wish.clouds
        with self._ledger.read() as tx:
            present = groups.of_deployment(tx, self._wish.name)
            used = {node.cloud for node in nodes.of_deployment(tx, self._wish.name)}
            director = identity.director(tx).uuid
        used |= {group.cloud for group in present} | {az.cloud for group in self._groups for az in group.azs}
        lost = used - configured_clouds.keys()
        if lost:
            raise refused(
                self._wish.name, [f"cloud {name} is in use but not in the cloud config" for name in sorted(lost)]
            )
        rows = [configured_clouds[name] for name in sorted(used)]
        self._require_conductors(rows)
        cids = {row.name: [g.cid for g in present if g.cloud == row.name and g.cid] for row in rows}
        known = known_groups(present, self._groups, director)
        checks = ask(self._ledger, [(row, "check", needs(self._groups, row.name, known)) for row in rows])
        views = ask(self._ledger, [(row, "groups", {"cids": cids[row.name]}) for row in rows])
        return {
            row.name: CloudNow(
                row.name,
                row.driver,
                row.conductor_group,
                Capabilities.of_wire(check["capabilities"]),
                tuple(check["items"]),
                *groups_seen(check["capabilities"], seen),
            )
            for row, check, seen in zip(rows, checks, views, strict=True)
        }

    def _require_conductors(self, rows: Sequence[CloudRow]) -> None:
        """What nobody would run is refused before anything is written, even a question."""
        with self._ledger.read() as tx:
            fleet = conductors.living(tx)
        for row in rows:
            fleet.require(row.conductor_group, row.driver)


def store_config(tx: Tx, text: str, wanted: Mapping[str, CloudRow]) -> int:
    """The only way of a cloud config into the ledger."""
    _refuse_lost_clouds(tx, set(wanted))
    move_clouds(tx, wanted)
    return clouds.set_config(tx, text, wanted.values())


def _refuse_lost_clouds(tx: Tx, wanted: set[str]) -> None:
    lost = sorted({*objects.clouds_in_use(tx), *enrolled.clouds_of(tx)} - wanted)
    if lost:
        raise Conflict(
            f"the cloud config leaves out {', '.join(lost)}",
            why="objects of ours or enrolled nodes are still there",
            remedy="delete the deployments and nodes that use it first, or keep the cloud in the config",
        )
