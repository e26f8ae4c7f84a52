"""A machine of docs/operating.md in a folder of its own, and what systemd does there with the units: their user, state
folders, modes, environment and umask, and the message that a service is ready. Its sandbox of system calls is left out.

As root each machine has a user of its own (a number without a name); else all have the user of the tests.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import psycopg
from packaging.requirements import Requirement

UNITS = Path(__file__).parents[2] / "deploy" / "systemd"
IS_ROOT = os.geteuid() == 0
_FIRST_USER = 61_100  # beyond those that Debian gives to people and services
_PATIENCE_S = 120.0


class Machine:
    """`etc` and `var` stand for its /etc/coterie and /var/lib/coterie."""

    def __init__(self, folder: Path, number: int, python: tuple[str, str]) -> None:
        self.folder = folder / f"machine{number}"
        self.user = user_of(number)
        self.etc, self.var = self.folder / "etc/coterie", self.folder / "var/lib/coterie"
        self._python = python  # see `interpreter`
        self._services: dict[str, tuple[subprocess.Popen[bytes], socket.socket]] = {}
        for one in (self.etc.parent, self.var):
            one.mkdir(parents=True)

    def here(self, text: str) -> str:
        """Paths of the documents and units, on this machine."""
        return text.replace("/etc/coterie", str(self.etc)).replace("/var/lib/coterie", str(self.var))

    def write(self, name: str, text: str, *, of_services: bool = False) -> Path:
        """A file under /etc/coterie, mode 0600: of root, or of the services' user."""
        file = self.etc / name
        file.touch(0o600)
        file.write_text(self.here(text))
        if of_services:
            self.give(file)
        return file

    def give(self, path: Path) -> None:
        """To the services' user."""
        if IS_ROOT:
            os.chown(path, self.user, self.user)

    def start(self, service: str) -> None:
        """`service` as systemctl takes it, for example coterie-conductor@a. It is not awaited."""
        unit = _read_unit(service, self.folder.name)
        for one in unit["StateDirectory"][0].split():
            folder = self.var.parent / one
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(int(unit["StateDirectoryMode"][0], 8))
            self.give(folder)
        ready = self.folder / f"{service}.ready"
        ready.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        listener.bind(str(ready))
        self.give(ready)
        program, *words = shlex.split(unit["ExecStart"][0])
        python, packages = self._python
        assert program == "/opt/coterie/bin/coterie"
        with (self.folder / f"{service}.log").open("wb") as log:
            process = subprocess.Popen(
                [python, "-c", "from coterie.cli.main import main; main()", *words],
                env={"PYTHONPATH": packages, "NOTIFY_SOCKET": str(ready), **self._environment(unit)},
                stdout=log,
                stderr=log,
                cwd="/",
                umask=int(unit["UMask"][0], 8),
                **_as_user(self.user),
            )
        self._services[service] = process, listener

    def wait(self, service: str) -> None:
        """Until it is ready."""
        process, listener = self._services[service]
        listener.settimeout(0.2)
        give_up = time.monotonic() + _PATIENCE_S
        while True:
            assert process.poll() is None and time.monotonic() < give_up, self.log(service)
            try:
                if b"READY=1" in listener.recv(4096):
                    return
            except TimeoutError:
                continue

    def end_of(self, service: str) -> str:
        """The log of a service that ends by itself, with an error."""
        process, listener = self._services.pop(service)
        listener.close()
        assert process.wait(_PATIENCE_S) != 0
        return self.log(service)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        for process, _ in self._services.values():
            process.send_signal(number)
        for process, listener in self._services.values():
            process.wait(_PATIENCE_S)
            listener.close()
        self._services = {}

    def log(self, service: str) -> str:
        return (self.folder / f"{service}.log").read_text()

    def _environment(self, unit: dict[str, list[str]]) -> dict[str, str]:
        """Of the file, which root reads, and of the unit."""
        file = Path(self.here(unit["EnvironmentFile"][0]))
        assert file.stat().st_mode & 0o777 == 0o600 and file.stat().st_uid == os.geteuid()
        lines = [line for line in file.read_text().splitlines() if line and not line.startswith("#")]
        given = dict(line.split("=", 1) for line in lines)
        for line in unit["Environment"]:
            given |= dict(one.split("=", 1) for one in shlex.split(self.here(line)))
        return {"PATH": os.environ["PATH"], "HOME": str(self.var), **given}


def _read_unit(service: str, host: str) -> dict[str, list[str]]:
    name, at, instance = service.partition("@")
    found: dict[str, list[str]] = {}
    for line in (UNITS / f"{name}{at}.service").read_text().splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(key, []).append(value.replace("%i", instance).replace("%H", host))
    return found


def _as_user(user: int) -> dict[str, Any]:
    return {"user": user, "group": user, "extra_groups": []} if IS_ROOT else {}


def user_of(machine: int) -> int:
    return _FIRST_USER + machine if IS_ROOT else os.geteuid()


def interpreter(user: int, folder: Path) -> tuple[str, str]:
    """A Python that this user can run, ours or the system's of the same version, and where it finds the packages:
    where they are, or in a copy below `folder`, if only root may read them there."""
    own = os.pathsep.join([str(Path(__file__).parents[2] / "src"), str(Path(psycopg.__file__).parents[1])])
    for packages in (lambda: own, lambda: _copy_packages(folder / "packages")):
        for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
            env = {"PYTHONPATH": packages()}
            command = [python, "-c", "import coterie.cli.main, psycopg, nacl"]
            with suppress(OSError, subprocess.CalledProcessError):
                subprocess.run(command, env=env, cwd="/", check=True, capture_output=True, **_as_user(user))
                return python, env["PYTHONPATH"]
    raise LookupError(f"user {user} can run no Python {sys.version_info.major}.{sys.version_info.minor}")


def _copy_packages(target: Path) -> str:
    """What Coterie needs, for every user to read."""
    if not target.exists():
        shutil.copytree(Path(__file__).parents[2] / "src" / "coterie", target / "coterie")
        for one in _distributions("coterie", frozenset()):
            parts = {str(file).partition("/")[0] for file in one.files or () if not str(file).startswith("..")}
            for part in parts - {"coterie", "__pycache__"}:
                found = Path(str(one.locate_file(part)))
                if found.is_dir():
                    shutil.copytree(found, target / part, dirs_exist_ok=True)
                elif found.suffix != ".pth":
                    shutil.copy(found, target / part)
        for path in (target, *target.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
    return str(target)


def _distributions(name: str, extras: frozenset[str], seen: set[str] | None = None) -> Iterator[metadata.Distribution]:
    """This one and those that it requires, with these extras."""
    seen = set() if seen is None else seen
    found = metadata.distribution(name)
    if f"{name}{sorted(extras)}" in seen:
        return
    seen.add(f"{name}{sorted(extras)}")
    yield found
    for line in found.requires or ():
        wanted = Requirement(line)
        if wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in (*extras, "")):
            yield from _distributions(wanted.name, frozenset(wanted.extras), seen)
