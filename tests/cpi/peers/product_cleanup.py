"""The product's own cleanup, for tests that kill a driver: what has a mark of ours and no record goes at once."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from coterie.cleanup.cpi_method import CleanupArgs, NoRecords, cleanup
from coterie.cleanup.options import DELETION_ORDER
from coterie.cpi.contract import CloudObject, Cpi

AT_ONCE = CleanupArgs(dry_run=False, grace_s=0.0, cap=10_000, cap_percent=100.0)
_RUNS = 5  # what something else uses goes when that is gone


class Ages(NoRecords):
    """As a ledger's: when the intent of an object was written, where the cloud does not say when it was made."""

    def complete(self, found: CloudObject) -> CloudObject:
        return replace(found, created_at=0.0) if found.created_at is None else found


def clean(cpi: Cpi, director_uuid: str, known: Collection[str]) -> None:
    """Until a run finds nothing to delete; the next tries again what failed. `known`: CIDs that the ledger has."""
    failed: dict[str, Any] = {}
    for _ in range(_RUNS):
        report = cleanup(cpi, director_uuid, dict.fromkeys(DELETION_ORDER, known), AT_ONCE, Ages())
        assert not any(one["stopped"] for one in report.values()), report
        failed = {kind: one["failed"] for kind, one in report.items() if one["failed"]}
        if not failed and not any(one["deleted"] for one in report.values()):
            return
    raise AssertionError(f"cleanup is not done after {_RUNS} runs: {failed}")
