"""Where the control plane lives: its folder, its ports, its hosts, and the versions of its programs."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path

PASSWORD = "oslab"  # everything listens on loopback only; the same for every account
REGION = "RegionOne"
PYTHON = "/usr/bin/python3"  # the interpreter that Debian's services belong to
NAMES = ("keystone", "placement", "glance", "nova", "neutron", "cinder")
_BLOCK = (*NAMES, "amqp", "amqp_dist", "epmd")
_FIRST_PORT = 27100
_SOCKET_LIMIT = 100  # of a Unix socket's path
_HOSTS = 4  # three in the zone of the tests' groups, one elsewhere


class Layout:
    """Everything that the environment may say about a control plane:

    OSLAB_STATE (its folder), OSLAB_CACHE (schemas; empty: none), OSLAB_PORT_BASE, OSLAB_HOSTS, OSLAB_NICE,
    OSLAB_TIMEOUT (seconds for any one step), OSLAB_CINDER=0, OSLAB_DEBUG=true, OSLAB_NO_INSTALL=1.
    """

    def __init__(self) -> None:
        env = os.environ.get
        self.state = Path(env("OSLAB_STATE") or Path(tempfile.gettempdir()) / f"openstack-lab-{os.getuid()}").absolute()
        cache = env("OSLAB_CACHE", f"{self.state}-cache")
        self.cache = Path(cache) if cache else None
        self.nice = env("OSLAB_NICE") or "5"
        self.patience = float(env("OSLAB_TIMEOUT") or 600)
        self.with_cinder = env("OSLAB_CINDER") != "0"
        self.debug = env("OSLAB_DEBUG") or "false"
        self.may_install = not env("OSLAB_NO_INSTALL")
        self.hosts = [f"fake{number + 1}" for number in range(int(env("OSLAB_HOSTS") or _HOSTS))]
        self.socket = self.path("mysql.sock")
        self._choose_ports(env("OSLAB_PORT_BASE"))

    @property
    def amqp(self) -> str:
        return f"rabbit://guest:guest@127.0.0.1:{self.port['amqp']}/"

    def path(self, *parts: str) -> str:
        return str(self.state.joinpath(*parts))

    def database(self, name: str) -> str:
        return f"mysql+pymysql://root@localhost/{name}?unix_socket={self.socket}&charset=utf8"

    def complaint(self) -> str | None:
        """Why nothing can be started with these settings."""
        if len(self.socket) > _SOCKET_LIMIT:
            return f"OSLAB_STATE is too long a path for a Unix socket ({len(self.socket)} characters)"
        return None

    def _choose_ports(self, wanted: str | None) -> None:
        """Those that were used before, if it runs or they are free; else the first free block."""
        known = self.state / "ports"
        before = known.read_text().strip() if known.exists() else None
        running = any((self.state / "run").glob("*.pid"))
        if wanted:
            base = int(wanted)
        elif before and (running or _free(int(before))):
            base = int(before)
        else:
            base = next(number for number in range(_FIRST_PORT, 32000, 20) if _free(number))
        self.base = base
        self.port = {name: base + number for number, name in enumerate(_BLOCK)}
        self.url = {name: f"http://127.0.0.1:{self.port[name]}" for name in NAMES}


def _free(base: int) -> bool:
    return all(_unused(base + number) for number in range(len(_BLOCK)))


def _unused(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
