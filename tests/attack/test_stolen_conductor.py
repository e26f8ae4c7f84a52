"""The attacker has the database role of site A: it tries to read, change and take over site B, and gets nothing."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from coterie.cleanup import start as cleanup
from coterie.cleanup.options import Options
from coterie.conductor.membership import ConductorRole
from coterie.conductor.process import Conductor, params_of
from coterie.conductor.startup import check_role, connect
from coterie.errors import Conflict, Refused
from coterie.ids import Ids
from coterie.ledger.grants import statements
from coterie.ledger.rows import director_keys, roles, stemcells
from coterie.ledger.rows.identity import ensure_director
from coterie.ledger.store import Ledger
from coterie.ledger.work import conductors, domains
from coterie.requests import looks, start
from coterie.requests.request import PlanRequest
from coterie.seal.signature import Signer
from tests.ledger.test_grants import finished
from tests.ledger.test_schema import upgrade_to
from tests.peers.postgres import conductor_role

BOTH = """\
clouds:
- {name: cloud-a, driver: sandbox, conductor_group: site-a}
- {name: cloud-b, driver: sandbox, conductor_group: site-b}
azs:
- {name: a, cloud: cloud-a, cloud_properties: {zone: z1}}
- {name: b, cloud: cloud-b, cloud_properties: {zone: z1}}
vm_types:
- {name: small, cloud_properties: {cpu: 1, ram_mb: 256, disk_mb: 1024}}
disk_types:
- {name: data, disk_size: 1024}
networks:
- name: net
  subnets:
  - {range: 10.8.0.0/24, gateway: 10.8.0.1, azs: [a]}
  - {range: 10.9.0.0/24, gateway: 10.9.0.1, azs: [b]}
"""


def manifest(name: str, *azs: str, instances: int = 2) -> str:
    return f"""\
name: {name}
stemcells: [{{alias: os, name: debian-12, version: "1.1"}}]
instance_groups:
- name: web
  instances: {instances}
  azs: [{", ".join(azs)}]
  vm_type: small
  persistent_disk_type: data
  stemcell: os
  networks: [{{name: net}}]
  env: {{bosh: {{password: CANARY-{name}}}}}
"""


class TwoSites:
    """A Director's ledger, and a conductor of each site with a database role of its own."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.director = Ledger.open(url)
        ensure_director(self.director, "test", Ids())
        signer = Signer.load(folder / "director.key")
        with self.director.write() as tx:
            director_keys.publish(tx, signer, params_of, pinned=False)
            stemcells.add(tx, "debian-12", "1.1", None, None, {"image": "x"}, [])
        self.director.sign_with(signer)
        self.role_a, self.role_b = conductor_role(url, "site-a"), conductor_role(url, "site-b")
        self.ledgers = [connect(self.role_a), connect(self.role_b)]
        self.conductors = [
            Conductor(ledger, f"c-{group}", state_folder=folder / group, role=ConductorRole(group), workers=2)
            for ledger, group in zip(self.ledgers, ("site-a", "site-b"), strict=True)
        ]

    def start(self) -> None:
        for conductor in self.conductors:
            conductor.start()

    def stop(self) -> None:
        for conductor in self.conductors:
            conductor.drain(10)
        for ledger in (*self.ledgers, self.director):
            ledger.close()

    def deploy(self, name: str, text: str) -> None:
        request = PlanRequest(deployment=name, manifest=text, cloud_config=BOTH)
        assert finished(self.director, start.deploy(self.director, request, None, None)) == "done"

    def delete(self, name: str) -> None:
        request = PlanRequest(deployment=name, delete=True)
        assert finished(self.director, start.deploy(self.director, request, None, None)) == "done"


@pytest.fixture
def sites(postgres_url: str, tmp_path: Path) -> Iterator[TwoSites]:
    made = TwoSites(postgres_url, tmp_path)
    made.start()
    try:
        yield made
    finally:
        made.stop()


