"""Starts programs by fork from one warm process: hundreds of real processes at the price of their work alone."""

from __future__ import annotations

import gc
import importlib
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.kill.points import Point, Tracer

_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Order:
    """One call of the program; its answer goes to a file. With a `trace` it is watched, at `target` killed."""

    config: str
    request: str
    answer: str
    trace: str | None = None
    target: Point | None = None

    @staticmethod
    def of_wire(value: dict[str, Any]) -> Order:
        return Order(**{**value, "target": Point(**value["target"]) if value["target"] else None})


class Nursery:
    def __init__(self) -> None:
        words = [sys.executable, "-m", "tests.bosh.nursery"]
        source = str(Path(sys.modules["coterie"].__file__ or "").parents[1])
        env = {**os.environ, "PYTHONPATH": source}
        self._program = subprocess.Popen(words, stdin=-1, stdout=-1, text=True, cwd=_ROOT, env=env)

    def run(self, *orders: Order) -> list[int]:
        """All at once; how each ended: its exit status, or the negative number of its signal."""
        assert self._program.stdin and self._program.stdout
        self._program.stdin.write(json.dumps([asdict(order) for order in orders]) + "\n")
        self._program.stdin.flush()
        statuses: list[int] = json.loads(self._program.stdout.readline())
        return statuses

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
    for line in sys.stdin:
        children = [_fork(Order.of_wire(order)) for order in json.loads(line)]
        statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        print(json.dumps(statuses), flush=True)


def _warm_up() -> None:
    """One whole life in a folder that is thrown away, so that the children find everything imported."""
    from tests.bosh.program import Shop

    for name in (
        "tests.kill.interception",
        "coterie.cpi.drivers.cloudstack.driver",
        "sqlalchemy.dialects.postgresql.psycopg",
        "psycopg",
    ):
        importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        shop = Shop(Path(folder))
        shop.call("delete_vm", shop.create_vm("agent", shop.stemcell(), group="bosh-dep-web"))
        shop.cleanup()
    gc.collect()
    gc.freeze()


def _fork(order: Order) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        _live(order)
        status = 0
    finally:
        os._exit(status)


def _live(order: Order) -> None:
    from coterie.bosh.client.in_process import respond
    from tests.kill.interception import install

    tracer = Tracer(Path(order.trace), order.target) if order.trace else None
    if tracer:
        install(tracer)
        _around_api(tracer)

    def write(answer: bytes) -> None:
        if tracer:
            tracer.reach("answer", "before")
        Path(order.answer).write_bytes(answer)

    respond(order.request.encode(), order.config, write=write)


def _around_api(tracer: Tracer) -> None:
    """Calls that change a CloudStack cloud; the others leave it as it is, and how often a job is asked after varies."""
    from coterie.cpi.drivers.cloudstack.client import Client

    original = Client.request

    def request(self: Client, command: str, parameters: Any, *, changes: bool) -> Any:
        if not changes:
            return original(self, command, parameters, changes=changes)
        tracer.reach(f"cloud {command}", "before")
        answer = original(self, command, parameters, changes=changes)
        tracer.reach(f"cloud {command}", "after")
        return answer

    Client.request = request  # type: ignore[method-assign]  # this process is there to be watched


if __name__ == "__main__":
    main()
