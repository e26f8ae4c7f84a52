"""Commands as a user runs them: a process each, a home and a state folder of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from coterie.director.process.state_folder import StateFolder, read_holder
from tests.cli.fork_server import start_director

PROGRAM = [sys.executable, "-c", "from coterie.cli.main import main; main()"]

CLOUD = """\
clouds:
- name: lab
  driver: sandbox
azs:
- {name: z1, cloud: lab, cloud_properties: {zone: z1}}
vm_types:
- {name: small, cloud_properties: {cpu: 1, ram_mb: 512, disk_mb: 1024}}
disk_types: []
networks:
- name: default
  type: manual
  subnets:
  - {range: 127.0.0.0/24, gateway: 127.0.0.1, azs: [z1]}
"""
MANIFEST = """\
name: web
stemcells:
- {alias: default, name: debian-12, version: "1.1"}
instance_groups:
- name: web
  instances: 2
  azs: [z1]
  vm_type: small
  stemcell: default
  persistent_disk: 1024
  networks: [{name: default}]
  placement: {policy: anti-affinity}
"""


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class Machine:
    """A user's machine: its folders and environment, and commands run on it."""

    folder: Path
    env: dict[str, str] = field(default_factory=dict)

    @property
    def state_folder(self) -> StateFolder:
        return StateFolder(self.folder / "state")

    def environment(self) -> dict[str, str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("COTERIE_", "XDG_"))}
        mine = {
            "HOME": str(self.folder),
            "COTERIE_STATE": str(self.state_folder.path),
            "COTERIE_LOOK_INTERVAL": "0",
            "TERM": "xterm",
        }
        return {**clean, **mine, **self.env}

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*PROGRAM, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment(),
            cwd=self.folder,
        )

    def run(self, *words: str) -> Result:
        return finish(self.start(*words))

    def write(self, name: str, text: str) -> str:
        (self.folder / name).write_text(text)
        return name

    def furnish(self) -> None:
        """A cloud and stemcells, in a local Director unless another one is named; a manifest."""
        if "COTERIE_DIRECTOR" not in self.env:
            start_director(self.state_folder, self.environment())
        self.write("cloud.yml", CLOUD)
        self.write("web.yml", MANIFEST)
        assert self.run("clouds", "set", "cloud.yml").code == 0
        assert self.run("clouds", "check").code == 0  # the first call makes the datacenter
        for version in ("1.1", "1.2"):
            assert self.run("stemcells", "add", "debian-12", version, "--property", "image=x").code == 0

    def close(self) -> None:
        holder = read_holder(self.state_folder.lock)
        if holder is not None:
            with suppress(ProcessLookupError):
                os.kill(holder.pid, signal.SIGKILL)


def finish(process: subprocess.Popen[str]) -> Result:
    out, err = process.communicate(timeout=120)
    return Result(process.returncode, out, err)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """One machine for a whole module, with a Director that runs already."""
    made = Machine(tmp_path_factory.mktemp("machine"))
    made.furnish()
    yield made
    made.close()
