"""What one CPI call costs: `info`, `has_vm`, `create_vm`, by the program alone and with the core process, against
`python3 -I -S -c pass` in the same run. Medians of CPU and wall time; a machine's own work is in its wall time, with
the core process not in the CPU time of the program. Asserts nothing; the cloud's calls are counted in `cpi_calls`.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coterie.bosh.launcher import program

ROUNDS = 15
SCRUBBED = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
Ask = Callable[[str, list[Any]], Any]


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cpi = _installed(folder)
        bare = _measure(lambda n: _run([sys.executable, "-I", "-S", "-c", "pass"], b""))
        print(f"{'python3 -I -S -c pass':<28} {_told(bare, bare)}")
        stemcell = _ask(cpi, "create_stemcell", [str(folder / "image"), {}])
        for mode in ("alone", "core"):
            with _core(folder) if mode == "core" else _nothing():
                _table(cpi, mode, stemcell, bare)


def _table(cpi: str, mode: str, stemcell: str, bare: tuple[float, float]) -> None:
    vm = _ask(cpi, "create_vm", _vm(f"{mode}-first", stemcell))[0]
    calls: dict[str, Callable[[int], list[Any]]] = {
        "info": lambda n: [],
        "has_vm": lambda n: [vm],
        "create_vm": lambda n: _vm(f"{mode}-{n}", stemcell),
    }
    for method, arguments in calls.items():
        cost = _measure(lambda n, method=method, arguments=arguments: _run([cpi], _request(method, arguments(n))))
        print(f"{method + ', ' + mode:<28} {_told(cost, bare)}")


def _installed(folder: Path) -> str:
    config = {
        "driver": "sandbox",
        "ledger": str(folder / "ledger.db"),
        "socket": str(folder / "cpi.sock"),
        "state": str(folder / "sandbox.db"),
    }
    (folder / "cpi.json").write_text(json.dumps(config))
    (folder / "image").write_bytes(b"image")
    launcher = folder / "cpi"
    launcher.write_text(program(str(folder / "cpi.json"), config["socket"]))
    launcher.chmod(0o755)
    return str(launcher)


@contextmanager
def _core(folder: Path) -> Iterator[None]:
    words = [sys.executable, "-m", "coterie.bosh.main", "serve", "--config", str(folder / "cpi.json")]
    core = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    while not (folder / "cpi.sock").exists():
        time.sleep(0.02)
    try:
        yield
    finally:
        core.terminate()
        core.wait()


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def _vm(agent: str, stemcell: str) -> list[Any]:
    size = {"cpu": 1, "ram_mb": 64, "disk_mb": 64, "zone": "z1"}
    env = {"bosh": {"group": "bosh-dep-web"}}
    return [agent, stemcell, size, {"default": {"type": "dynamic", "cloud_properties": {}}}, [], env]


def _request(method: str, arguments: list[Any]) -> bytes:
    context = {"director_uuid": "6f0d5a52-9a3c-4c55-b7a1-0c6b6d1f2e11"}
    return json.dumps({"method": method, "arguments": arguments, "context": context, "api_version": 2}).encode()


def _ask(cpi: str, method: str, arguments: list[Any]) -> Any:
    envelope = json.loads(_run([cpi], _request(method, arguments)))
    assert envelope["error"] is None, envelope
    return envelope["result"]


def _run(words: list[str], request: bytes) -> bytes:
    return subprocess.run(words, input=request, env=SCRUBBED, check=True, stdout=subprocess.PIPE).stdout


def _measure(call: Callable[[int], object]) -> tuple[float, float]:
    """Milliseconds of CPU in the started process, and on the wall."""
    spent = [_once(call, n) for n in range(ROUNDS)]
    return statistics.median(cpu for cpu, _ in spent), statistics.median(wall for _, wall in spent)


def _once(call: Callable[[int], object], n: int) -> tuple[float, float]:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    call(n)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu * 1000, wall * 1000


def _told(cost: tuple[float, float], bare: tuple[float, float]) -> str:
    (cpu, wall), (least_cpu, least_wall) = cost, bare
    return f"{cpu:>7.1f} ms CPU {cpu / least_cpu:>6.2f} ×   {wall:>7.1f} ms wall {wall / least_wall:>6.2f} ×"


if __name__ == "__main__":
    main()
