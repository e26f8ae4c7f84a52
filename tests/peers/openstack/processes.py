"""The processes of a control plane: each leads a session of its own, and its pid file holds `pid starttime`,
so that a reused pid is never taken for it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.peers.openstack.files import write
from tests.peers.openstack.layout import Layout
from tests.peers.openstack.progress import die, say

STAND_INS = Path(__file__).parent / "stand_ins"


class Processes:
    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def started_any(self) -> bool:
        """Whether this run started one: what the services report about themselves may be older."""
        return bool(self._children)

    def names(self) -> list[str]:
        return sorted(file.stem for file in Path(self._layout.path("run")).glob("*.pid"))

    def leader(self, name: str) -> int | None:
        """Its pid, if it still runs."""
        try:
            pid, start = Path(self._layout.path("run", f"{name}.pid")).read_text().split()
        except (OSError, ValueError):
            return None
        child = self._children.get(name)
        if child:
            child.poll()
        fields = _stat(int(pid))
        return int(pid) if fields and fields[0] != "Z" and fields[19] == start else None

    def spawn(self, name: str, words: list[str], env: Mapping[str, str] | None = None) -> None:
        if self.leader(name):
            return
        path = self._layout.path
        own = {
            "OSLAB_STATE": str(self._layout.state),
            "OS_KEYSTONE_CONFIG_FILES": path("etc/keystone.conf"),
            "OS_PLACEMENT_CONFIG_DIR": path("etc/placement"),
            "OS_GLANCE_CONFIG_DIR": path("etc/glance"),
            "OS_NOVA_CONFIG_DIR": path("etc"),
            "OS_NOVA_CONFIG_FILES": path("shipped/nova-paste.ini") + ";nova.conf",
            "OS_NEUTRON_CONFIG_DIR": path("etc"),
            "OS_NEUTRON_CONFIG_FILES": "neutron.conf",
        }
        with open(path("log", f"{name}.out"), "ab") as log:
            child = subprocess.Popen(
                ["nice", "-n", self._layout.nice, *words],
                env={**self._env(), **own, **(env or {})},
                cwd=self._layout.state,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._children[name] = child
        fields = _stat(child.pid)
        write(path("run", f"{name}.pid"), f"{child.pid} {fields[19] if fields else 0}\n")

    def tool(self, name: str, words: list[str]) -> None:
        """A command that ends by itself; its output goes to a log."""
        log_path = self._layout.path("log", f"{name}.out")
        with open(log_path, "ab") as log:
            ended = subprocess.call(
                ["nice", "-n", self._layout.nice, *words],
                env=self._env(),
                cwd=self._layout.state,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        if ended:
            raise RuntimeError(f"{name}: exit {ended}, see {log_path}")

    def await_(self, what: str, probe: Callable[[], Any], watch: Iterable[str] = ()) -> Any:
        """Until the probe finds something; ends at once if a process that it depends on ended."""
        began, pause, last = time.time(), 0.1, None
        while time.time() < began + self._layout.patience:
            try:
                last = probe()
            except Exception as error:  # not ready yet
                last = error
            else:
                if last:
                    if time.time() - began > 2:
                        say(f"  waited for {what:<23} {time.time() - began:6.1f} s")
                    return last
            for name in watch:
                if not self.leader(name):
                    die(f"{name} ended while waiting for {what}; see {self._layout.path('log', name)}.*")
            time.sleep(pause)
            pause = min(1.0, pause * 1.3)
        return die(f"timed out waiting for {what} ({last!r})")

    def stop(self, names: Iterable[str], grace_s: float) -> int:
        """Ends them, and whatever is left in their sessions; how many there were."""
        found = {name: pid for name in names if (pid := self.leader(name))}
        for pid in found.values():
            _send(_session(pid), signal.SIGCONT)  # a test may have frozen it
            _send([pid], signal.SIGTERM)
        give_up = time.time() + grace_s
        while any(_session(pid) for pid in found.values()) and time.time() < give_up:
            time.sleep(0.1)
            for pid in found.values():
                members = _session(pid)
                if pid not in members:
                    _send(members, signal.SIGTERM)
        for pid in found.values():
            _send(_session(pid), signal.SIGKILL)
        for name in names:
            Path(self._layout.path("run", f"{name}.pid")).unlink(missing_ok=True)
            if child := self._children.pop(name, None):
                child.wait()
        return len(found)

    @contextmanager
    def frozen(self, *names: str) -> Iterator[None]:
        """They stand still meanwhile: what they were asked is answered late, as in a real outage."""
        pids = [pid for name in names if (leader := self.leader(name)) for pid in _session(leader)]
        _send(pids, signal.SIGSTOP)
        try:
            yield
        finally:
            _send(pids, signal.SIGCONT)

    def memory_mib(self) -> int:
        """Of everything that runs, shared pages counted once."""
        pids = [pid for name in self.names() if (leader := self.leader(name)) for pid in _session(leader)]
        return sum(_pss_kib(pid) for pid in pids) // 1024

    def _env(self) -> dict[str, str]:
        return {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(self._layout.state),
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(STAND_INS),
            "PYTHONDONTWRITEBYTECODE": "1",
        }


def _stat(pid: int) -> list[str] | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None


def _session(leader: int) -> list[int]:
    pids = [int(one) for one in os.listdir("/proc") if one.isdigit()]
    found = [(pid, fields) for pid in pids if (fields := _stat(pid))]
    return [pid for pid, fields in found if int(fields[3]) == leader and fields[0] != "Z"]


def _send(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _pss_kib(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
