"""A foreign CPI program as something to ask: negotiates the version with `info`, then one process per question."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from typing import Any, TypeVar

from coterie.cpi.contract import CpiError, InvalidCall, Json, Mark, NotImplementedHere, NotSupported
from coterie.cpi.drivers.exec.process import Finished, Limits, run
from coterie.cpi.drivers.exec.settings import Settings
from coterie.cpi.kit.call_limit import CallLimit
from coterie.cpi.wire import HIGHEST, Method, broken_answer, read_response, write_request
from coterie.cpi.wire.envelope import MAX_RESPONSE
from coterie.cpi.wire.request import env_of
from coterie.cpi.wire.table import INFO
from coterie.redact import Redactor, hide_in_error

T = TypeVar("T")
MAX_STDERR = 64 * 1024
_log = logging.getLogger(__name__)


class Program:
    def __init__(
        self, cloud: str, settings: Settings, director_uuid: str, limit: CallLimit, exec_paths: Sequence[str]
    ) -> None:
        self._cloud = cloud
        self._exec_paths = exec_paths
        self._limit = limit
        self._settings = settings
        self._context = settings.context(director_uuid)
        self._info: Json | None = None

    def ask(self, method: Method[T], *arguments: Any, mark: Mark | None = None) -> T:
        version = self.info()["api_version"]
        return self._ask(method, arguments, version, mark)

    def info(self) -> Json:
        """What the program said of itself; `api_version` is the one that we speak with it. Asked once."""
        # Two threads may both ask first: the answers are equal, so no lock.
        if self._info is None:
            self._info = self._negotiate(self._introduced())
        return self._info

    def _introduced(self) -> Json:
        try:
            return self._ask(INFO, (), None, None)
        except NotImplementedHere:
            return {"api_version": 1}

    def _negotiate(self, said: Json) -> Json:
        highest = said["api_version"]
        if highest < 2:
            raise NotSupported(
                f"the CPI program of cloud {self._cloud!r} speaks api_version {highest} only",
                why="version 1 needs the registry, which stemcells no longer read",
                remedy=f"install a release of the CPI at {self._settings.path} whose `info` reports api_version 2 or 3",
            )
        return {**said, "api_version": min(highest, HIGHEST)}

    def _ask(self, method: Method[T], arguments: tuple[Any, ...], version: int | None, mark: Mark | None) -> T:
        request = write_request(method, arguments, self._context, version, mark)
        sent = json.loads(request)
        redactor = Redactor(sent, secret=[self._settings.properties, env_of(sent)], public=[self._cloud])
        finished = self._run(request)
        self._note(method, "stderr", finished.stderr.decode("utf-8", "replace"), redactor)
        try:
            if finished.trouble:
                raise broken_answer(method, finished.trouble)
            return read_response(
                method, finished.stdout, version or 1, lambda log: self._note(method, "log", log, redactor)
            )
        except CpiError as error:
            hide_in_error(error, redactor)
            error.remedy = error.remedy or _remedy(error)  # never without one
            raise

    def _run(self, request: bytes) -> Finished:
        path = self._allowed_path()
        limits = Limits(self._settings.timeout_s, MAX_RESPONSE, MAX_STDERR)
        try:
            with self._limit:
                return run(path, request, self._settings.environment(), limits)
        except OSError as error:
            raise InvalidCall(
                f"the CPI program of cloud {self._cloud!r} cannot be started",
                why=f"{self._settings.path}: {error.strerror}",
                remedy="correct the property `path`, or make the file executable",
            ) from None

    def _allowed_path(self) -> str:
        """As the settings of this machine have it. Looked up for each call: links on the way may have changed."""
        wanted = self._settings.path
        for path in self._exec_paths:
            if os.path.realpath(path) == os.path.realpath(wanted):
                return path
        raise NotSupported(
            f"the CPI program of cloud {self._cloud!r} may not be run here",
            why=f"{wanted} is not in `exec_paths`, a setting of this machine that no cloud config can change",
            remedy=f"to allow it, add {wanted} to exec_paths of the conductor (COTERIE_EXEC_PATHS), or to exec_paths "
            "in the configuration of coterie-cpi, and start that again",
        )

    def _note(self, method: Method[Any], source: str, text: str, redactor: Redactor) -> None:
        for line in redactor.hide(text[-MAX_STDERR:]).splitlines():
            _log.info("%s: %s %s: %s", self._cloud, method.name, source, line)


def _remedy(error: CpiError) -> str:
    if isinstance(error, NotImplementedHere):
        return "add the method to the property `lacks` of the cloud, so that plans do without it"
    return "look up the message in the documentation of the CPI program; its log is in ours"
