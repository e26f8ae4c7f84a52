"""Rows of the console on both databases: sessions and links that end, and the history of manifests."""

from __future__ import annotations

import threading

from coterie.ledger.rows import deployments, sessions
from coterie.ledger.store import Ledger
from coterie.ledger.views import deployments as view
from coterie.ledger.views.page import Slice
from coterie.ledger.visibility import Visibility, limit_to
from tests.ledger.views import rows

CALLER = {"name": "ann", "role": "viewer"}


def test_a_session_is_known_until_it_ends(ledger: Ledger) -> None:
    with ledger.write() as tx:
        sessions.add(tx, "a", sessions.SESSION, CALLER, 60.0)
        sessions.add(tx, "b", sessions.SESSION, CALLER, -1.0)
    with ledger.read() as tx:
        assert sessions.caller_of(tx, "a") == CALLER
        assert sessions.caller_of(tx, "b") is None
    with ledger.write() as tx:
        sessions.end(tx, "a")
    with ledger.read() as tx:
        assert sessions.caller_of(tx, "a") is None


def test_a_link_is_no_session_and_a_session_no_link(ledger: Ledger) -> None:
    with ledger.write() as tx:
        sessions.add(tx, "link", sessions.LINK, CALLER, 60.0)
        sessions.add(tx, "session", sessions.SESSION, CALLER, 60.0)
        assert sessions.take_link(tx, "session") is None
        assert sessions.caller_of(tx, "link") is None


def test_of_two_browsers_with_one_link_one_is_logged_in(ledger: Ledger) -> None:
    with ledger.write() as tx:
        sessions.add(tx, "link", sessions.LINK, CALLER, 60.0)
    taken: list[object] = []

    def take() -> None:
        with ledger.write() as tx:
            taken.append(sessions.take_link(tx, "link"))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(map(str, taken)) == ["None", "None", "None", str(CALLER)]


def test_the_newest_manifests_are_kept_and_those_of_others_left_alone(ledger: Ledger) -> None:
    with ledger.write() as tx:
        deployments.add_to_history(tx, "other", "theirs", None)
        for n in range(55):
            deployments.add_to_history(tx, "web", f"text {n}", "ann")
    with ledger.read() as tx:
        found = view.manifest_page(tx, "web", Slice(100)).items
        assert len(found) == 50
        assert view.old_manifest(tx, "web", found[0]["id"])["body"] == "text 54"
        assert len(view.manifest_page(tx, "other", Slice(100)).items) == 1


def test_a_team_sees_the_manifests_of_its_own_deployments(ledger: Ledger) -> None:
    with ledger.write() as tx:
        for name in ("web", "shop"):
            deployments.add_to_history(tx, name, "text", None)
    rows.put(ledger, "ownerships", deployment="web", team="red")
    with limit_to(Visibility(frozenset({"red"}), "ann")), ledger.read() as tx:
        assert len(view.manifest_page(tx, "web", Slice()).items) == 1
        assert view.manifest_page(tx, "shop", Slice()).items == []
