"""MariaDB, and the schemas of all services: made once, and kept cold for the next folder."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.peers.openstack.layout import PASSWORD, PYTHON, REGION, Layout
from tests.peers.openstack.processes import STAND_INS, Processes
from tests.peers.openstack.progress import say, timed

_NAMES = ("keystone", "placement", "glance", "neutron", "nova_api", "nova_cell0", "nova", "cinder")
_NOVA = STAND_INS / "oslab_nova_schema.py"
_AS_ROOT = ["--user=root"] if os.getuid() == 0 else []
_READY = ".oslab-ready"


def entry_point(name: str, target: str, *words: str) -> list[str]:
    return [PYTHON, str(STAND_INS / "oslab_run.py"), name, target, *words]


class Database:
    def __init__(self, layout: Layout, processes: Processes) -> None:
        self._layout = layout
        self._processes = processes
        self._folder = Path(layout.path("mysql"))

    def start(self) -> None:
        path = self._layout.path
        words = [
            *("/usr/sbin/mariadbd", "--no-defaults", f"--datadir={self._folder}", f"--socket={self._layout.socket}"),
            *(f"--pid-file={path('mysql.pid')}", "--skip-networking", "--skip-grant-tables", "--skip-log-bin"),
            *("--character-set-server=utf8mb3", "--max-connections=800", "--innodb-buffer-pool-size=256M"),
            *("--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0", "--innodb-log-file-size=64M"),
            *("--performance-schema=OFF", f"--log-error={path('log/mariadb.log')}", *_AS_ROOT),
        ]
        self._processes.spawn("mariadb", words)
        self._processes.await_("mariadb", lambda: self._sql("select 1"), ["mariadb"])

    def make_schemas(self, versions: dict[str, str]) -> None:
        """All databases, from a cold copy where one of the same versions is kept."""
        if (self._folder / _READY).exists():
            return
        facts = [versions, _NOVA.read_text()]
        key = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
        kept = self._layout.cache / f"mysql-{key}" if self._layout.cache else None
        self._stop()
        shutil.rmtree(self._folder, ignore_errors=True)
        if kept and (kept / _READY).exists():
            with timed("schemas from the cache"):
                shutil.copytree(kept, self._folder)
            return
        self._install()
        with timed("schemas"), ThreadPoolExecutor(max(2, os.cpu_count() or 2)) as pool:
            list(pool.map(self._migrate, self._migrations().items()))
        self._stop()
        (self._folder / _READY).write_text(key)
        if kept:
            _keep(self._folder, kept)

    def _install(self) -> None:
        words = ["--no-defaults", f"--datadir={self._folder}", "--auth-root-authentication-method=normal"]
        self._processes.tool("mariadb-install-db", ["mariadb-install-db", *words, "--skip-test-db", *_AS_ROOT])
        self.start()
        self._sql("".join(f"create database `{name}` character set utf8mb3;" for name in _NAMES))

    def _migrate(self, job: tuple[str, list[list[str]]]) -> None:
        name, commands = job
        began = time.time()
        for words in commands:
            self._processes.tool(f"schema-{name}", words)
        say(f"  schema {name:<12} {time.time() - began:6.1f} s")

    def _migrations(self) -> dict[str, list[list[str]]]:
        """The longest first."""

        def run(program: str, target: str, config: str, *words: str) -> list[str]:
            file = self._layout.path(f"etc/{config}.conf")
            return entry_point(program, f"{target}:main", "--config-file", file, *words)

        keystone = ("keystone-manage", "keystone.cmd.manage", "keystone")
        first = ["bootstrap", "--bootstrap-password", PASSWORD, "--bootstrap-region-id", REGION]
        return {
            "neutron": [run("neutron-db-manage", "neutron.db.migration.cli", "neutron", "upgrade", "heads")],
            "nova": [[PYTHON, str(_NOVA), self._layout.path("etc/nova.conf")]],
            "cinder": [run("cinder-manage", "cinder.cmd.manage", "cinder", "db", "sync")],
            "keystone": [run(*keystone, "db_sync"), run(*keystone, *first)],
            "glance": [run("glance-manage", "glance.cmd.manage", "glance/glance-api", "db_sync")],
            "placement": [run("placement-manage", "placement.cmd.manage", "placement/placement", "db", "sync")],
        }

    def _stop(self) -> None:
        self._processes.stop(["mariadb"], 60)

    def _sql(self, text: str) -> str:
        words = ["mariadb", "--no-defaults", f"--socket={self._layout.socket}", "-uroot", "-N", "-B", "-e", text]
        done = subprocess.run(words, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        return done.stdout


def _keep(folder: Path, kept: Path) -> None:
    part = kept.with_name(f"{kept.name}.{os.getpid()}")
    shutil.copytree(folder, part)
    try:
        part.rename(kept)
    except OSError:  # another run was first
        shutil.rmtree(part)