def test_two_sites_deploy_update_delete_and_clean_up(sites: TwoSites) -> None:
    """Everything goes through: deployments of one site, and one of both, whose stages have steps of both."""
    sites.deploy("aapp", manifest("aapp", "a"))
    sites.deploy("both", manifest("both", "a", "b", instances=4))
    sites.deploy("both", manifest("both", "a", "b", instances=6).replace("CANARY-both", "changed"))
    looked = looks.look(sites.director)
    assert looked is not None and finished(sites.director, looked) == "done"
    sites.delete("both")
    sites.delete("aapp")
    with psycopg.connect(sites.url) as owner:
        assert owner.execute("SELECT count(*) FROM deployments").fetchone() == (0,)
        assert owner.execute("SELECT count(*) FROM nodes").fetchone() == (0,)
        assert owner.execute("SELECT count(*) FROM addresses").fetchone() == (0,)
    number, task = cleanup.survey(sites.director, Options.of_wire({"grace_s": 0.0, "undo_s": 0.0}), None)
    assert finished(sites.director, task) == "done"
    plan = cleanup.read_plan(sites.director, number)
    assert {item.cloud for item in plan.items} == {"cloud-a", "cloud-b"}
    assert finished(sites.director, cleanup.apply(sites.director, number, plan.id, None)) == "done"
    with psycopg.connect(sites.url) as owner:
        outcomes = owner.execute("SELECT DISTINCT outcome FROM findings WHERE action = 'delete'").fetchall()
    assert outcomes == [("deleted",)]


# Rows of site B that its deployment does not bring along, so that each table has something to take.
MORE = [
    "INSERT INTO server_groups (intent, deployment, name, cloud, state, created_at)"
    " VALUES ('g-b', 'bapp', 'g', 'cloud-b', 'live', 0)",
    "INSERT INTO server_group_users SELECT id, 'g-b' FROM instance_groups WHERE deployment = 'bapp'",
    "INSERT INTO changes (domain, state, created_at, cloud) VALUES ('cloud-b/z1', 'waiting', 0, 'cloud-b')",
    "INSERT INTO domains (domain, cloud) VALUES ('cloud-b/z1', 'cloud-b')",
    "INSERT INTO cleanups (id, options, created_at) VALUES (1, '{}', 0)",
    "INSERT INTO surveys (cleanup, cloud, kind, state) VALUES (1, 'cloud-b', 'vm', 'open')",
    "INSERT INTO findings (cleanup, cloud, kind, verdict, action, reason)"
    " VALUES (1, 'cloud-b', 'vm', 'orphan', 'delete', 'x')",
    "INSERT INTO suspects (cloud, kind, cid, since, cleanup) VALUES ('cloud-b', 'vm', 'x', 0, 1)",
    "INSERT INTO sightings (cleanup, cloud, kind, intent) VALUES (1, 'cloud-b', 'vm', 'x')",
    "INSERT INTO parts (cloud, intent, kind, name, created_at) VALUES ('cloud-b', 'x', 'port', 'x', 0)",
    "INSERT INTO cloud_pins (cloud, identity, pinned_at) VALUES ('cloud-b', 'x', 0)"
    " ON CONFLICT (cloud) DO UPDATE SET identity = 'x'",
    "INSERT INTO cloud_alarms (cloud, kind, since, body) VALUES ('cloud-b', 'meltdown', 0, 'x')",
    "INSERT INTO machine_secrets (name, conductor_group, deployment, key_id, sealed, wanted_at)"
    " VALUES ('x', 'site-b', 'bapp', 'k', 's', 0)",
    # An image that only site B uploads now, and a step of site A that is not about it.
    "INSERT INTO stemcells (name, version, image, sha256, created_at) VALUES ('os', '2', 'os-2', 'image-b', 0)",
    "INSERT INTO stemcell_chunks VALUES ('image-b', 0, 'x', 0)",
    "INSERT INTO steps (task, flow, label, subject, cloud, conductor_group, state, not_before)"
    " SELECT max(id), 'stemcell.upload', 'upload', 'os/2@cloud-b', 'cloud-b', 'site-b', 'running', 0 FROM tasks",
    "INSERT INTO steps (task, flow, label, subject, cloud, conductor_group, state, not_before)"
    " SELECT min(id), 'stemcell.upload', 'upload', 'os/1@cloud-a', 'cloud-a', 'site-a', 'running', 0 FROM tasks",
]


