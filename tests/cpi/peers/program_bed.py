"""Beds behind `coterie-cpi`: every call is a process of its own, as a BOSH Director starts it, with a core process.

One core serves all of them: each call brings its cloud along in its context, as a cpi-config entry does.
"""

from __future__ import annotations

import atexit
import inspect
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, cast

from coterie.bosh.launcher import program
from coterie.cpi.contract import Cpi, Forms, Reason
from coterie.cpi.wire import METHODS, read_response, write_request
from peers.cloudstack_bed import CloudstackBed
from peers.sandbox_bed import ACCOUNT, SandboxBed
from peers.vsphere_bed import VsphereBed

_SCRUBBED = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
_SOURCE = str(Path(sys.modules["coterie"].__file__ or "").parents[1])


class WiredCpi:
    """A driver's methods as requests of the highest version to a program."""

    forms: ClassVar[Forms] = {}  # no matter of the wire

    def __init__(self, path: str, context: dict[str, Any]) -> None:
        self._path = path
        self._context = context

    def __getattr__(self, name: str) -> Any:
        if name not in METHODS:
            raise AttributeError(name)
        return lambda *args, **kwargs: self._ask(name, args, kwargs)

    def _ask(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        method = METHODS[name]
        bound = inspect.signature(getattr(Cpi, name)).bind(None, *args, **kwargs)
        bound.apply_defaults()
        mark = bound.arguments.pop("mark") if method.marks else None
        values = [_sent(key, value) for key, value in bound.arguments.items() if key != "self"]
        request = write_request(method, values, self._context, 3, mark)
        done = subprocess.run([self._path], input=request, env=_SCRUBBED, capture_output=True)
        assert (done.returncode, done.stderr) == (0, b"")
        return read_response(method, done.stdout, 3)


def _sent(name: str, value: Any) -> Any:
    return {} if name == "env" and value is None else value


@cache
def served() -> str:
    """The path of the program; its core process runs until this one ends."""
    folder = Path(tempfile.mkdtemp(prefix="c-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    names = {name: str(folder / name) for name in ("ledger", "socket", "state")}
    config, path = folder / "cpi.json", folder / "cpi"
    config.write_text(json.dumps({"driver": "sandbox", **names}))
    path.write_text(program(str(config), names["socket"]))
    path.chmod(0o755)
    words = [sys.executable, "-m", "coterie.bosh.main", "serve", "--config", str(config)]
    core = subprocess.Popen(words, env={"PYTHONPATH": _SOURCE}, stderr=subprocess.DEVNULL)
    atexit.register(core.wait)
    atexit.register(core.terminate)
    while not Path(names["socket"]).exists():
        assert core.poll() is None, "the core process ended"
        time.sleep(0.02)
    return str(path)


class ProgramBed(SandboxBed):
    driver = "coterie-cpi"
    page_size = None
    limits: Mapping[str, Reason] = {
        **SandboxBed.limits,
        "page_size": Reason(
            "a page of the sandbox holds more objects than processes can be started for", "peers/program_bed.py"
        ),
    }

    def open(self, director_uuid: str | None = None) -> Cpi:
        place = {"state": str(self._state), "account": ACCOUNT, "groups": self.groups, **self.more}
        return _wired(director_uuid or self.director_uuid, place)

    def inside(self, vm_cid: str) -> AbstractContextManager[bool]:
        return nullcontext(False)  # the program does not run where this test does


class ProgramCloudstackBed(CloudstackBed):
    driver = "coterie-cpi-cloudstack"

    def open(self, director_uuid: str | None = None) -> Cpi:
        return _wired(director_uuid or self.director_uuid, {"driver": "cloudstack", **self.properties()})


class ProgramVsphereBed(VsphereBed):
    driver = "coterie-cpi-vsphere"

    def open(self, director_uuid: str | None = None) -> Cpi:
        return _wired(director_uuid or self.director_uuid, {"driver": "vsphere", **self.properties()})


def _wired(director_uuid: str, properties: dict[str, Any]) -> Cpi:
    return cast(Cpi, WiredCpi(served(), {**properties, "director_uuid": director_uuid}))
