"""The operator's path through docs/operating.md and docs/access.md, by their own commands: two Directors and two
conductors in each of two groups, from the units and files of deploy/systemd, on PostgreSQL with TLS and passwords, from
an empty database to a restored one. As root, the services of each machine are another user."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.deploy.machines import IS_ROOT, UNITS, Machine, interpreter, user_of
from tests.ledger.test_tls import furnish
from tests.peers import postgres
from tests.peers.certificates import Authority
from tests.peers.ports import free_port

PASSWORD = "a-password"
DOCS = Path(__file__).parents[2] / "docs"
CLOUD = """
clouds:
- name: lab
  driver: sandbox
  conductor_group: rack1
  properties: {settle_s: 0.2}
- name: other
  driver: sandbox
  conductor_group: rack2
  properties: {settle_s: 0.2}
azs:
- {name: z1, cloud: lab, cloud_properties: {zone: z1}}
- {name: z2, cloud: other, cloud_properties: {zone: z1}}
vm_types: [{name: small, cloud_properties: {instance_type: s}}]
networks: [{name: default, subnets: [{range: 127.31.0.0/24, gateway: 127.31.0.1, azs: [z1, z2]}]}]
"""
MANIFEST = """
name: web
stemcells: [{alias: s, name: os, version: "1"}]
instance_groups:
- {name: web, instances: 2, azs: [z1, z2], vm_type: small, stemcell: s, networks: [{name: default}]}
"""


def block(page: str, word: str) -> str:
    """The first block of commands on the page with this word."""
    found = re.findall(r"^( *)```(?:sh|sql|console)\n(.*?)^ *```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)
    return next(text for _, text in found if word in text)


class Site:
    """A PostgreSQL with passwords and four machines: two with a Director each, two with the conductors of a group each.
    Administrators work on them as root does."""

    def __init__(self, folder: Path, server: postgres.Server, authority: Authority, python: tuple[str, str]) -> None:
        self._python = python
        self.folder, self.server, self.authority = folder, server, authority
        self.ports = free_port(), free_port()
        self.directors = [self._add_director(number) for number in (0, 1)]
        self.racks = {"rack1": self._add_conductors(2, "rack1"), "rack2": self._add_conductors(3, "rack2")}
        self.machines = [*self.directors, *self.racks.values()]

    def _add_director(self, number: int) -> Machine:
        made = self._add_machine(number, "coterie_director")
        certificate, key = self.authority.issue(f"director{number}")
        tls = {}
        for name, file in (("CERTIFICATE", certificate), ("KEY", key)):
            made.write(file.name, file.read_text(), of_services=True)
            tls[f"COTERIE_TLS_{name}"] = f"/etc/coterie/{file.name}"
        database = self.database("coterie_director")
        listen = f"127.0.0.1:{self.ports[number]}"
        made.write("director.env", settings("director.env", COTERIE_DATABASE=database, COTERIE_LISTEN=listen, **tls))
        return made

    def _add_conductors(self, number: int, group: str) -> Machine:
        role = f"coterie_{group}"
        made = self._add_machine(number, role)
        for name in "ab":
            given = {"COTERIE_DATABASE": self.database(role), "COTERIE_CONDUCTOR_GROUP": group}
            given |= {"COTERIE_DRIVERS": "sandbox", "COTERIE_LEASE": "30"}
            given["COTERIE_CONDUCTOR_LISTEN"] = f"127.0.0.1:{free_port()}"
            made.write(f"conductor-{name}.env", settings("conductor.env", **given))
        return made

    def _add_machine(self, number: int, role: str) -> Machine:
        """With the folder of the guide, and the files that the settings name."""
        made = Machine(self.folder, number, self._python)
        folder = next(line for line in block("operating.md", "install -d").splitlines() if "install" in line).strip()
        owner = f"-g {made.user}" if IS_ROOT else ""
        folder = folder.replace("-g coterie ", f"{owner} ") if IS_ROOT else folder.replace("-o root -g coterie ", "")
        self.run(made.here(folder))
        made.write("pgpass", f"*:*:*:{role}:{PASSWORD}-{role}\n", of_services=True)
        for one in ("ca.pem", "db-ca.pem"):  # certificates are no secret
            made.write(one, self.authority.ca.read_text()).chmod(0o644)
        return made

    def database(self, role: str) -> str:
        base = f"postgresql://{role}@127.0.0.1:{self.server.port}/coterie"
        return f"{base}?sslmode=verify-full&sslrootcert=/etc/coterie/db-ca.pem"

    def create_database(self) -> None:
        with psycopg.connect(self.server.url, autocommit=True) as administrator:
            for statement in block("operating.md", "CREATE DATABASE").split(";"):
                for role in ("rack1", "rack2") if "coterie_conductor" in statement else ("",):
                    if statement.strip():
                        administrator.execute(statement.replace("coterie_conductor", f"coterie_{role}"))
            for role in ("coterie_director", "coterie_rack1", "coterie_rack2"):
                administrator.execute(f"ALTER ROLE {role} PASSWORD '{PASSWORD}-{role}'")

    def as_owner(self) -> dict[str, str]:
        """The settings with which PostgreSQL's own programs reach the database as the Directors' role."""
        machine = self.directors[0]
        found = {"PGHOST": "127.0.0.1", "PGPORT": str(self.server.port), "PGUSER": "coterie_director"}
        return found | {
            "PGPASSFILE": str(machine.etc / "pgpass"),
            "COTERIE_DATABASE": machine.here(self.database("coterie_director")),
        }

    def grant(self, rack: str) -> None:
        """Give the role of a group its rights."""
        command = block("operating.md", "psql").strip().replace("coterie_conductor", f"coterie_{rack}")
        self.run(command.replace("rack1", rack), **self.as_owner())

    def start_director(self, number: int) -> None:
        self.directors[number].start("coterie-director")
        self.directors[number].wait("coterie-director")
        assert self.is_ready(number)

    def start_conductors(self, *names: str) -> None:
        services = [(machine, f"coterie-conductor@{name}") for machine in self.racks.values() for name in names]
        for machine, service in services:
            machine.start(service)
        for machine, service in services:
            machine.wait(service)

    def is_ready(self, number: int) -> bool:
        """As a load balancer asks: without a token."""
        context = ssl.create_default_context(cafile=str(self.authority.ca))
        with urllib.request.urlopen(f"https://127.0.0.1:{self.ports[number]}/readyz", context=context) as answer:
            return bool(answer.read() == b"ok\n")

    def run(self, script: str, director: int | None = None, **more: str) -> str:
        """As the administrator."""
        env = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(self.folder), **more}
        if director is not None:
            env["COTERIE_DIRECTOR"] = f"https://127.0.0.1:{self.ports[director]}"
            env["COTERIE_CA"] = str(self.authority.ca)
            env["COTERIE_TOKEN_FILE"] = str(self.directors[0].var / "director" / "token")
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script], env=env, cwd=self.folder, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def share_key(self, machine: Machine) -> None:
        """From the first conductor of its group to the second, by the guide's command."""
        command = block("operating.md", "install -m 600").strip()
        names = {"-o coterie -g coterie": f"-o {machine.user} -g {machine.user}" if IS_ROOT else ""}
        names |= {"conductor-NAME": "conductor-a", "conductor-OTHER": "conductor-b"}
        (machine.var / "conductor-b").mkdir(mode=0o700, exist_ok=True)
        for word, here in names.items():
            command = command.replace(word, here)
        self.run(machine.here(command))