@pytest.fixture
def owner(sites: TwoSites) -> Iterator[psycopg.Connection]:
    """Policies do not bind it: what it sees is what the attacker would see without them."""
    sites.deploy("aapp", manifest("aapp", "a"))
    sites.deploy("bapp", manifest("bapp", "b"))
    for conductor in sites.conductors:
        conductor.drain(10)  # else the conductor of site B would answer, apply and remove these rows
    with psycopg.connect(sites.url, autocommit=True) as connection:
        for statement in MORE:
            connection.execute(statement)
        connection.execute(
            "INSERT INTO conductors (name, incarnation, conductor_group, release, started_at, heartbeat, ttl_s)"
            " VALUES ('c-site-b', 'i', 'site-b', '0.2', 0, extract(epoch from now()), 600)"
        )
        yield connection


@pytest.fixture
def attacker(sites: TwoSites, owner: psycopg.Connection) -> Iterator[psycopg.Connection]:
    with psycopg.connect(sites.role_a, autocommit=True) as connection:
        yield connection


READ = {  # table: which rows of it are of the other site
    "nodes": "cloud = 'cloud-b'",
    "steps": "cloud = 'cloud-b'",
    "objects": "cloud = 'cloud-b'",
    "facts": "cloud = 'cloud-b'",
    "clouds": "name = 'cloud-b'",
    "tasks": "deployment = 'bapp'",
    "deployments": "name = 'bapp'",
    "stages": "task = {b_task}",
    "events": "id = {b_event}",
    "server_groups": "cloud = 'cloud-b'",
    "server_group_users": "server_group = 'g-b'",
    "addresses": "ip LIKE '10.9.%'",
    "conductor_roles": "conductor_group = 'site-b'",
    "changes": "cloud = 'cloud-b'",
    "domains": "cloud = 'cloud-b'",
    "surveys": "cloud = 'cloud-b'",
    "findings": "cloud = 'cloud-b'",
    "suspects": "cloud = 'cloud-b'",
    "sightings": "cloud = 'cloud-b'",
    "parts": "cloud = 'cloud-b'",
    "cloud_pins": "cloud = 'cloud-b'",
    "cloud_alarms": "cloud = 'cloud-b'",
    "machine_secrets": "conductor_group = 'site-b'",
    "stemcell_chunks": "sha256 = 'image-b'",
}
SHOWN = {"conductors", "instance_groups"}  # living conductors are shown to all; of the other table no role reads a row


def test_nothing_of_the_other_site_is_read(attacker: psycopg.Connection, owner: psycopg.Connection) -> None:
    """The owner finds a row with the same words: without its policy, each of these would find something."""
    (b_task,) = owner.execute("SELECT id FROM tasks WHERE deployment = 'bapp'").fetchone() or (0,)
    (b_event,) = owner.execute("SELECT max(id) FROM events WHERE task = %s", [b_task]).fetchone() or (0,)
    for table, which in READ.items():
        statement = f"SELECT count(*) FROM {table} WHERE {which}".format(b_task=b_task, b_event=b_event)
        found = [one.execute(statement).fetchone() for one in (attacker, owner)]  # type: ignore[arg-type]  # one of ours
        assert found[0] == (0,) and found[1] != (0,), statement
    guarded = {row[0] for row in owner.execute("SELECT relname FROM pg_class WHERE relrowsecurity").fetchall()}
    assert guarded == READ.keys() | SHOWN, "each table with a policy is attacked"
    seen = [str(attacker.execute(f"SELECT * FROM {table}").fetchall()) for table in ("nodes", "steps", "objects")]
    assert "CANARY-aapp" in "".join(seen) and "bapp" not in "".join(seen)


