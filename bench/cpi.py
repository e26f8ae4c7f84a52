"""What one CPI call costs: `info`, `has_vm`, `create_vm`, `delete_vm`, by the program alone and with the core process,
beside `python3 -I -S -c pass` in the same run: medians of CPU and wall time, and their ratios to those of the bare
interpreter. With the core process its own CPU is told apart. The first call of all, which makes the ledger, is printed
once. Then the same with the driver of AWS, whose cloud runs in this process, and what loading botocore costs. Asserts
nothing; the cloud's calls are counted in `cpi_calls`.
"""

from __future__ import annotations

import json
import os
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
from coterie.sandbox.accounts import open_account
from coterie.sandbox.datacenter import open_datacenter
from coterie.sandbox.fronts.aws.server import Server

ROUNDS = 15
IMPORTS = {
    "import coterie.cpi.drivers.aws": "import coterie.cpi.drivers.aws.driver",
    "and a client of botocore": "import coterie.cpi.drivers.aws.driver, botocore.session; "
    "botocore.session.Session().create_client('ec2', region_name='eu-central-1')",
}
SIZES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "sandbox": ({"cpu": 1, "ram_mb": 64, "disk_mb": 64, "zone": "z1"}, {}),
    "aws": ({"instance_type": "t3.nano", "availability_zone": "z1"}, {"subnet": "subnet-z1"}),
}
SCRUBBED = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
Ask = Callable[[str, list[Any]], Any]


def main() -> None:
    bare = _measure(lambda n: _run([sys.executable, "-I", "-S", "-c", "pass"], b""))
    print(f"{'python3 -I -S -c pass':<34} {_told(bare, bare)}")
    for what, words in IMPORTS.items():
        cost = _measure(lambda n, words=words: _run([sys.executable, "-c", words], b""))
        print(f"{what:<34} {_told(cost, bare)}")
    for driver in ("sandbox", "aws"):
        with tempfile.TemporaryDirectory() as name, _cloud(driver, Path(name)) as properties:
            _bench(driver, Path(name), properties, bare)


def _bench(driver: str, folder: Path, properties: dict[str, Any], bare: tuple[float, float]) -> None:
    cpi = _installed(folder, driver, properties)
    made: list[str] = []
    image = _request("create_stemcell", [str(folder / "image"), {}])
    first = _once(lambda n: made.append(_result(_run([cpi], image))), 0)
    print(f"{driver + ': first call, makes the ledger':<34} {_told(first, bare)}")
    for mode in ("alone", "core"):
        with _core(folder) if mode == "core" else _nothing() as core:
            _table(driver, cpi, mode, made[0], bare, core)


def _table(driver: str, cpi: str, mode: str, stemcell: str, bare: tuple[float, float], core: int | None) -> None:
    vm = _ask(cpi, "create_vm", _vm(driver, f"{mode}-first", stemcell))[0]
    doomed = [_ask(cpi, "create_vm", _vm(driver, f"{mode}-doomed-{n}", stemcell))[0] for n in range(ROUNDS)]
    calls: dict[str, Callable[[int], list[Any]]] = {
        "info": lambda n: [],
        "has_vm": lambda n: [vm],
        "create_vm": lambda n: _vm(driver, f"{mode}-{n}", stemcell),
        "delete_vm": lambda n: [doomed[n]],
    }
    for method, arguments in calls.items():
        before = _cpu_ms(core) if core else 0.0
        cost = _measure(lambda n, method=method, arguments=arguments: _run([cpi], _request(method, arguments(n))))
        own = f"   and {(_cpu_ms(core) - before) / ROUNDS:.1f} ms CPU in the core" if core else ""
        print(f"{driver + ': ' + method + ', ' + mode:<34} {_told(cost, bare)}{own}")


def _cpu_ms(process: int) -> float:
    """User and system time so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


@contextmanager
def _cloud(driver: str, folder: Path) -> Iterator[dict[str, Any]]:
    """The properties of the cloud, while it runs."""
    if driver == "sandbox":
        yield {"state": str(folder / "sandbox.db")}
        return
    server = Server(open_account(open_datacenter(folder / "aws.db"), "bench"))
    server.start()
    keys = {"region": "eu-central-1", "access_key_id": "a", "secret_access_key": "b"}
    yield {**keys, "endpoint": server.endpoint, "default_availability_zone": "z1", "poll_s": 0.01, "settle_s": 1}
    server.close()


def _installed(folder: Path, driver: str, properties: dict[str, Any]) -> str:
    config = {
        "driver": driver,
        "ledger": str(folder / "ledger.db"),
        "socket": str(folder / "cpi.sock"),
        "properties": properties,
    }
    (folder / "cpi.json").write_text(json.dumps(config))
    (folder / "image").write_bytes(b"image")
    launcher = folder / "cpi"
    launcher.write_text(program(str(folder / "cpi.json"), config["socket"]))
    launcher.chmod(0o755)
    return str(launcher)


@contextmanager
def _core(folder: Path) -> Iterator[int]:
    words = [sys.executable, "-m", "coterie.bosh.main", "serve", "--config", str(folder / "cpi.json")]
    core = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    while not (folder / "cpi.sock").exists():
        time.sleep(0.02)
    try:
        yield core.pid
    finally:
        core.terminate()
        core.wait()


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def _vm(driver: str, agent: str, stemcell: str) -> list[Any]:
    size, network = SIZES[driver]
    env = {"bosh": {"group": "bosh-dep-web"}}
    return [agent, stemcell, size, {"default": {"type": "dynamic", "cloud_properties": network}}, [], env]


def _request(method: str, arguments: list[Any]) -> bytes:
    context = {"director_uuid": "6f0d5a52-9a3c-4c55-b7a1-0c6b6d1f2e11"}
    return json.dumps({"method": method, "arguments": arguments, "context": context, "api_version": 2}).encode()


def _ask(cpi: str, method: str, arguments: list[Any]) -> Any:
    return _result(_run([cpi], _request(method, arguments)))


def _result(answer: bytes) -> Any:
    envelope = json.loads(answer)
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
