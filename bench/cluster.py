"""A fleet on PostgreSQL and on SQLite: what a step and a node cost with 1, 2, 4 and 8 conductors of one ring, latency
of questions and from commit to start, what 100 idle conductors cost, and how long a hand-over takes after a kill.
Prints figures; asserts nothing.

The steps are looks at an empty cloud, or nodes whose VMs are created by an answer and nothing else: what is measured is
the engine, not a driver. (`--datacenter`: the simulated one, a file that all conductors of a ring write to in turn.)
Compare CPU, not steps per second, where conductors share a few cores; other load on them makes each step dearer, too.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import get_ident
from types import FrameType
from typing import Any, NamedTuple

import psycopg
import sqlalchemy as sa

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.peers import postgres
from tests.peers.postgres import Server

from coterie.conductor.membership import ConductorRole
from coterie.conductor.process import Conductor
from coterie.cpi.contract import CloudObject, Kind, Mark, VmCreated
from coterie.cpi.drivers.sandbox.driver import SandboxCpi
from coterie.ids import Ids
from coterie.ledger.rows import clouds, identity, stemcells
from coterie.ledger.rows.clouds import CloudRow
from coterie.ledger.store import Ledger
from coterie.ledger.store import time as database_time
from coterie.ledger.tables import conductors, steps
from coterie.ledger.tables import tasks as tasks_table
from coterie.ledger.work import tasks
from coterie.ledger.work.tasks import NewStage, NewStep, NewTask
from coterie.requests import start
from coterie.requests.ask_clouds import ask

GROUP = "bench"


def prepare(url: str) -> Ledger:
    ledger = Ledger.open(url)
    identity.ensure_director(ledger, "bench", Ids())
    with ledger.write() as tx:
        clouds.set_config(tx, "bench", [CloudRow("lab", "sandbox", {}, GROUP)])
    return ledger


def queue(ledger: Ledger, count: int) -> int:
    ids = Ids()
    looks = [NewStep("look", "begin", f"s{n}", {}, ids.uuid(), "lab", "sandbox", GROUP) for n in range(count)]
    with ledger.write() as tx:
        return tasks.create(tx, NewTask("bench", None, [NewStage("s", looks)]))


def work(url: str, name: str, folder: str, ttl_s: float) -> None:
    """One conductor, until its standard input closes."""
    if _DATACENTER not in os.environ:
        answer_at_once()
    if _COUNTED in os.environ:
        count_calls(Path(folder) / f"{name}.calls")
    ledger = Ledger.open(url)
    conductor = Conductor(ledger, name, state_folder=Path(folder), role=ConductorRole(GROUP), ttl_s=ttl_s)
    conductor.start()
    sys.stdin.read()
    conductor.drain()
    ledger.close()


_DATACENTER = "COTERIE_BENCH_DATACENTER"
_COUNTED = "COTERIE_BENCH_COUNTED"


def count_calls(file: Path) -> None:
    """How many functions of Python and C all threads of this process have called, written several times a second."""
    called: Counter[int] = Counter()  # by thread, so that no two add to one number

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event.endswith("call"):
            called[get_ident()] += 1

    def tell() -> None:
        while True:
            draft = file.with_suffix(".draft")
            draft.write_text(str(sum(list(called.values()))))
            draft.replace(file)
            time.sleep(_TOLD_S)

    threading.Thread(target=tell, daemon=True).start()
    threading.setprofile(note)


def answer_at_once() -> None:
    """The calls of a new node's step touch no file; all other calls are the sandbox driver's own."""

    def create_vm(cpi: SandboxCpi, *arguments: Any, mark: Mark) -> VmCreated:
        return VmCreated(f"vm-{mark.intent}", {})

    def set_vm_metadata(cpi: SandboxCpi, vm_cid: str, metadata: Mapping[str, str]) -> None:
        pass

    def find(cpi: SandboxCpi, kind: Kind, mark: Mark) -> CloudObject:
        return CloudObject(kind, f"{kind}-{mark.intent}", mark.intent, state="running", host="host-1")

    for method in (create_vm, set_vm_metadata, find):
        setattr(SandboxCpi, method.__name__, method)


@contextmanager
def fleet(url: str, count: int, folder: str, ttl_s: float = 6.0) -> Iterator[list[subprocess.Popen[str]]]:
    started = [
        subprocess.Popen(
            [sys.executable, __file__, "--work", url, f"c{n}", folder, str(ttl_s)],
            stdin=subprocess.PIPE,
            text=True,
        )
        for n in range(count)
    ]
    try:
        yield started
    finally:
        for one in started:
            one.kill()
            one.wait()


def until(ledger: Ledger, query: sa.Select[Any], wanted: Any) -> None:
    while True:
        seen = ledger.written.version
        with ledger.read() as tx:
            if tx.execute(query).scalar_one() == wanted:
                return
        ledger.written.wait(seen, 0.05)


def joined(ledger: Ledger, count: int) -> None:
    until(ledger, sa.select(sa.func.count()).select_from(conductors), count)


def ended(ledger: Ledger, task: int) -> None:
    until(ledger, sa.select(tasks_table.c.ended_at.is_not(None)).where(tasks_table.c.id == task), True)
    with ledger.read() as tx:
        state = tx.execute(sa.select(tasks_table.c.state).where(tasks_table.c.id == task)).scalar_one()
    if state != "done":
        raise RuntimeError(f"task {task} {state}")


def throughput(url: str, count: int, number: int) -> str:
    """Of SQLite, whose work is part of the conductors."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = prepare(url)
        with fleet(url, count, folder) as started:
            joined(ledger, count)
            ended(ledger, queue(ledger, _WARM * count))
            begun = Cost.of_conductors(started)
            ended(ledger, queue(ledger, number))
            used = Cost.of_conductors(started).since(begun)
        ledger.close()
    return f"{number / used.at:6.0f} steps/s, {used.conductors / number * 1000:5.2f} ms CPU per step"


