"""Guests for simulated machines: a real BOSH agent, on its `dummy` platform, for each VM that runs, with exactly the
user data that the CPI wrote. Beside it the agent reads only what DHCP would have said."""

from __future__ import annotations

import base64
import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coterie.sandbox.datacenter import Account
from coterie.sandbox.pages import EVERYTHING
from coterie.sandbox.vm_shape import Vm, get_user_data, list_vms

_LOOK_S = 0.1
_CONFIG = {"Infrastructure": {"Settings": {"Sources": [{"Type": "File"}]}}}


@dataclass
class Guests:
    """`agent`: the program. `folder`: where each guest has its files."""

    account: Account
    agent: str
    folder: Path
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @contextmanager
    def watched(self) -> Iterator[Guests]:
        """VMs that come get their agent, those that go lose it."""
        done = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(done,), daemon=True)
        watcher.start()
        try:
            yield self
        finally:
            done.set()
            watcher.join()
            for cid in list(self._running):
                self._stop(cid)

    @property
    def vms(self) -> list[Vm]:
        return list(list_vms(self.account, EVERYTHING).items)

    def log(self) -> str:
        """What the agents said, for the message of a test that fails."""
        return "\n".join(file.read_text("utf-8", "replace")[-4000:] for file in self.folder.glob("*/agent.log"))

    def _watch(self, done: threading.Event) -> None:
        while not done.wait(_LOOK_S):
            running = {vm.id: vm for vm in self.vms if vm.state == "running"}
            for cid in self._running.keys() - running.keys():
                self._stop(cid)
            for cid in running.keys() - self._running.keys():
                self._start(running[cid])

    def _start(self, vm: Vm) -> None:
        settings = read_settings(self.account, vm.id)
        base = self.folder / vm.id
        (base / "bosh").mkdir(parents=True)
        (base / "settings.json").write_text(json.dumps(settings))
        nic = next(nic for nic in vm.nics if nic.mac)
        leased = {"ip": nic.ip, "netmask": "255.255.0.0", "gateway": "127.0.0.1"}
        (base / "bosh" / "dummy-default-network-settings.json").write_text(json.dumps(leased))
        config: dict[str, Any] = json.loads(json.dumps(_CONFIG))
        config["Infrastructure"]["Settings"]["Sources"][0]["SettingsPath"] = str(base / "settings.json")
        (base / "agent.json").write_text(json.dumps(config))
        words = [self.agent, "-P", "dummy", "-M", "dummy", "-b", str(base), "-C", str(base / "agent.json")]
        with (base / "agent.log").open("wb") as log:
            self._running[vm.id] = subprocess.Popen(words, stdout=log, stderr=log, cwd=base)

    def _stop(self, cid: str) -> None:
        agent = self._running.pop(cid)
        agent.kill()
        agent.wait()


def read_settings(account: Account, cid: str) -> dict[str, Any]:
    """The user data, which CloudStack takes in base64."""
    data = get_user_data(account, cid)
    found: dict[str, Any] = json.loads(data if data.startswith("{") else base64.b64decode(data))
    return found
