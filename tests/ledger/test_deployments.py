"""Deployments: a name is held from the first question on, whether or not it has a row yet."""

from __future__ import annotations

import threading

from coterie.ledger.rows import deployments
from coterie.ledger.rows.deployments import DeploymentRow
from coterie.ledger.store import Ledger

_HEAD_START_S = 0.3  # a request that does not wait has read by then; one that waits passes however long it is


def test_the_second_request_for_a_new_name_sees_what_the_first_one_stored(ledger: Ledger) -> None:
    seen: list[DeploymentRow | None] = []

    def want() -> None:
        with ledger.write() as tx:
            seen.append(deployments.lock(tx, "web"))

    second = threading.Thread(target=want)
    with ledger.write() as tx:
        assert deployments.lock(tx, "web") is None
        second.start()
        second.join(_HEAD_START_S)
        deployments.save(tx, "web", manifest="first", config_id=0, resurrection=True)
    second.join()
    (row,) = seen
    assert row is not None and row.manifest == "first"
