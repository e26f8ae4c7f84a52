"""The cloud config in force, and nothing of those before it."""

from __future__ import annotations

import sqlalchemy as sa

from coterie.ledger.rows import clouds
from coterie.ledger.rows.clouds import CloudRow
from coterie.ledger.store import Ledger
from coterie.ledger.tables import cloud_configs

LAB = CloudRow("lab", "sandbox", {}, "")


def test_an_older_config_is_not_kept_for_it_may_hold_open_credentials(ledger: Ledger) -> None:
    with ledger.write() as tx:
        first = clouds.set_config(tx, "password: open", [LAB])
        second = clouds.set_config(tx, "password: sealed", [LAB])
        assert clouds.set_config(tx, "password: sealed", [LAB]) == second
    with ledger.read() as tx:
        assert tx.execute(sa.select(cloud_configs.c.body)).scalars().all() == ["password: sealed"]
    assert second > first