NOTHING = [  # statements that a conductor may run; on rows of the other site they match none
    "UPDATE facts SET at = NULL, holder = NULL, held_until = NULL WHERE cloud = 'cloud-b'",
    "UPDATE steps SET state = 'ready', label = 'begin', owner = NULL WHERE cloud = 'cloud-b'",
    "UPDATE tasks SET state = 'running' WHERE deployment = 'bapp'",
    "UPDATE stages SET state = 'open' WHERE task = {b_task}",
    "UPDATE objects SET state = 'gone' WHERE cloud = 'cloud-b'",
    "UPDATE nodes SET vm_cid = 'x' WHERE cloud = 'cloud-b'",
    "UPDATE server_groups SET state = 'gone' WHERE cloud = 'cloud-b'",
    "DELETE FROM nodes WHERE cloud = 'cloud-b'",
    "DELETE FROM addresses WHERE ip LIKE '10.9.%'",
    "UPDATE conductors SET heartbeat = 0 WHERE name = 'c-site-b'",
    "DELETE FROM conductors WHERE name = 'c-site-b'",
    "UPDATE domains SET holder = 'me' WHERE cloud = 'cloud-b'",
    "UPDATE changes SET state = 'done' WHERE cloud = 'cloud-b'",
    "DELETE FROM changes WHERE cloud = 'cloud-b'",
    "UPDATE surveys SET state = 'done' WHERE cloud = 'cloud-b'",
    "UPDATE findings SET outcome = 'skipped' WHERE cloud = 'cloud-b'",
    "UPDATE suspects SET since = 0 WHERE cloud = 'cloud-b'",
    "DELETE FROM suspects WHERE cloud = 'cloud-b'",
    "DELETE FROM sightings WHERE cloud = 'cloud-b'",
    "UPDATE parts SET cid = 'x' WHERE cloud = 'cloud-b'",
    "DELETE FROM parts WHERE cloud = 'cloud-b'",
    "UPDATE cloud_pins SET identity = 'mine' WHERE cloud = 'cloud-b'",
    "UPDATE cloud_alarms SET body = 'x' WHERE cloud = 'cloud-b'",
    "DELETE FROM cloud_alarms WHERE cloud = 'cloud-b'",
]


def test_nothing_of_the_other_site_is_changed(attacker: psycopg.Connection, owner: psycopg.Connection) -> None:
    """The owner changes a row with the same words, and takes it back."""
    (b_task,) = owner.execute("SELECT id FROM tasks WHERE deployment = 'bapp'").fetchone() or (0,)
    owner.autocommit = False
    for statement in NOTHING:
        text = statement.format(b_task=b_task)
        assert attacker.execute(text).rowcount == 0, text  # type: ignore[arg-type]  # the id is the ledger's
        assert owner.execute(text).rowcount > 0, f"this proves nothing: {text}"  # type: ignore[arg-type]  # as above
        owner.rollback()


