"""A vCenter of our own: govmomi's simulator behind a stricter front, built from Debian's packages, on loopback."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.peers.vcenter_types import write_types

_BUILD = Path(__file__).parent / "vcsim" / "build"
MODEL = {"dc": 1, "cluster": 2, "host": 3, "vm": 0, "pool": 0, "ds": 2, "pg": 1}


def newest() -> str | None:
    """The folder of the newest simulator and of govc, if the tests are to run on these."""
    return os.environ.get("COTERIE_VCSIM") or None


@cache
def program() -> str:
    """The simulator's path; built on first use, which takes a minute once per machine."""
    folder = newest()
    if folder is not None:
        return f"{folder}/vcsim"
    done = subprocess.run([str(_BUILD)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the simulator of vCenter cannot be built: {done.stderr}")
    return done.stdout.strip()


class Vcenter:
    """A running simulator, and the test's own door into it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._address = urlsplit(url).netloc

    def bend(self, method: str, action: str, **more: Any) -> None:
        """The next call of a method (`times` of them) is refused, lost, late or delayed, or (`slow`) begins late."""
        self._lab("POST", "rules", {"method": method, "action": action, **more})

    def straighten(self) -> None:
        self._lab("DELETE", "rules")

    def expire(self) -> None:
        """End all sessions."""
        self._lab("POST", "expire")

    def sessions(self) -> int:
        """How many are open."""
        found: int = self._lab("GET", "sessions")
        return found

    def enforce_roles(self, on: bool = True) -> None:
        """Users other than `root` may only do what roles and permissions written to it grant."""
        self._lab("POST" if on else "DELETE", "roles")

    def show_namespaces(self, on: bool = True) -> None:
        """As vSAN does: the paths of VMs' disks have the uuid of a namespace instead of our folder's name."""
        self._lab("POST" if on else "DELETE", "namespaces")

    def make_local(self, datastore: str, local: bool = True) -> None:
        """Only one host can reach it."""
        self._lab("POST" if local else "DELETE", "local", datastore)

    def last(self, method: str) -> str:
        """The last request of a method, as it was sent."""
        return str(self._lab("GET", "last")[method])

    def inventory(self) -> frozenset[tuple[str, str]]:
        """(kind, id) of everything, seen past the API."""
        return frozenset((kind, name) for kind, name in self._lab("GET", "inventory"))

    def calls(self) -> list[dict[str, Any]]:
        """What was called since the last `forget_calls`: method, user, began, ended (microseconds), in order of end."""
        found: list[dict[str, Any]] = self._lab("GET", "calls")
        return found

    def methods(self) -> list[str]:
        return [call["method"] for call in self.calls()]

    def forget_calls(self) -> None:
        self._lab("DELETE", "calls")

    def _lab(self, verb: str, what: str, body: Any = None) -> Any:
        connection = http.client.HTTPConnection(self._address, timeout=60)
        try:
            connection.request(verb, f"/lab/{what}", json.dumps(body) if body is not None else None)
            answer = connection.getresponse()
            raw = answer.read()
            if answer.status != 200:
                raise RuntimeError(f"{verb} {what}: {raw.decode()}")
            return json.loads(raw)
        finally:
            connection.close()


@contextmanager
def vcenter(*flags: str, **model: int) -> Iterator[Vcenter]:
    """A fresh one; it ends with the block, or with this process."""
    sizes = [word for name, size in {**MODEL, **model}.items() for word in (f"-{name}", str(size))]
    types = write_types(Path(program()).parent)
    command = [program(), "-lifeline", "-types", str(types), *sizes, *flags]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        if process.stdout is None or process.stdin is None:
            raise RuntimeError("no pipes")
        try:
            yield Vcenter(json.loads(process.stdout.readline())["url"])
        finally:
            process.stdin.close()
            process.wait(timeout=120)  # it deletes the files of all its VMs
