"""PostgreSQL's rows one by one, for the sake of those who wait for a process that was paused.

Psycopg sends many rows as one pipeline. A process that is stopped while it does so leaves a server that is neither idle
nor at work: no time-out of PostgreSQL 15 ends its transaction, and what it has locked stays locked until it wakes up.
Between single statements it is idle, and `idle_in_transaction_session_timeout` ends it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import psycopg


class OneByOne(psycopg.Cursor[Any]):
    def executemany(self, query: Any, params_seq: Iterable[Any], *, returning: bool = False) -> None:
        for params in params_seq:
            self.execute(query, params)