_NOW = "extract(epoch from now())"
REFUSED = [
    # a question that runs a program in the other site, as a change and as a new row
    "UPDATE facts SET driver = 'exec', properties = '{}' WHERE cloud = 'cloud-a'",
    "UPDATE facts SET conductor_group = 'site-b', cloud = 'cloud-b'",
    "UPDATE facts SET question = '{}'",
    "INSERT INTO facts (cloud, what, driver, conductor_group, wanted_at) VALUES ('x', 'check', 'exec', 'site-b', 1)",
    # steps
    "UPDATE steps SET conductor_group = 'site-b'",
    "UPDATE steps SET flow = 'node.delete'",
    "UPDATE steps SET subject = 'os/2@cloud-a'",
    "INSERT INTO stemcell_chunks VALUES ('image-b', 1, 'x', 0)",
    "UPDATE stemcell_chunks SET data = 'x'",
    "UPDATE stemcells SET sha256 = 'image-b'",
    "UPDATE steps SET cloud = 'cloud-b', node = 'x'",
    "INSERT INTO steps (task, flow, label, subject, conductor_group, state, not_before)"
    " VALUES (1, 'node.delete', 'begin', 'x', 'site-b', 'ready', 0)",
    "INSERT INTO tasks (kind, state, created_at) VALUES ('deploy', 'running', 0)",
    "INSERT INTO task_groups SELECT id, 'site-a' FROM tasks",
    "SELECT coterie_admit_steps((SELECT max(id) + 0 FROM tasks) + 0, 0, 100) FROM (SELECT 1) one WHERE false"
    " UNION ALL SELECT coterie_admit_steps({b_task}, 0, 100)",
    "SELECT coterie_skip_steps({b_task}, 0)",
    "SELECT coterie_failed_steps({b_task})",
    "SELECT coterie_forget_deployment({b_task})",
    # the record of changes
    f"INSERT INTO events (at, kind, subject, body) VALUES ({_NOW}, 'audit', 'ann', 'DELETE done (202)')",
    f"INSERT INTO events (task, n, at, kind, subject, body) VALUES ({{b_task}}, 1, {_NOW}, 'node.up', 'x', 'x')",
    f"INSERT INTO events (task, n, at, kind, subject, body) VALUES ({{a_task}}, 1, {_NOW}, 'audit', 'x', 'x')",
    f"INSERT INTO events (at, kind, subject, body) VALUES ({_NOW}, 'question.refused', 'cloud-b', 'x')",
    f"INSERT INTO events (at, kind, subject, body) VALUES ({_NOW}, 'node.up', 'cloud-a', 'x')",
    "SELECT body FROM events",
    # deployments, nodes, objects
    "DELETE FROM deployments WHERE name = 'bapp'",
    "DELETE FROM deployments",
    "UPDATE nodes SET cloud = 'cloud-b'",
    "UPDATE nodes SET conductor_group = 'site-b'",
    "UPDATE objects SET cloud = 'cloud-b'",
    "UPDATE objects SET node = '{b_node}'",
    "INSERT INTO objects (intent, kind, cloud, state, created_at) VALUES ('x', 'vm', 'cloud-b', 'live', 0)",
    "INSERT INTO objects (intent, kind, cloud, state, deployment, node, created_at)"
    " VALUES ('x', 'disk', 'cloud-a', 'live', 'bapp', '{b_node}', 0)",
    "INSERT INTO objects (intent, kind, cloud, state, deployment, created_at)"
    " VALUES ('x', 'disk', 'cloud-a', 'kept', 'bapp', 0)",
    # keys, clouds, roles
    "INSERT INTO conductor_keys VALUES ('site-b', 'a', 'b', 'c', 1)",
    "UPDATE clouds SET driver = 'exec'",
    "INSERT INTO director_keys (id, public, required, created_at) VALUES ('x', 'x', false, 0)",
    "UPDATE director_keys SET required = false",
    "DELETE FROM director_keys",
    "UPDATE steps SET signature = NULL",
    "UPDATE facts SET signature = NULL",
    "INSERT INTO conductor_roles VALUES (session_user, 'site-b')",
    "UPDATE conductor_roles SET conductor_group = 'site-b'",
    # conductors: of the other site, of every group, and one that would make the fleet ignore groups
    *[
        "INSERT INTO conductors (name, incarnation, conductor_group, every_group, release, speaks, started_at,"
        f" heartbeat) VALUES ('evil', 'i', {group}, {every}, {release}, {speaks}, 0, 0)"
        for group, every, release, speaks in (
            ("'site-b'", "false", "'0.2'", "NULL"),
            ("''", "true", "'0.2'", "NULL"),
            ("'site-a'", "true", "'0.2'", "NULL"),
            ("'site-a'", "false", "'0.2'", "'0.0.9'"),
            ("'site-a'", "false", "'x'", "NULL"),
        )
    ],
    "UPDATE conductors SET conductor_group = 'site-b'",
    # what is kept about another cloud
    "INSERT INTO cloud_alarms (cloud, kind, since, body) VALUES ('cloud-b', 'twin', 0, 'x')",
    "INSERT INTO parts (cloud, intent, kind, name, created_at) VALUES ('cloud-b', 'y', 'port', 'x', 0)",
    "INSERT INTO suspects (cloud, kind, cid, since, cleanup) VALUES ('cloud-b', 'vm', 'y', 0, 1)",
    "INSERT INTO sightings (cleanup, cloud, kind, intent) VALUES (1, 'cloud-b', 'vm', 'y')",
    "UPDATE machine_secrets SET sealed = 'x'",
    # single-writer domains: the change would be applied by the other site
    "INSERT INTO changes (domain, state, created_at, cloud) VALUES ('cloud-b/z1', 'waiting', 0, 'cloud-b')",
    "INSERT INTO changes (domain, state, created_at, cloud) VALUES ('cloud-b/z1', 'waiting', 0, 'cloud-a')",
    "INSERT INTO changes (domain, state, created_at, cloud)"
    " VALUES ('openstack:cloud-b/port/1', 'waiting', 0, 'cloud-a')",
    "INSERT INTO domains (domain, cloud) VALUES ('cloud-b/z2', 'cloud-a')",
    "INSERT INTO domains (domain, cloud) VALUES ('sandbox:cloud-b/port/3', 'cloud-a')",
    "INSERT INTO domains (domain) VALUES ('hold:deployment bapp')",
    "INSERT INTO domains (domain, cloud) VALUES ('hold:deployment new', 'cloud-a')",
    "UPDATE domains SET cloud = 'cloud-a', holder = 'me' WHERE domain LIKE 'hold:%'",
    # the ways around policies
    "SET ROLE coterie",
    "ALTER TABLE steps DISABLE ROW LEVEL SECURITY",
    "DROP POLICY coterie_see ON steps",
    "ALTER FUNCTION coterie_groups() RENAME TO x",
    "CREATE FUNCTION public.coterie_groups(a int) RETURNS text[] LANGUAGE sql AS 'SELECT NULL::text[]'",
    "TRUNCATE steps",
    "COPY tokens TO STDOUT",
]


