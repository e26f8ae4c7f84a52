"""Progress on a terminal: a bar, the steps that run now, and above them what has happened."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live as RichLive
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from coterie.cli.show.plain import plain
from coterie.cli.watch.report import title
from coterie.client import Client
from coterie.times import clock, took

_LOOK_S = 0.4
_ROWS = 12
_STYLES = {"failed": "red", "retry": "yellow", "doubt": "yellow", "up": "green", "done": "green", "ready": "green"}


class Live:
    """The stream gives the events; a second thread reads the running steps a few times a second."""

    def __init__(self, client: Client, task: int, *, no_color: bool) -> None:
        self._client, self._task = client, task
        console = Console(stderr=True, no_color=no_color)
        self._live = RichLive(console=console, refresh_per_second=8, transient=True)
        self._spinner = Spinner("dots")
        self._over = threading.Event()
        self._looker = threading.Thread(target=self._look, daemon=True)

    def event(self, event: Mapping[str, Any]) -> None:
        style = _STYLES.get(event["kind"].rpartition(".")[2], "")
        words = Text(f"{clock(event['at'])}  ", style="dim")
        words.append(f"{plain(event['kind']):<16}  ", style=style)
        words.append(f"{plain(event['subject']):<20}  ", style="bold").append(plain(event["body"]), style=style)
        self._live.console.print(words)

    def __enter__(self) -> Self:
        self._live.__enter__()
        self._looker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._live.__exit__(kind, error, trace)

    def _look(self) -> None:
        while not self._over.wait(_LOOK_S):
            try:
                task = self._client.tasks.get(self._task)
                running = self._client.tasks.steps(self._task, state="running").listing(_ROWS)["items"]
            except Exception:  # noqa: S112 - only the display is late; the stream reports errors
                continue
            self._live.update(self._picture(task, running))

    def _picture(self, task: Mapping[str, Any], running: Sequence[Mapping[str, Any]]) -> Group:
        rows = Table.grid(padding=(0, 2))
        for step in running:
            texts = (Text(plain(step[name])) for name in ("subject", "flow", "label"))
            rows.add_row(self._spinner, *texts, took(step["started_at"], None))
        for reason in task["waiting"][:3]:
            rows.add_row("…", Text(plain(reason), style="yellow"))
        return Group(self._bar(task), rows)

    def _bar(self, task: Mapping[str, Any]) -> Table:
        steps = task["steps"]
        head = Table.grid(padding=(0, 2))
        bar = ProgressBar(total=max(1, steps["total"]), completed=steps["ended"], width=40)
        failed = Text(f"{steps['failed']} failed", style="red") if steps["failed"] else Text("")
        elapsed = took(task["created_at"], None)
        head.add_row(Text(title(task), style="bold"), bar, f"{steps['ended']}/{steps['total']}", elapsed, failed)
        return head
