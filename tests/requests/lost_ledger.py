"""A site whose ledger is lost, and what an operator does about it."""

from __future__ import annotations

from coterie.ledger.store import Ledger
from coterie.ledger.tables import metadata
from coterie.requests import recover
from coterie.requests.recovered_rows import Recovery
from tests.requests.site import Site

# An operator brings these back first: the catalogue, and by their start the conductors and their keys.
_KEPT = ("alembic_version", "schema_floor", "directors", "stemcells", "conductors", "conductor_keys")


def lose_ledger(site: Site) -> None:
    """Everything but the Director's own row and the catalogue, which an operator brings back first."""
    with site.ledger.write() as tx:
        for table in reversed(metadata.sorted_tables):
            if table.name not in _KEPT:
                tx.execute(table.delete())


_DEPLOYED = ("nodes", "objects", "parts", "addresses", "server_groups", "server_group_users", "instance_groups")
_WORK = ("deployments", "tasks", "stages", "steps")


def lose_deployments(ledger: Ledger) -> None:
    """Of a Director that runs: all rows of deployments and of their tasks."""
    with ledger.write() as tx:
        for table in reversed(metadata.sorted_tables):
            if table.name in (*_DEPLOYED, *_WORK):
                tx.execute(table.delete())


def recovery(site: Site, text: str) -> Recovery:
    plan = recover.plan_recovery(site.ledger, site.request(text))
    return recover.apply_recovery(site.ledger, site.request(text), plan.id, "test")


def prove_recovery(site: Site, text: str) -> None:
    """Lose the ledger of a running deployment and recover it: everything is taken, and nothing is to change."""
    site.deploy(text)
    before = {name: (node.uuid, node.vm_cid, node.server_group, node.addresses) for name, node in site.nodes().items()}
    assert site.plan(text).changes == ()
    lose_ledger(site)
    found = recovery(site, text)
    assert [item for item in found.items if not item.taken] == []
    after = {name: (node.uuid, node.vm_cid, node.server_group, node.addresses) for name, node in site.nodes().items()}
    assert after == before
    assert site.plan(text).changes == ()
