"""Where processes under test are born: a single-threaded program that has imported everything and forks on demand.

As a program it reads orders from its standard input; `Nursery` is the test's end of that pipe.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from coterie.cpi.load import driver_class, driver_names
from coterie.requests import request, start
from tests.faults import outages
from tests.kill import scenario
from tests.kill.director import CONFIG_FILE, Director
from tests.kill.foreign import plant
from tests.kill.order import Order
from tests.kill.points import Tracer
from tests.kill.world import new_world
from tests.ledger import shortcuts

ROLES = {
    "director": "tests.kill.director",
    "conductor": "tests.kill.lone_conductor",
    "creator": "tests.faults.creator",
    "cleaner": "tests.cleanup.cleaner",
}
_REHEARSED = ("create", "upgrade", "delete")
_ROOT = Path(__file__).parents[2]
FAILED = 1


class Nursery:
    """Starts processes and waits for them. Ends with its block, and so does everything that it started."""

    def __init__(self) -> None:
        self._program = subprocess.Popen(
            [sys.executable, "-m", "tests.kill.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=_ROOT,
        )

    def start(self, order: Order) -> int:
        """The new process's id."""
        return self._ask({"start": order.wire()})

    def wait(self, pid: int) -> int:
        """How it ended: its exit status, or the negative number of the signal that killed it."""
        return self._ask({"wait": pid})

    def run(self, order: Order) -> int:
        return self.wait(self.start(order))

    def _ask(self, question: dict[str, Any]) -> int:
        assert self._program.stdin and self._program.stdout
        self._program.stdin.write(json.dumps(question) + "\n")
        self._program.stdin.flush()
        return int(self._program.stdout.readline())

    def __enter__(self) -> Nursery:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._program.stdin
        self._program.stdin.close()
        self._program.wait()


def main() -> None:
    _warm_up()
    children: set[int] = set()
    for line in sys.stdin:
        question = json.loads(line)
        if "start" in question:
            answer = _fork(Order.of_wire(question["start"]))
            children.add(answer)
        else:
            _, status = os.waitpid(question["wait"], 0)
            children.discard(question["wait"])
            answer = os.waitstatus_to_exitcode(status)
        print(answer, flush=True)
    for child in children:
        os.kill(child, signal.SIGKILL)


def _warm_up() -> None:
    for module in ROLES.values():
        importlib.import_module(module)
    driver_class("sandbox")
    _remember_documents()
    shortcuts.install()
    _rehearse()
    gc.collect()
    gc.freeze()


def _remember_documents() -> None:
    """Reading YAML is not what dies here, and would cost most of the time: each text is read once, before any fork."""
    for room, name in ((request, "load_both"), (request, "load_cloud_config"), (start, "load_cloud_config")):
        setattr(room, name, _remembered(getattr(room, name)))
    config = scenario.cloud_config()
    start.load_cloud_config(config, CONFIG_FILE, drivers=driver_names())
    for phase in scenario.phases():
        asked = request.PlanRequest(deployment=scenario.DEPLOYMENT, manifest=phase.text, config_file=CONFIG_FILE)
        request._read_both(asked, phase.text, config)


def _remembered(read: Callable[..., Any]) -> Callable[..., Any]:
    known: dict[str, Any] = {}

    def remember(*args: Any, **kwargs: Any) -> Any:
        key = repr((args, kwargs))
        if key not in known:
            known[key] = read(*args, **kwargs)
        return known[key]

    return remember


def _rehearse() -> None:
    """What is done for the first time costs more: one life of a deployment is paid for here, not after each fork."""
    with tempfile.TemporaryDirectory() as folder:
        world = new_world(Path(folder) / "world", None)
        with world.operator() as account:
            plant(account)
        for phase in scenario.phases():
            if phase.name in _REHEARSED:
                order = Order("director", world.url, str(world.folder), phase)
                director = Director(order, Tracer(order.trace, None))
                director.conductor.start()
                director.carry_out(phase)
                director.close()
    left = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
    assert not left, f"a fork would lose the threads {left}"


def _fork(order: Order) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = FAILED
    try:
        _live(order)
        status = 0
    finally:
        os._exit(status)


def _live(order: Order) -> None:
    log = os.open(order.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for standard in (0, 1, 2):
        os.dup2(log, standard)
    try:
        if order.outages:
            outages.install(outages.INJECTED, partial(_note, order.struck))
        result = importlib.import_module(ROLES[order.role]).run(order)
        order.result.write_text(json.dumps(result))
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        raise


def _note(file: Path, line: str) -> None:
    with file.open("a") as out:
        out.write(line + "\n")


if __name__ == "__main__":
    main()
