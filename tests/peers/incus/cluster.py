"""The cluster: members that start, crash, are cut off and come back. Root; no systemd.

Each member is one incusd in mount, pid, uts and network namespaces of its own, so that one kill is the crash of a host
with all that runs there. Two bridges of this machine join them: one for the cluster, one for the guests."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.peers.incus import emulation
from tests.peers.incus.daemons import INCUS, Daemon, chosen
from tests.peers.incus.packages import kernel, runs_machines

MEMBERS = ("inc1", "inc2", "inc3")
MACHINES_ON = MEMBERS[:2]  # run virtual machines where QEMU is installed; the last one only where KVM works
GROUPS = {"z1": ["inc1", "inc2"], "z2": ["inc3"]}
NETWORK, POOL = "net", "local"
_START_S = 60.0
_POOL_SIZE = "6GiB"

# Some kernels have no connection tracking in bridges. Without it the rules of ACLs cannot be loaded; so they are loaded
# stateless there, and what they reject is dropped.
_NFT = """#!/bin/sh
case "$*" in
-f\\ -*) exec sed -e '/ct state established,related accept/d' -e 's/ reject\\b.*/ drop/' | {nft} "$@";;
*) exec {nft} "$@";;
esac
"""
_INIT = """#!/bin/bash
mount -t overlay overlay -o lowerdir=/etc,upperdir={m}/etc,workdir={m}/work /etc || exit 1
mount -t tmpfs tmpfs /run; mkdir -p /run/{data}
for p in lib log cache; do mkdir -p /var/$p/{data}; mount --bind {m}/$p /var/$p/{data} || exit 1; done
rm -f /var/lib/{data}/unix.socket; hostname {name}
{devices}PATH={m}/bin:$PATH {daemon} --group root &
while :; do wait; sleep 0.2; done
"""


class Refused(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status} {text}")
        self.status = status


class Cluster:
    """One of several that a machine may have, each with a number, a folder and networks of its own."""

    def __init__(self, number: int = 0, daemon: Daemon | None = None) -> None:
        self.daemon = daemon or chosen()
        number += self.daemon.first
        self.number = number
        self.folder = self.daemon.folder(number)
        self.guests = f"10.{78 + 2 * number}"
        self._net = f"10.79.{number}"
        self._prefix = f"cotinc{number}"  # of namespaces and links

    # -- life --

    def start(self) -> None:
        self.stop()
        self.folder.mkdir(parents=True)
        for letter, address in (("c", f"{self._net}.1/24"), ("g", f"{self.guests}.0.1/16")):
            bridge = f"{self._prefix}-{letter}"
            _ip("link", "add", bridge, "type", "bridge")
            _ip("addr", "add", address, "dev", bridge)
            _ip("link", "set", bridge, "up")
        for name in MEMBERS:
            self._prepare(name)
        with ThreadPoolExecutor(len(MEMBERS)) as pool:
            list(pool.map(self.boot, MEMBERS))
        self._form()

    def stop(self) -> None:
        for name in MEMBERS:
            with suppress(OSError, ValueError):
                self.crash(name)
        for name in MEMBERS:
            for letter in "cg":  # the kernel removes those of a namespace some time later
                _try("ip", "link", "del", f"{self._prefix}{letter}{name[-1]}")
            _try("ip", "netns", "del", f"{self._prefix}-{name}")
        for letter in "cg":
            _try("ip", "link", "del", f"{self._prefix}-{letter}")
        self._free_loops()
        shutil.rmtree(self.folder, ignore_errors=True)

    def boot(self, name: str) -> None:
        """Until it answers."""
        member = self.folder / name
        with (member / "log" / "stdout").open("ab") as log:
            words = ["ip", "netns", "exec", f"{self._prefix}-{name}", "unshare", "-m", "-u", "-p", "--fork"]
            words += ["--kill-child", "--mount-proc", "--propagation", "private", str(member / "init")]
            started = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        (member / "pid").write_text(str(started.pid))
        until(
            lambda: self._answers(name, "/internal/ready"),
            _START_S,
            f"{name} does not answer: {_tail(member / 'log' / 'stdout')}",
        )

    def rejoin(self, name: str, member: str = MEMBERS[0]) -> None:
        """Until the others reach it too, which takes some seconds where they had not noticed its crash."""
        self.boot(name)
        until(lambda: self.call("GET", f"/1.0/resources?target={name}", None, member), 90.0, f"{name} is not reached")
        self.await_status(name, "Online", member)

    def crash(self, name: str) -> None:
        """As a host that loses its power."""
        pid = int((self.folder / name / "pid").read_text())
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        (self.folder / name / "pid").unlink()
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)

    def cut(self, name: str) -> None:
        """From the other members; its guests go on."""
        _ip("link", "set", f"{self._prefix}c{name[-1]}", "down")

    def heal(self, name: str) -> None:
        _ip("link", "set", f"{self._prefix}c{name[-1]}", "up")

    def runs(self) -> bool:
        return self._answers(MEMBERS[0])

    # -- its API, past all drivers --

    def socket(self, name: str = MEMBERS[0]) -> str:
        return str(self.folder / name / "lib" / "unix.socket")

    def call(self, method: str, path: str, body: Any = None, member: str = MEMBERS[0], **headers: str) -> Any:
        """The metadata of the answer; an operation is waited for."""
        answer = self._call(method, path, body, member, headers)
        if answer.get("type") != "async":
            return answer.get("metadata")
        path = answer["operation"].partition("?")[0]
        return self._call("GET", f"{path}/wait?timeout=60", None, member, {}).get("metadata")

    def read_file(self, instance: str, path: str, member: str = MEMBERS[0]) -> str:
        return self._ask("GET", f"/1.0/instances/{instance}/files?path={path}", None, member, {}).decode()

    def statuses(self) -> dict[str, str]:
        rows = self.call("GET", "/1.0/cluster/members?recursion=1")
        return {row["server_name"]: row["status"] for row in rows}

    def await_status(self, name: str, status: str, member: str = MEMBERS[0], within_s: float = 90.0) -> None:
        def look() -> bool:
            rows = self.call("GET", "/1.0/cluster/members?recursion=1", None, member)
            return any(row["server_name"] == name and row["status"] == status for row in rows)

        until(look, within_s, f"{name} is not {status}")

    def certificate(self) -> str:
        """The one that members show on the network."""
        return str(self.call("GET", "/1.0")["environment"]["certificate"])

    def run_client(self, name: str, *words: str) -> str:
        """What the daemon's own client prints."""
        return self._run(name, self.daemon.client, *words)

    @property
    def url(self) -> str:
        return f"https://{self._net}.11:8443"

    def _call(self, method: str, path: str, body: Any, member: str, headers: dict[str, str]) -> Any:
        answer = json.loads(self._ask(method, path, body, member, headers) or b"{}")
        if answer.get("type") == "error":
            raise Refused(answer["error_code"], answer["error"])
        return answer

    def _ask(self, method: str, path: str, body: Any, member: str, headers: dict[str, str]) -> bytes:
        connection = http.client.HTTPConnection("incus", timeout=90)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(90)
        connection.sock.connect(self.socket(member))
        try:
            raw = body if isinstance(body, bytes | None) else json.dumps(body).encode()
            connection.request(method, path, raw, headers)
            return connection.getresponse().read()
        finally:
            connection.close()

    def _answers(self, name: str, path: str = "/1.0") -> bool:
        """A member that begins answers the first path; the other only once it is ready."""
        try:
            return bool(self._call("GET", path, None, name, {}))
        except (OSError, http.client.HTTPException, ValueError, Refused):
            return False

    # -- how it is made --

    def _prepare(self, name: str) -> None:
        member, number, space = self.folder / name, name[-1], f"{self._prefix}-{name}"
        for part in ("lib", "log", "etc", "work", "cache", "bin"):
            (member / part).mkdir(parents=True)
        own = [line for line in _lines("/etc/subuid") if not line.startswith("root:")]
        for path in ("subuid", "subgid"):
            (member / "etc" / path).write_text("\n".join([*own, "root:1000000:1000000000"]) + "\n")
        is_emulating = self.daemon == INCUS and name in MACHINES_ON and _emulates()
        devices, words = emulation.prepare(member) if is_emulating else ("", [])
        daemon, data = " ".join([*words, str(self.daemon.path)]), self.daemon.data
        _write_program(member / "init", _INIT.format(m=member, name=name, devices=devices, daemon=daemon, data=data))
        if not self._tracks_bridges():
            _write_program(member / "bin" / "nft", _NFT.format(nft=shutil.which("nft")))
        _ip("netns", "add", space)
        _ip("-n", space, "link", "set", "lo", "up")
        for letter in "cg":
            outer, inner = f"{self._prefix}{letter}{number}", f"up{letter}"
            _ip("link", "add", outer, "type", "veth", "peer", "name", inner, "netns", space)
            _ip("link", "set", outer, "master", f"{self._prefix}-{letter}", "up")
            _ip("-n", space, "link", "set", inner, "up")
        _ip("-n", space, "addr", "add", f"{self._net}.1{number}/24", "dev", "upc")

    def _tracks_bridges(self) -> bool:
        """Whether this kernel loads the rules that Incus writes for ACLs."""
        lines = [f"add table bridge {self._prefix}", f"add chain bridge {self._prefix} c"]
        lines.append(f"add rule bridge {self._prefix} c ct state new accept")
        rule = "".join(f"{line}\n" for line in lines)
        ran = subprocess.run(["nft", "-f", "-"], input=rule, capture_output=True, text=True, check=False)
        _try("nft", "delete", "table", "bridge", self._prefix)
        return ran.returncode == 0

    def _form(self) -> None:
        """One cluster, a pool and a network that all members have, and two cluster groups."""
        first = MEMBERS[0]
        self._preseed(first, f'config: {{core.https_address: "{self._net}.11:8443"}}\n')
        self._preseed(first, f"cluster: {{server_name: {first}, enabled: true}}\n")
        for name in MEMBERS[1:]:
            token = self.run_client(first, "cluster", "add", name, "-q").strip().splitlines()[-1]
            address = f"{self._net}.1{name[-1]}:8443"
            text = f"cluster:\n  enabled: true\n  server_address: {address}\n  cluster_token: {token}\n"
            self._preseed(name, text)
        for name in MEMBERS:
            pool = {"name": POOL, "driver": "btrfs", "config": {"size": _POOL_SIZE}}
            self.call("POST", f"/1.0/storage-pools?target={name}", pool)
            network = {"name": NETWORK, "type": "bridge", "config": {"bridge.external_interfaces": "upg"}}
            self.call("POST", f"/1.0/networks?target={name}", network)
        self.call("POST", "/1.0/storage-pools", {"name": POOL, "driver": "btrfs"})
        none = {"ipv4.address": "none", "ipv6.address": "none"}
        self.call("POST", "/1.0/networks", {"name": NETWORK, "type": "bridge", "config": none})
        for group, members in GROUPS.items():
            self.call("POST", "/1.0/cluster/groups", {"name": group, "members": members})

    def _preseed(self, name: str, text: str) -> None:
        self._run(name, *self.daemon.init, "--preseed", given=text)

    def _run(self, name: str, *words: str, given: str = "") -> str:
        env = {**os.environ, self.daemon.variable: str(self.folder / name / "lib"), "HOME": str(self.folder)}
        ran = subprocess.run(words, env=env, input=given, capture_output=True, text=True, check=False)
        if ran.returncode:
            raise SystemExit(f"{' '.join(words)} on {name}: {ran.stderr[-1000:]}")
        return ran.stdout

    def _free_loops(self) -> None:
        """Those of this cluster's pools: the kernel keeps them for a while after a crash. By the file itself: its path
        is that of every Incus."""
        own = {str(path.stat().st_ino) for path in self.folder.glob("*/lib/disks/*.img")}
        listing = ["losetup", "-l", "-n", "-O", "NAME,BACK-INO"]
        listed = subprocess.run(listing, capture_output=True, text=True, check=False).stdout
        for name, inode in (line.split() for line in listed.splitlines()):
            if inode in own:
                _try("losetup", "-d", name)


def until(look: Callable[[], Any], within_s: float, otherwise: str) -> Any:
    give_up = time.monotonic() + within_s
    while True:
        with suppress(Refused, OSError):
            if found := look():
                return found
        if time.monotonic() > give_up:
            raise SystemExit(otherwise)
        time.sleep(0.05)


def _emulates() -> bool:
    return runs_machines() and emulation.is_needed(kernel())


def _write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def _try(*words: str) -> None:
    subprocess.run(words, check=False, capture_output=True)


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def _tail(path: Path) -> str:
    return path.read_text(errors="replace")[-500:] if path.exists() else ""
