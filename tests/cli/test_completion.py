"""Completion in real shells: keys are typed into bash, zsh and fish on a terminal, and the resulting line is read."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Machine

START = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source <(coterie completion bash)"),
    "zsh": (["zsh", "-f", "-i"], "autoload -U compinit && compinit -u; bindkey -e; source <(coterie completion zsh)"),
    "fish": (["fish", "--no-config", "-i"], "coterie completion fish | source"),
}


class Shell:
    """A shell on a terminal, with our program on its path and the completion script loaded."""

    def __init__(self, machine: Machine, name: str) -> None:
        words, script = START[name]
        programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._end, inner = pty.openpty()
        self._process = subprocess.Popen(
            words,
            stdin=inner,
            stdout=inner,
            stderr=inner,
            env={**machine.environment(), "PATH": programs, "COLUMNS": "300", "LINES": "50", "TERM": "vt100"},
            cwd=machine.folder,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        os.close(inner)
        self._shown = ""
        self._type(f"{script}\n")
        self._type("printf '<%s>' ready; echo\n")
        self._read_until(r"<ready>")

    def complete(self, keys: str) -> list[str]:
        """The words of the line after these keys and Tab. The line is not run: it is made the arguments of printf."""
        self._shown = ""
        self._type(f"{keys}\t")
        # Ctrl-A goes to the begin of the line; shells read it only when they are done with the Tab.
        self._type("\x01printf '<%s>' begin \x05 ''; echo\n")
        return re.findall(r"<([^<>]*)>", self._read_until(r"<begin><coterie>[^\r\n]*<>").group())[2:-1]

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._end)

    def _type(self, keys: str) -> None:
        os.write(self._end, keys.encode())

    def _read_until(self, pattern: str) -> re.Match[str]:
        give_up = time.monotonic() + 60
        while not (found := re.search(pattern, self._shown)):
            assert time.monotonic() < give_up, self._shown
            ready, _, _ = select.select([self._end], [], [], 0.2)
            if ready:
                self._shown += os.read(self._end, 65536).decode("utf-8", "replace")
        return found


def _take_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    machine = Machine(tmp_path_factory.mktemp("machine"))
    machine.furnish()
    assert machine.run("deploy", "-y", "web.yml").code == 0
    machine.write("shopping.yml", "")
    yield machine
    machine.close()


@pytest.fixture(scope="module", params=list(START))
def shell(request: pytest.FixtureRequest, deployed: Machine) -> Iterator[Shell]:
    if shutil.which(request.param) is None:
        pytest.fail(f"{request.param} is not installed: make packages")
    made = Shell(deployed, request.param)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("keys", "completed"),
    [
        ("coterie stem", ["stemcells"]),
        ("coterie plan shop", ["plan", "shopping.yml"]),
        ("coterie deploy --cloud-config shop", ["deploy", "--cloud-config", "shopping.yml"]),
        ("coterie delete we", ["delete", "web"]),
        ("coterie nodes --deployment w", ["nodes", "--deployment", "web"]),
        ("coterie nodes --deployment=w", ["nodes", "--deployment=web"]),
        ("coterie nodes show web/web/1", ["nodes", "show", "web/web/1"]),
        ("coterie nodes show w", ["nodes", "show", "web/web/"]),
        ("coterie plan web.yml --node web/1", ["plan", "web.yml", "--node", "web/1"]),
        ("coterie tasks show ", ["tasks", "show", "1"]),
        ("coterie clouds show l", ["clouds", "show", "lab"]),
        ("coterie stemcells delete debian-12/1.2", ["stemcells", "delete", "debian-12/1.2"]),
        ("coterie explain instance_groups.placement.po", ["explain", "instance_groups.placement.policy"]),
        ("coterie explain clouds.properties@opens", ["explain", "clouds.properties@openstack"]),
        ("coterie explain clouds.properties@openstack.auth_u", ["explain", "clouds.properties@openstack.auth_url"]),
        ("coterie nodes --state fail", ["nodes", "--state", "failing"]),
        ("coterie nosuch thing", ["nosuch", "thing"]),
    ],
)
def test_tab_completes(shell: Shell, keys: str, completed: list[str]) -> None:
    assert shell.complete(keys) == completed


def test_completion_starts_no_director_and_says_nothing(machine: Machine) -> None:
    environment = {**machine.environment(), "_COTERIE_COMPLETE": "bash_complete", "COMP_LINE": "coterie delete "}
    program = [sys.executable, "-c", "from coterie.cli.main import main; main()"]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("", "")
    assert not machine.state_folder.path.exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_printed_for_each_shell(machine: Machine, shell: str) -> None:
    assert "_COTERIE_COMPLETE" in machine.run("completion", shell).out