def settings(example: str, **values: str) -> str:
    """The file of the source tree, with these values."""
    text = (UNITS / example).read_text()
    for name, value in values.items():
        text, count = re.subn(rf"^{name}=.*$", lambda _, line=f"{name}={value}": line, text, flags=re.MULTILINE)
        text += "" if count else f"{name}={value}\n"
    return text


@pytest.fixture
def site() -> Iterator[Site]:
    with tempfile.TemporaryDirectory(prefix="coterie-site-") as name, postgres.running() as server:
        folder = Path(name)
        folder.chmod(0o755)  # each user has to reach its own machine
        try:
            python = interpreter(user_of(0), folder)
        except LookupError as error:
            pytest.skip(str(error))
        authority = Authority(folder)
        furnish(server, authority)
        want_passwords(server)
        made = Site(folder, server, authority, python)
        try:
            yield made
        finally:
            for machine in made.machines:
                machine.stop(signal.SIGKILL)


def want_passwords(server: postgres.Server) -> None:
    """Of all but the administrator."""
    with psycopg.connect(server.url, autocommit=True) as administrator:
        row = administrator.execute("SHOW hba_file").fetchone()
        assert row is not None
        Path(row[0]).write_text("host all coterie 127.0.0.1/32 trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n")
        administrator.execute("SELECT pg_reload_conf()")


