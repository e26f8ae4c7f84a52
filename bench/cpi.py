"""What one CPI call costs: `info`, `has_vm`, `create_vm`, `delete_vm`, by the program alone and with the core process,
on the sandbox and on AWS, Azure and Google Cloud, whose simulated clouds run in this process.

The drivers take turns, call by call, so that they are measured under the same load: the least CPU time of the program
and its ratio to the sandbox's, the medians of CPU and wall time; with the core process its own CPU is told apart.
Before it what the bare interpreter costs, and what loading a driver and its vendor's library costs. The first call,
which makes the ledger, is printed once. Asserts nothing; the cloud's calls are counted in `cpi_calls`.
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
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from coterie.bosh.launcher import program
from coterie.sandbox.accounts import open_account
from coterie.sandbox.datacenter import open_datacenter
from coterie.sandbox.fronts.aws.server import Server

ROUNDS = 15
_CLIENT = "botocore.session.Session().create_client('ec2', region_name='eu-central-1')"
_CREDENTIAL = "azure.identity.ClientSecretCredential"
IMPORTS = {
    "import coterie.cpi.drivers.sandbox": "import coterie.cpi.drivers.sandbox.driver",
    "import coterie.cpi.drivers.aws": "import coterie.cpi.drivers.aws.driver",
    "and a client of botocore": f"import coterie.cpi.drivers.aws.driver, botocore.session; {_CLIENT}",
    "import coterie.cpi.drivers.azure": "import coterie.cpi.drivers.azure.driver",
    "and azure-identity": f"import coterie.cpi.drivers.azure.driver, azure.identity; {_CREDENTIAL}",
    "import coterie.cpi.drivers.gcp": "import coterie.cpi.drivers.gcp.driver",
    "and google-auth": "import coterie.cpi.drivers.gcp.driver, google.oauth2.service_account",
}
SIZES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "sandbox": ({"cpu": 1, "ram_mb": 64, "disk_mb": 64, "zone": "z1"}, {}),
    "aws": ({"instance_type": "t3.nano", "availability_zone": "z1"}, {"subnet": "subnet-z1"}),
    "azure": ({"instance_type": "Standard_B1s"}, {}),
    "gcp": ({"machine_type": "f1-micro", "zone": "z1"}, {}),
}
SCRUBBED = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
Ask = Callable[[str, list[Any]], Any]


@dataclass
class Bench:
    """One driver with its cloud. `core`: the process id of its core process while one runs."""

    driver: str
    cpi: str
    stemcell: str
    core: int = 0


def main() -> None:
    bare = _measure([lambda n: _run([sys.executable, "-I", "-S", "-c", "pass"], b"")])[0]
    print(f"{'python3 -I -S -c pass':<36} {_told(bare, bare)}")
    costs = _measure([lambda n, words=words: _run([sys.executable, "-c", words], b"") for words in IMPORTS.values()])
    for what, cost in zip(IMPORTS, costs, strict=True):
        print(f"{what:<36} {_told(cost, bare)}")
    with ExitStack() as stack:
        benches = []
        for driver in SIZES:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            cpi = _installed(folder, driver, stack.enter_context(_cloud(driver, folder)))
            made: list[str] = []
            image = _request("create_stemcell", [str(folder / "image"), {}])
            first = _once(lambda n, cpi=cpi, image=image, made=made: made.append(_result(_run([cpi], image))), 0)
            print(f"{driver + ': first call, makes the ledger':<36} {_told([first], bare)}")
            benches.append(Bench(driver, cpi, made[0]))
        _table(benches, "alone")
        for one in benches:
            one.core = stack.enter_context(_core(Path(one.cpi).parent))
        _table(benches, "core")


def _table(benches: list[Bench], mode: str) -> None:
    vms = [_ask(one.cpi, "create_vm", _vm(one.driver, f"{mode}-first", one.stemcell))[0] for one in benches]
    doomed = [
        [_ask(one.cpi, "create_vm", _vm(one.driver, f"{mode}-doomed-{n}", one.stemcell))[0] for n in range(ROUNDS)]
        for one in benches
    ]
    calls: dict[str, Callable[[int, int], list[Any]]] = {
        "info": lambda which, n: [],
        "has_vm": lambda which, n: [vms[which]],
        "create_vm": lambda which, n: _vm(benches[which].driver, f"{mode}-{n}", benches[which].stemcell),
        "delete_vm": lambda which, n: [doomed[which][n]],
    }
    for method, arguments in calls.items():
        before = [_cpu_ms(one.core) if one.core else 0.0 for one in benches]
        costs = _measure([partial(_turn, one.cpi, method, partial(arguments, n)) for n, one in enumerate(benches)])
        for one, cost, past in zip(benches, costs, before, strict=True):
            own = f"   and {(_cpu_ms(one.core) - past) / ROUNDS:.1f} ms CPU in the core" if one.core else ""
            print(f"{one.driver + ': ' + method + ', ' + mode:<36} {_told(cost, costs[0])}{own}")


def _turn(cpi: str, method: str, arguments: Callable[[int], list[Any]], n: int) -> None:
    _run([cpi], _request(method, arguments(n)))


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
    datacenter, waits = open_datacenter(folder / "cloud.db"), {"poll_s": 0.01, "settle_s": 1}
    if driver == "aws":
        server = Server(open_account(datacenter, "bench"))
        keys = {"region": "eu-central-1", "access_key_id": "a", "secret_access_key": "b"}
        properties = {**keys, "endpoint": server.endpoint, "default_availability_zone": "z1"}
    else:
        serving = import_module(f"coterie.sandbox.fronts.{driver}.serving")
        server = serving.open_server(datacenter, 0, serving.read_settings({}))
        properties = serving.properties_of(server)
    server.start()
    yield {**properties, **waits}
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


def _measure(turns: list[Callable[[int], object]]) -> list[list[tuple[float, float]]]:
    """Of each round of each of these, which take turns: milliseconds of CPU in the started process, and on the wall."""
    spent: list[list[tuple[float, float]]] = [[] for _ in turns]
    for n in range(ROUNDS):
        for call, own in zip(turns, spent, strict=True):
            own.append(_once(call, n))
    return spent


def _once(call: Callable[[int], object], n: int) -> tuple[float, float]:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    call(n)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu * 1000, wall * 1000


def _told(spent: list[tuple[float, float]], first: list[tuple[float, float]]) -> str:
    """The ratio is that of the least CPU times: what load adds is no cost of the program."""
    cpu, wall = (sorted(one) for one in zip(*spent, strict=True))
    ratio = cpu[0] / min(one for one, _ in first)
    return (
        f"{cpu[0]:>7.1f} ms CPU {ratio:>6.2f} ×   median {statistics.median(cpu):>7.1f} ms CPU "
        f"{statistics.median(wall):>8.1f} ms wall"
    )


if __name__ == "__main__":
    main()
