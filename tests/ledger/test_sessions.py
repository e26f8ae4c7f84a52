"""Rows of sessions, on both databases."""

from __future__ import annotations

import pytest

from coterie.errors import NotFound
from coterie.ledger.rows import sessions
from coterie.ledger.store import Ledger
from coterie.ledger.views.page import Slice


def test_they_are_listed_by_name_and_ended(ledger: Ledger) -> None:
    with ledger.write() as tx:
        for number, name in enumerate(("ann", "bob", "ann")):
            caller = {"name": name, "role": "viewer", "teams": None, "how": "oidc", "detail": "", "proof": "secret"}
            sessions.add(tx, f"{number}" * 64, sessions.SESSION, caller, 60.0)
        sessions.add(tx, "a" * 64, sessions.LINK, {"name": "ann"}, 60.0)
        sessions.add(tx, "b" * 64, sessions.SESSION, {"name": "late"}, -1.0)
        listed = sessions.page(tx, Slice(), None).items
        assert [(one["id"], one["name"]) for one in listed] == [("0" * 16, "ann"), ("1" * 16, "bob"), ("2" * 16, "ann")]
        assert [one["id"] for one in sessions.page(tx, Slice(), "bob").items] == ["1" * 16]
        first = sessions.page(tx, Slice(2), None)
        assert [one["id"] for one in sessions.page(tx, Slice(2, first.next), None).items] == ["2" * 16]
        for unknown in ("b" * 16, "a" * 16, ""):
            with pytest.raises(NotFound):
                sessions.end_one(tx, unknown)
        sessions.end_one(tx, "0" * 16)
        assert sessions.end_all(tx, "ann") == 1
        assert sessions.link_caller(tx, "a" * 64) is None
        assert sessions.end_all(tx, None) == 1
        assert sessions.page(tx, Slice(), None).items == []
