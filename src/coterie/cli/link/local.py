"""The route to the local Director: starts it when it does not run, replaces one of another release when it is idle."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from coterie import __version__
from coterie.cli.link.route import Say
from coterie.client import ApiProblem, Client
from coterie.client.api import Api
from coterie.client.routes import Connection, UnixRoute, connect_unix
from coterie.director.process.state_folder import Lock, StateFolder, read_holder
from coterie.errors import Unreachable

if TYPE_CHECKING:
    from coterie.cli.link.spawn import Child
    from coterie.client.resources import Info

_START_S = 60.0
_INFO_S = 30.0


class LocalRoute:
    token: str | None = None
    prefix = ""

    def __init__(self, state_folder: StateFolder, *, foreground: bool, say: Say) -> None:
        self._state_folder = state_folder
        self._foreground = foreground
        self._say = say
        self._ours: Child | None = None
        self._looked = False

    def open(self, timeout: float) -> Connection:
        try:
            self._look_at_release()
            return connect_unix(self._state_folder.socket, timeout)
        except OSError:
            self._start()
            return connect_unix(self._state_folder.socket, timeout)

    def close(self) -> None:
        if self._ours is not None:
            self._ours.end()

    def _start(self) -> None:
        from coterie.cli.link import spawn  # imported only to start or stop a Director

        self._state_folder.prepare()
        start_lock = Lock(self._state_folder.start_lock)
        start_lock.take(wait=True)
        try:
            if spawn.answers(self._state_folder):
                return  # another command was faster
            child = self._await(spawn.start(self._state_folder, foreground=self._foreground))
            self._ours = child if self._foreground else None
        finally:
            start_lock.release()
        for task in info(self._state_folder)["resumed"]:
            self._say(f"resumed task {task['id']} ({task['kind']} {task['deployment'] or ''})".replace(" )", ")"))

    def _await(self, child: Child) -> Child:
        """Wait until a Director answers. If our child gave way to another one that then ended, start again."""
        from coterie.cli.link import spawn

        give_up = time.monotonic() + _START_S
        while not spawn.answers(self._state_folder):
            if child.has_failed():
                raise spawn.explain(self._state_folder)
            if child.has_ended():
                child = spawn.start(self._state_folder, foreground=self._foreground)
            if time.monotonic() > give_up:
                raise Unreachable(
                    "the local Director does not come up",
                    why=f"it did not answer within {_START_S:.0f} s",
                    remedy=f"look into {self._state_folder.log}",
                )
            time.sleep(0.02)
        return child

    def _look_at_release(self) -> None:
        if self._looked:
            return
        self._looked = True
        running = read_holder(self._state_folder.lock)
        if running is None or running.version == __version__:
            return
        unfinished = info(self._state_folder)["unfinished"]
        if unfinished:
            self._say(
                f"the local Director is release {running.version}, this command {__version__}: "
                f"it is replaced once task {unfinished[0]['id']} has ended"
            )
            return
        from coterie.cli.link import spawn

        self._say(f"replacing the local Director {running.version} by {__version__}")
        spawn.stop(self._state_folder)


def info(state_folder: StateFolder) -> Info:
    route = UnixRoute(state_folder.socket, "the state folder")
    try:
        return Client(api=Api(route, tries=1, timeout_s=_INFO_S)).director.info()
    except (Unreachable, ApiProblem) as error:
        raise OSError(str(error)) from error
