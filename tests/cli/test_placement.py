"""What an audit tells of a bad spread, and what it offers."""

from __future__ import annotations

import inspect
import io
from typing import Any

import pytest

from coterie.cli import placement
from coterie.cli.show.paint import Paint
from coterie.group.audit import Member, audit


class Session:
    """As much of one as the verb asks for; the API answers with this group."""

    json = False
    paint = Paint("never", io.StringIO())

    def __init__(self, group: dict[str, Any]) -> None:
        self.api = self
        self.told = ""
        self._group = group

    def get(self, path: str, deployment: str | None) -> dict[str, Any]:
        return {"nodes": [], "groups": [self._group]}

    def data(self, text: str) -> None:
        self.told = text


@pytest.mark.parametrize(
    ("hosts", "code", "offer"),
    [
        ("aaab", 1, "place 1 anew: coterie deploy MANIFEST --recreate --node web/2"),
        ("aabb", 0, None),
    ],
)
def test_the_recreate_that_mends_a_bad_spread_is_offered(hosts: str, code: int, offer: str | None) -> None:
    members = [Member(f"web/{number}", host) for number, host in enumerate(hosts)]
    group = {"deployment": "shop", "name": "web", "cloud": "north", "state": "live", "notes": [], "remedy": ""}
    session = Session({**group, **audit("soft-anti-affinity", members, [], [])})
    assert inspect.unwrap(placement.audit.callback)(session, None) == code  # type: ignore[arg-type] # it has one
    assert ("mend" in session.told) == (offer is not None)
    assert (offer or "") in session.told
