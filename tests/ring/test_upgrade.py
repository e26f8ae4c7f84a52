"""A rolling upgrade over conductor groups: two releases' key builders, each in a process of its own, never disagree.

The old one (`release_before_groups`) knows only drivers. The new one reads the releases off the fleet's rows.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from coterie.ledger.store import Ledger
from coterie.ledger.work import conductors
from coterie.ring.members import Member
from coterie.ring.owner import Fleet

OLD, NEW = "0.0.9", "0.1.0"
DRIVERS = {"c0": ["a"], "c1": ["a", "b"], "c2": ["a", "b"], "c3": ["b"]}
GROUPS = {"c0": "r0", "c1": "r1", "c2": "r0", "c3": "r1"}
NODES = {f"{n:08x}-0000-4000-8000-000000000000": "ab"[n % 2] for n in range(120)}
NEW_PROGRAM = (
    "import json, sys\nfrom tests.ring.test_upgrade import new_owners\n"
    "asked = json.load(sys.stdin)\nprint(json.dumps([new_owners(asked['ring'], one) for one in asked['stages']]))"
)


def stages() -> list[dict[str, str]]:
    """What each conductor behaves as, from the first upgraded one to the last unpinned one."""
    names = sorted(DRIVERS)
    upgraded = [dict.fromkeys(names, OLD) for _ in range(len(names) + 1)]  # the new release, pinned to the old
    unpinned = [{name: NEW if place < n else OLD for place, name in enumerate(names)} for n in range(1, len(names) + 1)]
    return upgraded + unpinned


def new_owners(ring: str, stage: dict[str, str]) -> dict[str, str]:
    fleet = Fleet(
        Member(name, GROUPS[name], frozenset(DRIVERS[name]), speaks, algorithm=ring) for name, speaks in stage.items()
    )
    return {uuid: fleet.owner(f"R{n // 2 % 2}", driver, uuid).name for n, (uuid, driver) in enumerate(NODES.items())}


def ask(program: list[str], asked: dict[str, Any]) -> Any:
    done = subprocess.run(
        [sys.executable, *program], input=json.dumps(asked), capture_output=True, text=True, check=True, timeout=120
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("ring", ["probed", "ironic"])
def test_old_and_new_agree_on_every_node_until_the_last_one_is_unpinned(ring: str) -> None:
    file = Path(__file__).with_name("release_before_groups.py")
    old = ask([str(file)], {"ring": ring, "conductors": DRIVERS, "nodes": NODES})
    *during, after = ask(["-c", NEW_PROGRAM], {"ring": ring, "stages": stages()})
    assert all(found == old for found in during)
    assert after == new_owners(ring, dict.fromkeys(DRIVERS, NEW)) != old
    assert all(GROUPS[name] == f"r{n // 2 % 2}" for n, name in enumerate(after.values()))


def test_the_row_of_an_old_conductor_hides_groups_from_everybody(ledger: Ledger) -> None:
    """It writes only the columns that it knows, into the new schema."""
    with ledger.write() as tx:
        conductors.register(tx, "new", "1", group="rack1", drivers=["a"], release=NEW)
        assert conductors.fleet(tx).grouped
        conductors.register(tx, "pinned", "1", group="rack1", drivers=["a"], release=NEW, pinned=OLD)
        assert not conductors.fleet(tx).grouped
        conductors.leave(tx, "pinned", "1")
        tx.execute(
            sa.text(
                "INSERT INTO conductors (name, incarnation, conductor_group, drivers, release, started_at, heartbeat)"
                " VALUES ('old', '1', '', '[\"a\"]', :release, 1e12, 1e12)"
            ),
            {"release": OLD},
        )
        fleet = conductors.fleet(tx)
        assert not fleet.grouped
        assert {fleet.owner("rack9", "a", uuid).name for uuid in NODES} == {"new", "old"}
        tx.execute(sa.text("DELETE FROM conductors WHERE name = 'old'"))
        assert conductors.fleet(tx).grouped