def test_what_no_conductor_may_do_is_refused(sites: TwoSites, attacker: psycopg.Connection) -> None:
    with psycopg.connect(sites.url) as owner:
        known = {
            "a_task": owner.execute("SELECT id FROM tasks WHERE deployment = 'aapp'").fetchone(),
            "b_task": owner.execute("SELECT id FROM tasks WHERE deployment = 'bapp'").fetchone(),
            "b_node": owner.execute("SELECT uuid FROM nodes WHERE cloud = 'cloud-b'").fetchone(),
        }
    values = {name: row[0] for name, row in known.items() if row}
    for statement in REFUSED:
        statement = statement.format(**values) if "{" in statement and "'{}'" not in statement else statement
        try:
            attacker.execute(statement)  # type: ignore[arg-type]  # no constant: the ids are the ledger's
        except psycopg.errors.InsufficientPrivilege:
            continue
        raise AssertionError(f"this went through: {statement}")


def test_a_forged_question_is_refused_and_recorded_with_the_role_of_its_site(sites: TwoSites) -> None:
    sites.deploy("bapp", manifest("bapp", "b"))
    with psycopg.connect(sites.url, autocommit=True) as owner:
        owner.execute("UPDATE facts SET at = NULL, driver = 'exec', properties = '{}' WHERE cloud = 'cloud-b'")
        sites.director.notify_question()
        query = "SELECT body FROM events WHERE kind = 'question.refused' AND subject = 'cloud-b'"
        give_up = time.monotonic() + 30
        while not (found := owner.execute(query).fetchall()):
            assert time.monotonic() < give_up
            time.sleep(0.05)
    assert "is not signed by a Director" in found[0][0]


