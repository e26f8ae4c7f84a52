"""The first admin token: written once for a new ledger, and announced only by the Director that wrote it."""

from __future__ import annotations

from pathlib import Path

from coterie.director.access.bootstrap import ensure_first_token
from coterie.ledger.store import Ledger


def test_a_further_director_announces_no_token_file_that_it_did_not_write(ledger: Ledger, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert ensure_first_token(ledger, first, has_other=False) and first.exists()
    assert not ensure_first_token(ledger, second, has_other=False)
    assert not second.exists()
    assert not ensure_first_token(ledger, first, has_other=False), "nor does the first one when it starts again"


def test_no_token_is_made_where_there_is_another_way_to_log_in(ledger: Ledger, tmp_path: Path) -> None:
    assert not ensure_first_token(ledger, tmp_path / "token", has_other=True)
    assert not (tmp_path / "token").exists()