class Cost(NamedTuple):
    """CPU seconds of conductors and of PostgreSQL, up to a moment."""

    conductors: float
    postgres: float
    at: float

    @staticmethod
    def now(started: list[subprocess.Popen[str]], ledger: Ledger) -> Cost:
        return Cost.of_conductors(started)._replace(postgres=_postgres_cpu(ledger))

    @staticmethod
    def of_conductors(started: list[subprocess.Popen[str]]) -> Cost:
        return Cost(sum(_process_cpu(one.pid) for one in started), 0.0, time.perf_counter())

    def since(self, before: Cost) -> Cost:
        return Cost(*(after - then for after, then in zip(self, before, strict=True)))


Act = Callable[[Sequence[Ledger], int, int], None]  # so many nodes or steps, for the first or second time


def compare(server: Server, counts: Sequence[int], what: str, act: Act, number: int, rounds: int) -> None:
    """So many conductors of one ring with one task as their only work, beside one alone. The last row is of as many
    conductors with a database and a datacenter each: what crowded cores cost alone. The rows are measured in turn, and
    the cheapest of all rounds counts: other load on the machine only adds."""
    rows = [(count, 1) for count in counts]
    most = max(counts)
    if most > 1:
        rows.append((most, most))
    found: dict[tuple[int, int], Measured] = {}
    for _ in range(rounds):
        for row in rows:
            made = measure(server, *row, act, number)
            found[row] = min(found.get(row, made), made, key=lambda one: one.total)
    print(f"PostgreSQL, {what}: ms of CPU each")
    print(f"{'conductors':>12} {'per s':>6} {'conductors':>11} {'PostgreSQL':>11} {'sum':>6} {'x one':>6}  resting")
    for (count, rings), cost in found.items():
        title = f"{count} apart" if rings > 1 else str(count)
        print(
            f"{title:>12} {cost.rate:6.0f} {cost.conductors:11.2f} {cost.postgres:11.2f} {cost.total:6.2f} "
            f"{cost.total / found[rows[0]].total:6.2f}  {cost.resting:.2f} % of a core each"
        )
    if most > 1:
        shared = found[most, 1].total / found[most, most].total
        print(f"{most} conductors on one ring cost {shared:.2f} x what {most} cost that share nothing", flush=True)


