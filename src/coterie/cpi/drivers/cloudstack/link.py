"""One HTTP connection per thread to the management server, through a proxy and with TLS where the settings say so.

What went wrong on the way is told apart: not taken, or taken and its answer lost.
"""

from __future__ import annotations

import http.client
import threading
import time
from urllib.parse import urlsplit

from coterie.cpi.contract import CpiError, OutcomeUnknown, Unavailable
from coterie.cpi.drivers.cloudstack.connections import connection_to
from coterie.cpi.drivers.cloudstack.properties import Settings

_FRESH_S = 5.0  # an idle connection older than this may have been closed by the other side without a word


class Link:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._where = urlsplit(settings.endpoint)
        self._mine = threading.local()

    def post(self, body: str, *, changes: bool) -> tuple[int, bytes]:
        """Status and body of the answer. `changes`: whether a lost answer leaves something in doubt."""
        connection = self._connection()
        try:
            connection.request(
                "POST", self._path(), body.encode(), {"content-type": "application/x-www-form-urlencoded"}
            )
            answer = connection.getresponse()
            raw = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise self._lost(error, changes) from error
        self._mine.used_at = time.monotonic()
        return answer.status, raw

    def close(self) -> None:
        connection = getattr(self._mine, "connection", None)
        if connection is not None:
            connection.close()
        self._mine.connection = None

    def _connection(self) -> http.client.HTTPConnection:
        kept: http.client.HTTPConnection | None = getattr(self._mine, "connection", None)
        if kept is not None and time.monotonic() - self._mine.used_at < _FRESH_S:
            return kept
        self.close()
        made = connection_to(self._where, self._settings)
        try:
            made.connect()
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error
        self._mine.connection, self._mine.used_at = made, time.monotonic()
        return made

    def _path(self) -> str:
        return self._where.path or "/client/api"

    def _lost(self, error: Exception, changes: bool) -> CpiError:
        what = f"the answer of CloudStack at {self._where.hostname} was lost"
        if not changes:
            return Unavailable(what, why=_words(error), remedy="repeat")
        return OutcomeUnknown(what, why=_words(error), remedy="look for what it may have made before repeating it")

    def _unreachable(self, error: Exception) -> Unavailable:
        return Unavailable(
            f"CloudStack at {self._where.hostname}:{self._where.port or ''} cannot be reached",
            why=_words(error),
            remedy="check properties.endpoint, the network, the proxy and the TLS certificate",
        )


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
