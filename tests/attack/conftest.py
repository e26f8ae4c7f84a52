from __future__ import annotations

from tests.director.access.conftest import locked, person
from tests.director.conftest import client, context, ledger

__all__ = ["client", "context", "ledger", "locked", "person"]