def compare_calls(server: Server, counts: Sequence[int], number: int) -> None:
    """What a step does rather than what it costs: crowded cores make the same work dearer, but not more."""
    found = {count: calls_of_step(server, count, number) for count in counts}
    print("PostgreSQL, looks: what a step does")
    print(f"{'conductors':>12} {'functions called':>17} {'x one':>6} {'transactions':>13} {'x one':>6}")
    for count, done in found.items():
        ratios = [mine / first for mine, first in zip(done, found[counts[0]], strict=True)]
        print(f"{count:12} {done[0]:17.0f} {ratios[0]:6.2f} {done[1]:13.2f} {ratios[1]:6.2f}", flush=True)


def calls_of_step(server: Server, count: int, number: int) -> tuple[float, float]:
    """Function calls of the conductors and transactions of the server, without what the fleet does at rest."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = _new_database(server.url)
        ledger = prepare(url)
        stack.callback(ledger.close)
        os.environ[_COUNTED] = "1"
        stack.callback(os.environ.pop, _COUNTED)
        stack.enter_context(fleet(url, count, str(folder)))
        joined(ledger, count)
        look([ledger], 1, number)

        def done() -> tuple[float, float, float]:
            time.sleep(2 * _TOLD_S)
            told = sum(int(file.read_text()) for file in folder.glob("*.calls"))
            with psycopg.connect(server.url, autocommit=True) as connection:
                row = connection.execute("SELECT sum(xact_commit) FROM pg_stat_database").fetchone()
            return told, float(row[0] if row else 0), time.perf_counter()

        cold = done()
        time.sleep(_REST_S)
        begun = done()
        look([ledger], 2, number)
        ended = done()
    share = (ended[2] - begun[2]) / (begun[2] - cold[2])
    calls, transactions = ((ended[n] - begun[n] - (begun[n] - cold[n]) * share) / number for n in (0, 1))
    return calls, transactions


class Measured(NamedTuple):
    rate: float
    conductors: float  # ms
    postgres: float  # ms
    resting: float

    @property
    def total(self) -> float:
        return self.conductors + self.postgres


def measure(server: Server, count: int, rings: int, act: Act, number: int) -> Measured:
    """Each conductor first does as much as is measured then, since what happens once per process is no cost of a step;
    and what the same fleet uses while it rests is subtracted."""
    with ExitStack() as stack:
        started: list[subprocess.Popen[str]] = []
        ledgers = []
        for _ in range(rings):
            url = _new_database(server.url)
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            ledgers.append(prepare(url))
            stack.callback(ledgers[-1].close)
            with ledgers[-1].write() as tx:
                stemcells.add(tx, "os", "1", None, None, {"image": "x"}, [])
            started += stack.enter_context(fleet(url, count // rings, folder))
            joined(ledgers[-1], count // rings)
        act(ledgers, 1, number // rings)
        time.sleep(1.0)
        cold = Cost.now(started, ledgers[0])
        time.sleep(_REST_S)
        begun = Cost.now(started, ledgers[0])
        rest = begun.since(cold)
        act(ledgers, 2, number // rings)
        used = Cost.now(started, ledgers[0]).since(begun)
    share = used.at / rest.at
    net = [max(0.0, used[n] - rest[n] * share) / number * 1000 for n in (0, 1)]
    return Measured(number / used.at, net[0], net[1], sum(rest[:2]) / rest.at / count * 100)


_WARM = 20
_TOLD_S = 0.5
_REST_S = 5.0


def look(ledgers: Sequence[Ledger], _: int, count: int) -> None:
    for ledger, task in [(ledger, queue(ledger, count)) for ledger in ledgers]:
        ended(ledger, task)


def deploy(ledgers: Sequence[Ledger], number: int, nodes: int) -> None:
    request = start.PlanRequest(manifest=manifest(number, nodes), cloud_config=_CONFIG)
    for ledger, task in [(ledger, start.deploy(ledger, request, None, "bench")) for ledger in ledgers]:
        ended(ledger, task)


def _new_database(url: str) -> str:
    """Each run has a fresh datacenter, and its ledger must know of no older one."""
    name = f"bench_{time.time_ns()}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return url.rpartition("/")[0] + "/" + name


def manifest(number: int, nodes: int) -> str:
    group = f"name: n, instances: {nodes}, azs: [z], vm_type: small, stemcell: s, networks: [{{name: net}}]"
    update = f"update: {{canaries: 1, max_in_flight: {nodes}}}"
    stemcell = "stemcells: [{alias: s, name: os, version: '1'}]"
    return f"name: dep{number}\n{stemcell}\ninstance_groups:\n- {{{group}, {update}}}\n"


_ZONE = {"name": "z1", "racks": 2, "hosts_per_rack": 10, "cpu": 4096, "ram_mb": 1 << 24, "disk_mb": 1 << 28}
_LAYOUT = {"zones": [_ZONE]}
_CONFIG = json.dumps(
    {
        "clouds": [
            {"name": "lab", "driver": "sandbox", "conductor_group": GROUP, "properties": {"layout": _LAYOUT}},
        ],
        "azs": [{"name": "z", "cloud": "lab", "cloud_properties": {"zone": "z1"}}],
        "vm_types": [{"name": "small", "cloud_properties": {"cpu": 1, "ram_mb": 256, "disk_mb": 1024}}],
        "networks": [{"name": "net", "type": "dynamic"}],
    }
)


def _postgres_cpu(ledger: Ledger) -> float:
    """Of the server and of those of its backends that are there now and before: they serve the fleet all the time."""
    with ledger.read() as tx:
        backend = tx.execute(sa.text("SELECT pg_backend_pid()")).scalar_one()
    server = int(Path(f"/proc/{backend}/stat").read_text().rpartition(")")[2].split()[1])
    children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
    ended_children = sum(map(int, Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()[13:15]))
    return sum(_process_cpu(int(one)) for one in children) + ended_children / os.sysconf("SC_CLK_TCK")


def _process_cpu(pid: int) -> float:
    try:
        used = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    except FileNotFoundError:
        return 0.0
    return sum(map(int, used)) / os.sysconf("SC_CLK_TCK")


def latency_ms(url: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        ledger = prepare(url)
        with fleet(url, 2, folder):
            joined(ledger, 2)
            found = []
            for _ in range(30):
                time.sleep(0.05)
                task = queue(ledger, 1)
                with ledger.read() as tx:
                    committed = database_time(tx)
                ended(ledger, task)
                with ledger.read() as tx:
                    began = tx.execute(sa.select(steps.c.started_at).where(steps.c.task == task)).scalar_one()
                found.append((began - committed) * 1000)
        ledger.close()
    return f"median {statistics.median(found):.1f} ms, worst {max(found):.1f} ms"


def questions(url: str, count: int, number: int) -> str:
    """How long a plan waits for one answer: the cloud itself answers at once."""
    rows = [CloudRow(f"cloud-{n}", "sandbox", {}, GROUP) for n in range(16)]  # each conductor owns some of them
    with tempfile.TemporaryDirectory() as folder:
        ledger = prepare(url)
        with ledger.write() as tx:
            clouds.set_config(tx, "bench", rows)
        with fleet(url, count, folder):
            joined(ledger, count)
            found = []
            for n in range(number):
                time.sleep(0.02)
                begun = time.perf_counter()
                ask(ledger, [(rows[n % len(rows)], "check", {"number": n})])
                found.append((time.perf_counter() - begun) * 1000)
        ledger.close()
    return f"p50 {statistics.median(found):.1f} ms, max {max(found):.1f} ms"


def idle(url: str, count: int, seconds: float) -> str:
    """All in one process, as threads, so that 100 interpreters do not have to fit into memory. Each that joins makes
    all others look anew, and here they share one interpreter: leases are long, and the clock starts when all rest."""
    ledger = prepare(url)
    with tempfile.TemporaryDirectory() as folder:
        ledgers = [Ledger.open(url) for _ in range(count)]
        posts = [
            Conductor(one, f"c{n}", state_folder=Path(folder), role=ConductorRole(GROUP), workers=1, ttl_s=60.0)
            for n, one in enumerate(ledgers)
        ]
        for one in posts:
            one.start()
        while _cpu_during(2.0) > 0.5:
            pass
        used = _cpu_during(seconds)
        for one in posts:
            one.drain(5)
        for opened in [*ledgers, ledger]:
            opened.close()
    return f"{used / seconds / count * 100:.3f} % of a core each, with leases of 60 s"


def _cpu_during(seconds: float) -> float:
    before = time.process_time()
    time.sleep(seconds)
    return time.process_time() - before


def hand_over_s(url: str, ttl_s: float) -> str:
    with tempfile.TemporaryDirectory() as folder:
        ledger = prepare(url)
        with fleet(url, 2, folder, ttl_s) as started:
            joined(ledger, 2)
            started[0].send_signal(signal.SIGKILL)
            begun = time.perf_counter()
            task = queue(ledger, 40)
            ended(ledger, task)
            took = time.perf_counter() - begun
        ledger.close()
    return f"{took:.1f} s with a lease of {ttl_s:.0f} s"


def main() -> None:
    if sys.argv[1:2] == ["--work"]:
        work(sys.argv[2], sys.argv[3], sys.argv[4], float(sys.argv[5]))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conductors", default="1,2,4,8", help="how many, as a list")
    parser.add_argument("--steps", type=int, default=2000, help="looks; 0: none")
    parser.add_argument("--nodes", type=int, default=1000, help="of the deployment; 0: none")
    parser.add_argument("--rounds", type=int, default=2, help="of looks and of nodes, whose cheapest counts")
    parser.add_argument("--questions", type=int, default=100, help="0: neither these nor the other latencies")
    parser.add_argument("--idle", type=int, default=100, help="0: none")
    parser.add_argument("--datacenter", action="store_true", help="create the VMs in a simulated datacenter")
    chosen = parser.parse_args()
    if chosen.datacenter:
        os.environ[_DATACENTER] = "1"
    counts = [int(count) for count in chosen.conductors.split(",")]
    with tempfile.TemporaryDirectory() as folder, postgres.running(connections=1000) as server:
        for what, act, number in (("looks", look, chosen.steps), ("nodes of a deployment", deploy, chosen.nodes)):
            if number:
                compare(server, counts, what, act, number, chosen.rounds)
        if chosen.steps:
            compare_calls(server, counts, chosen.steps)
        sqlite = f"sqlite:///{folder}/ledger.db"
        for count in [count for count in counts if count <= _MOST_OF_SQLITE and chosen.steps]:
            print(f"{'SQLite':>10}, {count} conductors: {throughput(sqlite, count, chosen.steps)}", flush=True)
        for title, url in (("PostgreSQL", server.url), ("SQLite", sqlite)) if chosen.questions else ():
            for count in [count for count in counts if count <= _MOST_OF_SQLITE]:
                found = questions(url, count, chosen.questions)
                print(f"{title:>10}, {count} conductors: a question is answered in {found}", flush=True)
            print(f"{title:>10}, commit to start: {latency_ms(url)}", flush=True)
            print(f"{title:>10}, hand-over after a kill: {hand_over_s(url, 6.0)}", flush=True)
        if chosen.idle:
            print(f"PostgreSQL, {chosen.idle} idle conductors: {idle(server.url, chosen.idle, 20.0)}")


_MOST_OF_SQLITE = 4


if __name__ == "__main__":
    main()
