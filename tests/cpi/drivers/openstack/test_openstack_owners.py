"""Whose a server is, by what is written on it. Needs no cloud."""

from __future__ import annotations

from coterie.cpi.contract import Mark
from coterie.cpi.drivers.openstack.marking import group_tag, owner_of, tags
from coterie.ids import Ids

OURS, THEIRS = "8d8c4a1e-54c2-4f8e-9d53-1f0b6f2a7c10", "4c8b51d7-1f0e-4a55-9a3b-6f1d20b7f0aa"


def test_a_server_is_whosever_mark_it_carries() -> None:
    ours, theirs = Mark(OURS, Ids().intent()), Mark(THEIRS, Ids().intent())
    assert owner_of(tags(ours), "web-0", OURS) == OURS
    assert owner_of(["env=prod", *tags(theirs)], "web-0", OURS) == THEIRS
    assert owner_of([], theirs.name("web"), OURS) == "4c8b51d71f"
    assert owner_of([], ours.name("web"), OURS) == OURS
    assert owner_of(["env=prod", group_tag("cg-x")], "web-0", OURS) is None