def test_a_hold_that_no_task_has_stops_no_deployment(sites: TwoSites) -> None:
    """Deletions of images are held for all sites; what a role writes there as the holder is no cleanup."""
    with psycopg.connect(sites.role_a, autocommit=True) as attacker:
        for holder in ("x", "1", "99999999999999999999"):
            attacker.execute(
                "INSERT INTO domains (domain, holder, expires) VALUES ('hold:stemcells', %s, 1e18)"
                " ON CONFLICT (domain) DO UPDATE SET holder = EXCLUDED.holder, expires = 1e18",
                [holder],
            )
            sites.deploy("bapp", manifest("bapp", "b").replace("CANARY", f"canary-{holder}"))


def test_a_change_for_another_cloud_is_not_made_in_a_shared_domain(sites: TwoSites) -> None:
    """Not even by a Director that works for all groups, whose role sees every row."""
    domain = "vsphere:5000-6000/domain-c8"
    for ledger, cloud in ((sites.director, "cloud-b"), (sites.director, "cloud-a")):
        with ledger.write() as tx:
            domains.submit(tx, domain, {"for": cloud}, cloud)
    with sites.director.write() as tx:
        assert [body for _, body, _ in domains.waiting(tx, domain, 60, "cloud-b")] == [{"for": "cloud-b"}]


def test_a_living_name_of_the_other_site_cannot_be_taken(sites: TwoSites) -> None:
    with pytest.raises(Conflict, match="c-site-b"), sites.ledgers[0].write() as tx:
        conductors.register(tx, "c-site-b", "i", group="site-a", drivers=["sandbox"], release="0.2")


def test_a_silent_conductor_of_the_other_site_is_not_ours_to_remove(sites: TwoSites) -> None:
    """Nor does it wake us with every heartbeat."""
    with sites.director.write() as tx:
        conductors.register(tx, "dead-b", "i", group="site-b", drivers=["sandbox"], release="0.2", ttl_s=-1.0)
    with sites.ledgers[0].write() as tx:
        assert not conductors.silent(tx)
    with sites.ledgers[1].write() as tx:
        conductors.reap(tx)
    with psycopg.connect(sites.url) as owner:
        assert owner.execute("SELECT count(*) FROM conductors WHERE name = 'dead-b'").fetchone() == (0,)


def test_a_conductor_with_the_role_of_another_group_is_refused(sites: TwoSites) -> None:
    check_role(sites.ledgers[0], "site-a")
    check_role(sites.director, None)
    for group in ("site-b", None):
        with pytest.raises(Refused, match="database role") as refused:
            check_role(sites.ledgers[0], group)
        assert "coterie conductors role" in refused.value.remedy


def test_a_running_step_that_is_sent_elsewhere_is_still_committed_where_it_runs(sites: TwoSites) -> None:
    """And its cloud stays in sight until then; of the next claim nothing is seen."""
    sites.deploy("bapp", manifest("bapp", "b"))
    with psycopg.connect(sites.url, autocommit=True) as owner:
        (step,) = owner.execute(
            "UPDATE steps SET state = 'running', epoch = 7 WHERE id = (SELECT max(id) FROM steps) RETURNING id"
        ).fetchone() or (0,)
        owner.execute("UPDATE clouds SET conductor_group = 'site-a' WHERE name = 'cloud-b'")
        owner.execute("UPDATE steps SET conductor_group = 'site-a' WHERE id = %s", [step])
        with psycopg.connect(sites.role_b, autocommit=True) as old:
            assert old.execute("SELECT id FROM steps WHERE id = %s", [step]).fetchall() == [(step,)]
            assert old.execute("SELECT count(*) FROM nodes WHERE cloud = 'cloud-b'").fetchone() == (2,)
            owner.execute("UPDATE steps SET epoch = 8 WHERE id = %s", [step])
            assert old.execute("SELECT id FROM steps WHERE id = %s", [step]).fetchall() == []
            assert old.execute("SELECT count(*) FROM nodes WHERE cloud = 'cloud-b'").fetchone() == (0,)


