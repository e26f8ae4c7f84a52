"""Witness: a second opinion on what a cloud shows, for callers of `sweep` that have records of their own."""

from __future__ import annotations

from typing import Protocol

from coterie.cleanup.known import Finding
from coterie.cpi.contract import CloudObject


class Witness(Protocol):
    def completed(self, found: CloudObject) -> CloudObject:
        """The object with facts that the cloud does not tell, as far as the records have them; only judged by."""

    def overruled(self, finding: Finding) -> Finding:
        """The finding, or a milder one: a witness never makes an orphan of anything."""


class NoWitness:
    """For those who know nothing but CIDs."""

    def completed(self, found: CloudObject) -> CloudObject:
        return found

    def overruled(self, finding: Finding) -> Finding:
        return finding
