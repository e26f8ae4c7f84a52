"""The client: every operation of a Director's REST API with types, and waiting for tasks. Standard library only."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from coterie.client import operations
from coterie.client.api import Api
from coterie.client.routes import TcpRoute, route_of
from coterie.client.stream import follow
from coterie.errors import CoterieError

if TYPE_CHECKING:
    from coterie.client.resources import Event, TaskDetail


class TaskFailed(CoterieError):
    """A task failed or was cancelled; `task` is how it ended."""

    code = "task_failed"

    def __init__(self, task: TaskDetail) -> None:
        failures: list[dict[str, Any]] = (task["report"] or {}).get("failures") or []
        first: dict[str, Any] = (failures[0].get("error") or {}) if failures else {}
        super().__init__(
            f"task {task['id']} ({task['kind']}) {'was cancelled' if task['state'] == 'cancelled' else 'failed'}",
            why=first.get("what") or "",
            remedy=first.get("remedy") or "what is done stays done: mend the cause, and start the same work again",
        )
        self.task = task


class Client:
    """A Director at https://…, http://… or unix:PATH. Each noun of the API is an attribute, each operation its method.

    Work that is started returns the number of its task: see `wait` and `follow`. May be used by several threads.
    """

    def __init__(
        self,
        url: str = "",
        *,
        token: str | None = None,
        ca: str | Path | None = None,
        plain_http: bool = False,
        api: Api | None = None,
    ) -> None:
        """`ca`: a file of certificates to check the Director's against. `api`: in place of a URL, your own requests."""
        self._api = api or Api(route_of(url, token=token, ca=ca, plain_http=plain_http))
        self.cleanups = operations.CleanupsOperations(self._api)
        self.cloud_config = operations.CloudConfigOperations(self._api)
        self.clouds = operations.CloudsOperations(self._api)
        self.conductors = operations.ConductorsOperations(self._api)
        self.console = operations.ConsoleOperations(self._api)
        self.deployments = operations.DeploymentsOperations(self._api)
        self.director = operations.DirectorOperations(self._api)
        self.disks = operations.DisksOperations(self._api)
        self.events = operations.EventsOperations(self._api)
        self.explain = operations.ExplainOperations(self._api)
        self.groups = operations.GroupsOperations(self._api)
        self.health = operations.HealthOperations(self._api)
        self.keys = operations.KeysOperations(self._api)
        self.looks = operations.LooksOperations(self._api)
        self.nodes = operations.NodesOperations(self._api)
        self.objects = operations.ObjectsOperations(self._api)
        self.placement = operations.PlacementOperations(self._api)
        self.plans = operations.PlansOperations(self._api)
        self.recoveries = operations.RecoveriesOperations(self._api)
        self.ring = operations.RingOperations(self._api)
        self.stemcells = operations.StemcellsOperations(self._api)
        self.targets = operations.TargetsOperations(self._api)
        self.tasks = operations.TasksOperations(self._api)
        self.tokens = operations.TokensOperations(self._api)

    @property
    def is_remote(self) -> bool:
        """Whether it is reached over TCP."""
        return isinstance(self._api.route, TcpRoute)

    def follow(
        self,
        task: int | None = None,
        *,
        kind: str | None = None,
        without: str | None = None,
        timeout: float | None = None,
    ) -> Iterator[Event]:
        """The events of a task from its first to its last, as they happen; without a task those of all, from now on:
        of this kind only, or without the begin and end of tasks of a kind, such as `look`.

        A cut stream is taken up again where it broke. Raises TimedOut after `timeout` seconds; the task goes on.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        wanted = urlencode({name: one for name, one in (("kind", kind), ("without", without)) if one is not None})
        path = f"/v1/events?{wanted}" if task is None else f"/v1/tasks/{task}/events"
        return (message.data for message in follow(self._api, path, deadline) if message.kind != "end")

    def wait(self, task: int, *, timeout: float | None = None) -> TaskDetail:
        """Wait until a task is done, and return it. Raises TaskFailed if it failed or was cancelled, and TimedOut."""
        for _ in self.follow(task, timeout=timeout):
            pass
        ended = self.tasks.get(task)
        if ended["state"] != "done":
            raise TaskFailed(ended)
        return ended

    def versions(self) -> dict[str, str | None]:
        """The Director's release, and the versions of the API that it supports."""
        told = {name.lower(): value for name, value in self._api.send("GET", "/livez").headers.items()}
        names = ("coterie-version", "coterie-api-version", "coterie-api-minimum-version", "coterie-api-maximum-version")
        return {name: told.get(name) for name in names}
