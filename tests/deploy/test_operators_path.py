"""The operator's path through docs/operating.md and docs/access.md, by their own commands: two Directors and two
conductors with state folders of their own, on PostgreSQL over TLS, from an empty database to a restored one."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.ledger.test_tls import furnish
from tests.peers import postgres
from tests.peers.certificates import Authority
from tests.peers.ports import free_port

DOCS = Path(__file__).parents[2] / "docs"
CLOUD = """
clouds:
- name: lab
  driver: sandbox
  conductor_group: rack1
  properties: {settle_s: 0.2}
azs: [{name: z1, cloud: lab, cloud_properties: {zone: z1}}]
vm_types: [{name: small, cloud_properties: {instance_type: s}}]
networks: [{name: default, subnets: [{range: 127.31.0.0/24, gateway: 127.31.0.1, azs: [z1]}]}]
"""
MANIFEST = """
name: web
stemcells: [{alias: s, name: os, version: "1"}]
instance_groups:
- {name: web, instances: 2, azs: [z1], vm_type: small, stemcell: s, networks: [{name: default}]}
"""


def block(page: str, word: str) -> str:
    """The first block of commands on the page with this word."""
    found = re.findall(r"^( *)```(?:sh|sql|console)\n(.*?)^ *```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)
    return next(text for _, text in found if word in text)


class Operator:
    """Has a shell on one machine; the services run beside it."""

    def __init__(self, folder: Path, server: postgres.Server, authority: Authority) -> None:
        self.folder, self.server, self.authority = folder, server, authority
        self.ports = free_port(), free_port()
        self.services: list[subprocess.Popen[bytes]] = []
        certificate, key = authority.issue("director")
        self.env = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "COTERIE_SANDBOX_STATE": str(folder / "sandbox.db"),
            "COTERIE_TLS_CERTIFICATE": str(certificate),
            "COTERIE_TLS_KEY": str(key),
            "COTERIE_CA": str(authority.ca),
            "COTERIE_LOG_FORMAT": "json",
            "COTERIE_LEASE": "30",
        }

    def url(self, role: str) -> str:
        base = self.server.url.replace("coterie@", f"{role}@").removesuffix("/postgres")
        return f"{base}/coterie?sslmode=verify-full&sslrootcert={self.authority.ca}"

    def start(self, name: str, *words: str, role: str) -> None:
        env = {**self.env, "COTERIE_STATE": str(self.folder / name), "COTERIE_DATABASE": self.url(role)}
        with (self.folder / f"{name}.log").open("wb") as log:
            self.services.append(subprocess.Popen(["coterie", *words], env=env, stderr=log, cwd=self.folder))

    def start_director(self, number: int) -> None:
        """As the guide starts it, with an address of its own."""
        self.start(
            f"director{number}",
            *("director", "--listen", f"127.0.0.1:{self.ports[number]}", "--no-conductor"),
            role="coterie_director",
        )
        self.wait_for(lambda: self.is_ready(number), f"director{number}")

    def start_conductor(self, name: str) -> None:
        words = ("conductor", "--group", "rack1", "--drivers", "sandbox", "--name", name)
        self.start(name, *words, role="coterie_conductor")
        self.wait_for(lambda: "works for rack1" in self.log(name), name)

    def is_ready(self, number: int) -> bool:
        """As a load balancer asks: without a token."""
        context = ssl.create_default_context(cafile=str(self.authority.ca))
        try:
            with urllib.request.urlopen(f"https://127.0.0.1:{self.ports[number]}/readyz", context=context) as answer:
                return bool(answer.read() == b"ok\n")
        except OSError:
            return False

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def wait_for(self, reached: object, name: str) -> None:
        give_up = time.monotonic() + 90
        while not reached():  # type: ignore[operator]
            assert time.monotonic() < give_up and self.services[-1].poll() is None, self.log(name)
            time.sleep(0.1)

    def run(self, script: str, director: int | None = None, **more: str) -> str:
        env = {**self.env, "COTERIE_STATE": str(self.folder / "director0"), **more}
        if director is not None:
            env["COTERIE_DIRECTOR"] = f"https://127.0.0.1:{self.ports[director]}"
            env["COTERIE_TOKEN_FILE"] = str(self.folder / "director0" / "token")
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script], env=env, cwd=self.folder, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def stop(self) -> None:
        for service in self.services:
            service.send_signal(signal.SIGTERM)
        for service in self.services:
            service.wait(60)
        self.services = []


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Operator]:
    authority = Authority(tmp_path)
    with postgres.running() as server:
        furnish(server, authority)
        made = Operator(tmp_path, server, authority)
        try:
            yield made
        finally:
            for service in made.services:
                service.kill()
                service.wait()


def create_database(operator: Operator) -> None:
    with psycopg.connect(operator.server.url, autocommit=True) as administrator:
        for statement in block("operating.md", "CREATE DATABASE").split(";"):
            if statement.strip():
                administrator.execute(statement)


def test_from_an_empty_database_to_a_restored_one(operator: Operator) -> None:
    folder = operator.folder
    create_database(operator)
    operator.start_director(0)
    operator.run(block("operating.md", "psql").strip(), COTERIE_DATABASE=operator.url("coterie_director"))
    operator.start_director(1)
    operator.start_conductor("a")
    publish = block("operating.md", "keys publish").replace("/var/lib/coterie/conductor-NAME", str(folder / "a"))
    operator.run(publish.strip(), director=0)
    (folder / "b").mkdir(mode=0o700)
    shutil.copy(folder / "a" / "conductor.key", folder / "b" / "conductor.key")
    operator.start_conductor("b")

    (folder / "clouds.yml").write_text(CLOUD)
    (folder / "web.yml").write_text(MANIFEST)
    operator.run("coterie clouds set clouds.yml", director=0)
    operator.run("coterie stemcells add os 1 --property image=x", director=0)
    operator.run("coterie deploy web.yml", director=1)
    assert operator.run("coterie nodes", director=0).count(" up ") == 2

    metrics = block("operating.md", "prometheus").replace("8443", str(operator.ports[0]))
    metrics = metrics.replace("/etc/coterie/ca.pem", str(operator.authority.ca))
    assert 'coterie_nodes{state="up"} 2' in operator.run(metrics, director=0)

    _rotate(operator)
    dump = block("operating.md", "pg_dump")
    database = {"PGHOST": "127.0.0.1", "PGPORT": str(operator.server.port), "PGUSER": "coterie_director"}
    operator.run(dump, **database)
    (folder / "web.yml").write_text(MANIFEST.replace("instances: 2", "instances: 3"))
    operator.run("coterie deploy web.yml", director=0)
    operator.stop()

    with psycopg.connect(operator.server.url, autocommit=True) as administrator:
        administrator.execute("DROP DATABASE coterie")
        administrator.execute("CREATE DATABASE coterie OWNER coterie_director")
    operator.run("pg_restore --no-owner --dbname=coterie coterie.dump", **database)
    operator.start_director(0)
    operator.start_conductor("a")
    recovered = operator.run("coterie recover web.yml --yes", director=0)
    assert "web/2" in recovered, "the machine that was made after the backup"
    assert "nothing to change" in operator.run("coterie plan web.yml", director=0)


def _rotate(operator: Operator) -> None:
    """The guide's commands; each runs on the machine that it is about."""
    steps = [line.split("#")[0].strip(" $\n") for line in block("access.md", "keys make").splitlines()]
    make, publish, reseal, retire = [step for step in steps if step]
    old = operator.run("coterie conductors keys -o json", director=0)
    key = re.findall(r'"id": "([^"]+)"', old)[0]
    operator.run(make, COTERIE_STATE=str(operator.folder / "a"))
    shutil.copy(operator.folder / "a" / "conductor.key", operator.folder / "b" / "conductor.key")
    publish_there = f"COTERIE_KEY_FILE={operator.folder}/a/conductor.key {publish.replace('site-a', 'rack1')}"
    operator.run(publish_there, director=0)
    assert key not in operator.run(reseal, director=0)
    operator.run(retire.replace("OLD", key).replace("site-a", "rack1"), director=0)


def test_the_guide_makes_the_user_that_the_units_name(tmp_path: Path) -> None:
    command = block("operating.md", "useradd").splitlines()[0].strip()
    name = shlex.split(command)[-1]
    for unit in (DOCS.parent / "deploy" / "systemd").glob("*.service"):
        assert {f"User={name}", f"Group={name}"} <= set(unit.read_text().splitlines())
    if os.geteuid() != 0 or shutil.which("useradd") is None:
        pytest.skip("only root may add users")
    (tmp_path / "etc").mkdir()
    for file in ("passwd", "group", "shadow", "gshadow"):
        (tmp_path / "etc" / file).touch()
    subprocess.run(shlex.split(command.replace("useradd", f"useradd --prefix {tmp_path}", 1)), check=True)
    (user,) = (tmp_path / "etc" / "passwd").read_text().splitlines()
    assert user.split(":")[0] == name and user.endswith(":/var/lib/coterie:/usr/sbin/nologin")
