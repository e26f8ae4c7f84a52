"""On a terminal: the plan in colours, a question, live rows, a report; and Ctrl-C that leaves the task running."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import time

from tests.cli.conftest import PROGRAM, Machine


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, machine: Machine, *words: str, columns: int = 120) -> None:
        self._end, inner = pty.openpty()
        self._process = subprocess.Popen(
            [*PROGRAM, *words],
            stdin=inner,
            stdout=inner,
            stderr=inner,
            env={**machine.environment(), "COLUMNS": str(columns), "LINES": "40"},
            cwd=machine.folder,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        os.close(inner)
        self.shown = ""

    def read_until(self, pattern: str) -> None:
        give_up = time.monotonic() + 60
        while not re.search(pattern, self.shown):
            assert time.monotonic() < give_up, self.shown
            self._read()

    def type(self, keys: str) -> None:
        os.write(self._end, keys.encode())

    def finish(self) -> int:
        while self._process.poll() is None:
            self._read()
        self._read()
        os.close(self._end)
        return self._process.returncode

    def _read(self) -> None:
        ready, _, _ = select.select([self._end], [], [], 0.1)
        if ready:
            try:
                self.shown += os.read(self._end, 65536).decode("utf-8", "replace")
            except OSError:
                time.sleep(0.05)


def _take_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_it_shows_asks_and_reports(machine: Machine) -> None:
    machine.furnish()
    terminal = Terminal(machine, "deploy", "web.yml")
    terminal.read_until(r"Go on\? \[y/N\]")
    assert "\x1b[32m  + create" in terminal.shown
    terminal.type("y\n")
    assert terminal.finish() == 0
    assert re.search(r"Task 1 \(deploy web\): .*done", terminal.shown)


def test_no_means_no(machine: Machine) -> None:
    machine.furnish()
    terminal = Terminal(machine, "deploy", "web.yml")
    terminal.read_until(r"Go on\?")
    terminal.type("n\n")
    assert terminal.finish() == 4
    assert "it was not confirmed" in terminal.shown
    assert machine.run("deployments", "-o", "json").json["items"] == []


def test_live_rows_show_what_runs_and_ctrl_c_leaves_it_running(machine: Machine) -> None:
    machine.furnish()
    machine.run("sandbox", "fault", "add", "create_vm", "hang", "--ms", "600000")
    terminal = Terminal(machine, "deploy", "web.yml", "--yes")
    terminal.read_until(r"web/0 .*node\.create")
    terminal.type("\x03")
    assert terminal.finish() == 130
    assert "task 1 goes on" in terminal.shown
    machine.run("sandbox", "fault", "clear")
    assert machine.run("tasks", "watch", "1").code == 0


def test_nodes_fit_a_narrow_terminal(machine: Machine) -> None:
    machine.furnish()
    machine.write("web.yml", (machine.folder / "web.yml").read_text().replace("- name: web", "- name: controller"))
    assert machine.run("deploy", "-y", "web.yml").code == 0
    narrow, wide = Terminal(machine, "nodes", columns=80), Terminal(machine, "nodes", columns=160)
    assert (narrow.finish(), wide.finish()) == (0, 0)
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in narrow.shown.splitlines()]
    assert max(len(line) for line in lines) <= 80
    assert "…" not in narrow.shown and "controller/1" in narrow.shown and "127.0.0." in narrow.shown
    assert "CONDUCTORS" not in wide.shown and "vm-" in wide.shown


def test_a_picture_is_not_printed_on_a_terminal(machine: Machine) -> None:
    terminal = Terminal(machine, "placement", "map")
    assert terminal.finish() == 2
    assert "coterie placement map > map.svg" in terminal.shown and "<svg" not in terminal.shown
