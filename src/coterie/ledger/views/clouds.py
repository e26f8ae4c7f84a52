"""Clouds, their cloud config and what was last read from them, as the API shows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import sqlalchemy as sa

from coterie.errors import NotFound
from coterie.ledger.rows import alarms, pins
from coterie.ledger.rows.alarms import Alarm
from coterie.ledger.store import Tx
from coterie.ledger.tables import cloud_configs, clouds, facts, nodes
from coterie.ledger.views.page import Page, Row, Slice, fetch, when
from coterie.ledger.visibility import is_limited


def page(tx: Tx, part: Slice) -> Page:
    found = fetch(tx, sa.select(*clouds.c), [clouds.c.name], part)
    return Page(_view(tx, found.items), found.next)


def one(tx: Tx, name: str) -> Row:
    """A cloud with its capabilities and the dated facts that its conductors read."""
    row = tx.execute(sa.select(*clouds.c).where(clouds.c.name == name)).mappings().first()
    if row is None:
        raise NotFound(f"no cloud {name!r}", remedy="list them with `coterie clouds`; set them with `clouds set FILE`")
    return {**_view(tx, [dict(row)])[0], "facts": known(tx, name)}


def known(tx: Tx, cloud: str) -> dict[str, Row]:
    """The newest answer of the cloud on each subject, with its time."""
    said = (
        sa.select(facts.c.what, facts.c.at, facts.c.data, facts.c.error)
        .where(facts.c.cloud == cloud, facts.c.at.is_not(None))
        .order_by(facts.c.at)
    )
    # One subject may have several questions (`check:…`); read in the order of their dates, the newest stays.
    return {
        what.partition(":")[0]: {"at": when(at), "data": data, "error": error}
        for what, at, data, error in tx.execute(said)
        # The other subjects name VMs and groups of every deployment.
        if not is_limited() or what.partition(":")[0] == "check"
    }


def config(tx: Tx) -> Row:
    """The newest cloud config."""
    newest = sa.select(*cloud_configs.c).order_by(cloud_configs.c.id.desc()).limit(1)
    row = tx.execute(newest).mappings().first()
    if row is None:
        raise NotFound("no cloud config is set", remedy="set one with `coterie clouds set FILE`")
    return {"id": row["id"], "text": row["body"], "hash": row["hash"], "created_at": when(row["created_at"])}


def _view(tx: Tx, rows: list[Row]) -> list[Row]:
    names = [row["name"] for row in rows]
    counts, rung, pinned = _node_counts(tx, names), alarms.of_clouds(tx, names), pins.all_pins(tx)
    return [
        {
            **_shown(row, counts[row["name"]]),
            "pinned_to": pinned.get(row["name"]),
            "alarms": [_alarm(alarm) for alarm in rung.get(row["name"], ())],
        }
        for row in rows
    ]


def _shown(row: Row, count: int) -> Row:
    kept = {name: value for name, value in row.items() if name != "other_groups"}
    others = list(row["other_groups"] or ())
    return {**kept, "other_conductor_groups": others, "properties": row["properties"] or {}, "nodes": count}


def _alarm(alarm: Alarm) -> Row:
    return {"kind": alarm.kind, "since": when(alarm.since), "body": alarm.body, "remedy": alarms.remedy(alarm.cloud)}


def count_alarms(tx: Tx) -> dict[tuple[str, ...], float]:
    """(cloud, kind) → 1."""
    return {(alarm.cloud, alarm.kind): 1.0 for rung in alarms.of_clouds(tx).values() for alarm in rung}


def _node_counts(tx: Tx, names: Sequence[str]) -> Counter[str]:
    query = sa.select(nodes.c.cloud, sa.func.count()).where(nodes.c.cloud.in_(names)).group_by(nodes.c.cloud)
    return Counter({str(cloud): count for cloud, count in tx.execute(query)})