def test_a_role_creates_nothing_also_where_an_older_postgresql_allowed_it_to_all(postgres_url: str) -> None:
    Ledger.open(postgres_url).close()
    with psycopg.connect(postgres_url, autocommit=True) as owner:
        owner.execute("GRANT CREATE ON SCHEMA public TO PUBLIC")
    with psycopg.connect(conductor_role(postgres_url, "site-a"), autocommit=True) as attacker:
        for statement in (
            "CREATE TABLE public.x ()",
            "CREATE FUNCTION public.x() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                attacker.execute(statement)


def grant(owner: psycopg.Connection, role: str, group: str) -> None:
    for statement in statements(role, [group]):
        owner.execute(statement)  # type: ignore[arg-type]  # made by us


# What release 0.1.0 granted.
OLD_RIGHTS = {
    "SELECT": "directors, alembic_version, schema_floor, clouds, conductor_keys, stemcells, cleanups",
    "SELECT (name, serial, config_id, resurrection, created_at, updated_at), DELETE": "deployments",
    "SELECT, DELETE": "instance_groups, server_group_users, addresses",
    "SELECT, UPDATE": "server_groups, facts, tasks, stages, steps, surveys",
    "SELECT, UPDATE, DELETE": "nodes",
    "SELECT, INSERT, UPDATE": "objects, domains, findings",
    "SELECT (id), INSERT": "events",
    "SELECT, INSERT, UPDATE, DELETE": "conductors, changes, suspects",
    "SELECT, INSERT, DELETE": "sightings",
}


def test_a_role_of_an_earlier_release_works_on_and_says_so(
    postgres_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    upgrade_to(postgres_url, "0010")
    name = f"old_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgres_url, autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {name} LOGIN")  # type: ignore[arg-type]  # a name of our own
        owner.execute(f"CREATE ROLE {name}_b LOGIN")  # type: ignore[arg-type]  # as above
        for rights, tables in OLD_RIGHTS.items():
            owner.execute(f"GRANT {rights} ON {tables} TO {name}")  # type: ignore[arg-type]  # as above
        owner.execute(f"GRANT USAGE ON SEQUENCE events_id_seq, changes_id_seq, findings_id_seq TO {name}")  # type: ignore[arg-type]
    made = TwoSites(postgres_url, tmp_path)
    with made.director.read() as tx:
        assert roles.list_old(tx) == [name]
    old = connect(postgres_url.replace("coterie@", f"{name}@", 1))
    check_role(old, "site-a")
    assert "rights of an earlier release" in caplog.text and f"conductors role {name} --group site-a" in caplog.text
    made.conductors = [Conductor(old, "old", state_folder=tmp_path, role=ConductorRole("site-a"), workers=2)]
    made.ledgers.append(old)
    made.start()
    try:
        made.deploy("aapp", manifest("aapp", "a"))
        made.delete("aapp")
    finally:
        made.stop()
    with psycopg.connect(postgres_url, autocommit=True) as owner:
        owner.execute(
            "INSERT INTO conductors (name, incarnation, conductor_group, release, started_at, heartbeat, ttl_s)"
            " VALUES ('older', 'i', 'site-a', '0.1.0', 0, extract(epoch from now()), 600)"
        )
        with pytest.raises(psycopg.errors.RaiseException, match="a conductor of an earlier release works for this"):
            grant(owner, name, "site-a")
        owner.execute("ROLLBACK")
        grant(owner, f"{name}_b", "site-b")
        owner.execute("DELETE FROM conductors WHERE name = 'older'")
        grant(owner, name, "site-a")
    again = Ledger.open(postgres_url)
    with again.read() as tx:
        assert roles.list_old(tx) == []
    again.close()
