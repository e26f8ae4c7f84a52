"""What a conductor obeys must be signed by a Director: steps and questions are checked before a cloud is opened."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import asdict
from time import monotonic
from typing import Any

from coterie.errors import Refused
from coterie.ledger.rows import director_keys
from coterie.ledger.rows.director_keys import DirectorKeys
from coterie.ledger.rows.facts import Wanted
from coterie.ledger.store import Ledger
from coterie.ledger.work.steps import Claim

_KNOWN_S = 5.0  # how long a removed key may still count


class NotSigned(Refused):
    """No Director has written this; it is not obeyed."""

    code = "not_signed"


class Signatures:
    """Safe for many threads."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lock = threading.Lock()
        self._known: DirectorKeys | None = None
        self._read_at = 0.0

    def read_signed(self, claim: Claim) -> Mapping[str, Any]:
        """The part of its data that says what the step is to do; all of it while signatures are not required."""
        if not claim.checked:
            row = {name: getattr(claim, name) for name in Claim.__slots__}
            if not self._keys(claim.signature).accept_step(row, claim.signature):
                raise _refusal(f"step {claim.id} ({claim.subject})")
            claim.checked = True
        names = claim.signature["names"] if claim.signature else claim.data
        return {name: claim.data[name] for name in names if name in claim.data}

    def require_question(self, question: Wanted) -> None:
        if not self._keys(question.signature).accept_question(asdict(question), question.signature):
            raise _refusal(f"the question {question.what.partition(':')[0]!r} about cloud {question.cloud}")

    def _keys(self, signature: Mapping[str, Any] | None) -> DirectorKeys:
        with self._lock:
            known, wanted = self._known, signature.get("key") if isinstance(signature, dict) else None
            old = monotonic() - self._read_at > _KNOWN_S
            if known is None or old or (wanted is not None and wanted not in known.keys):
                with self._ledger.read() as tx:
                    known = self._known = director_keys.read(tx)
                self._read_at = monotonic()
            return known


def _refusal(what: str) -> NotSigned:
    return NotSigned(
        f"{what} is not signed by a Director",
        why="its row was written or changed by something else than a Director of this release; no cloud was called",
        remedy="find out what writes to the database, then deploy again; while Directors of two releases run, set "
        "pin_release_version on the newer one",
    )