def test_from_an_empty_database_to_a_restored_one(site: Site) -> None:
    site.create_database()
    site.start_director(0)
    as_owner = site.as_owner()
    for rack in site.racks:
        site.grant(rack)
    site.start_director(1)
    site.start_conductors("a")
    for rack, machine in site.racks.items():
        publish = block("operating.md", "keys publish").replace("conductor-NAME", "conductor-a").replace("rack1", rack)
        site.run(machine.here(publish.strip()), director=0)
        site.share_key(machine)
    site.start_conductors("b")

    (site.folder / "clouds.yml").write_text(CLOUD)
    (site.folder / "web.yml").write_text(MANIFEST)
    site.run("coterie clouds set clouds.yml", director=0)
    site.run("coterie stemcells add os 1 --property image=x", director=0)
    site.run("coterie deploy web.yml", director=1)
    assert site.run("coterie nodes", director=0).count(" up ") == 2

    metrics = block("operating.md", "prometheus").replace("8443", str(site.ports[0]))
    assert 'coterie_nodes{state="up"} 2' in site.run(site.directors[0].here(metrics), director=0)

    _rotate(site)
    _check_walls(site)
    site.run(block("operating.md", "pg_dump"), **as_owner)
    (site.folder / "web.yml").write_text(MANIFEST.replace("instances: 2", "instances: 3"))
    site.run("coterie deploy web.yml", director=0)
    for machine in site.machines:
        machine.stop()

    with psycopg.connect(site.server.url, autocommit=True) as administrator:
        administrator.execute("DROP DATABASE coterie")
        administrator.execute("CREATE DATABASE coterie OWNER coterie_director")
    site.run("pg_restore --no-owner --dbname=coterie coterie.dump", **as_owner)
    site.start_director(0)
    site.start_conductors("a")
    recovered = site.run("coterie recover web.yml --yes", director=0)
    assert "web/2" in recovered, "the machine that was made after the backup"
    assert "nothing to change" in site.run("coterie plan web.yml", director=0)


def _rotate(site: Site) -> None:
    """The guide's commands; each runs on the machine that it is about."""
    steps = [line.split("#")[0].strip(" $\n") for line in block("access.md", "keys make").splitlines()]
    make, publish, reseal, retire = [step for step in steps if step]
    machine = site.racks["rack1"]
    old = site.run("coterie conductors keys -o json", director=0)
    (key,) = (one["id"] for one in json.loads(old)["items"] if one["conductor_group"] == "rack1")
    state = str(machine.var / "conductor-a")
    site.run(make, COTERIE_STATE=state)
    site.share_key(machine)
    publish_there = f"COTERIE_KEY_FILE={state}/conductor.key {publish.replace('site-a', 'rack1')}"
    site.run(publish_there, director=0)
    assert key not in site.run(reseal, director=0)
    site.run(retire.replace("OLD", key).replace("site-a", "rack1"), director=0)


def _check_walls(site: Site) -> None:
    """What a service wrote belongs to its user alone."""
    for machine in site.machines:
        written = [path for path in machine.var.rglob("*") if not path.is_socket()]
        assert len(written) > 2
        assert {path.stat().st_uid for path in written} == {machine.user}
        assert {path.stat().st_mode & 0o077 for path in written} == {0}


def test_wrong_users_modes_and_roles_are_refused(site: Site) -> None:
    """A service with a mistake in its set-up ends with what to do about it."""
    site.create_database()
    rack, service = site.racks["rack1"], "coterie-conductor@a"

    def refusal() -> str:
        rack.start(service)
        return rack.end_of(service)

    assert "start the Director of this release first" in refusal()
    site.start_director(0)
    assert "then grant again: coterie conductors role" in refusal()
    site.grant("rack1")
    (rack.etc / "pgpass").chmod(0o644)
    assert "PGPASSFILE names must belong to the user of this service, have mode 0600" in refusal()
    (rack.etc / "pgpass").chmod(0o600)
    key = rack.var / "conductor-a" / "conductor.key"
    key.write_text("{}")
    key.chmod(0o644)
    rack.give(key)
    assert f"remedy: chmod 600 {key}" in refusal()
    key.chmod(0o600)
    if IS_ROOT:
        os.chown(key, 0, 0)
        assert f"give it to the user of the service: chown USER {key}" in refusal()
    key.unlink()
    settings_file = rack.etc / "conductor-a.env"
    settings_file.write_text(settings_file.read_text().replace("GROUP=rack1", "GROUP=rack2"))
    assert "coterie conductors role coterie_rack1 --group rack2" in refusal(), "the role is of another group"


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
