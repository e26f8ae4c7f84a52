"""Secrets of machines: stored sealed and once, opened by a conductor right before it creates the VM."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from coterie.engine.secrets import SecretReader
from coterie.errors import KeyMissing, Refused
from coterie.ledger.rows import keys, machine_secrets
from coterie.ledger.store import Ledger
from coterie.ledger.tables import (
    clouds,
    conductor_keys,
    conductors,
    deployments,
    metadata,
    nodes,
    schema_floor,
    steps,
)
from coterie.ledger.tables import machine_secrets as secrets_table
from coterie.requests import regroup
from coterie.requests.machine_secrets import seal_stored
from coterie.requests.resurrection import resurrect
from coterie.seal.key import fresh
from coterie.seal.keys import KeyFile
from tests.ledger.blank import sqlite_ledger
from tests.requests.site import Site, group, manifest, site

PASSWORD, SCRIPT = "CanaryPassword77", "echo CanaryScript88"
SECRETS = f"env: {{bosh: {{password: {PASSWORD}}}}}, user_data: {SCRIPT}"
CANARIES = (PASSWORD, "CanaryScript88")


@pytest.fixture
def here(ledger: Ledger, tmp_path: Path) -> Iterator[Site]:
    with site(ledger, tmp_path, opens_sealed=True) as made:
        yield made


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Site]:
    ledger = sqlite_ledger(tmp_path / "ledger.db")
    with site(ledger, tmp_path, opens_sealed=True) as made:
        yield made
    ledger.close()


@pytest.fixture
def sealed(here: Site) -> Site:
    assert seal_stored(here.ledger)
    return here


@pytest.fixture
def one(local: Site) -> Site:
    """On SQLite only."""
    assert seal_stored(local.ledger)
    return local


def _envs(here: Site) -> list[Any]:
    """What the VMs of the cloud were given."""
    with sqlite3.connect(here.folder / "sandbox.db") as database:
        return [json.loads(row[0])["env"] for row in database.execute("SELECT user_data FROM vms")]


def _found(ledger: Ledger) -> list[str]:
    with ledger.read() as tx:
        text = "".join(str(tx.execute(table.select()).all()) for table in metadata.sorted_tables)
    return [canary for canary in CANARIES if canary in text]


def _rows(ledger: Ledger) -> list[Any]:
    with ledger.read() as tx:
        return list(tx.execute(secrets_table.select().order_by(secrets_table.c.name)))


def _names(ledger: Ledger) -> set[str]:
    return {row.name for row in _rows(ledger)}


def test_the_vm_gets_them_and_the_database_has_none(sealed: Site) -> None:
    text = manifest(group("a", 2, SECRETS), group("b", 1))
    sealed.deploy(text)
    assert _found(sealed.ledger) == []
    given = [env for env in _envs(sealed) if env["bosh"]]
    assert [(env["bosh"]["password"], env["user_data"]) for env in given] == [(PASSWORD, SCRIPT)] * 2
    assert len(_rows(sealed.ledger)) == 1, "once for the instance group; none for a group without secrets"
    assert not sealed.plan(text).changes


def test_a_tag_that_repeats_one_is_sealed_too(sealed: Site) -> None:
    text = manifest(group("a", 1, f"{SECRETS}, tags: {{note: is {PASSWORD}, team: blue}}"))
    sealed.deploy(text)
    assert _found(sealed.ledger) == []
    [vm] = sealed.held("vm")
    with sqlite3.connect(sealed.folder / "sandbox.db") as database:
        assert f"is {PASSWORD}" in "\n".join(database.iterdump()), f"the tag reached VM {vm.cid}"
    assert not sealed.plan(text).changes


def test_a_change_is_seen_without_opening(sealed: Site) -> None:
    sealed.deploy(manifest(group("a", 1, SECRETS)))
    before = _names(sealed.ledger)
    for other in (SECRETS.replace("77", "78"), SECRETS.replace("88", "89"), "env: {}"):
        [change] = sealed.plan(manifest(group("a", 1, other))).changes
        assert (change.action, change.reason) == ("recreate", "env or user data changed")
    first, second = (sealed.plan(manifest(group("a", 1, SECRETS.replace("77", n)))).id for n in ("78", "79"))
    assert first != second, "a confirmed plan is not carried out with other secrets"
    assert _names(sealed.ledger) == before, "planning stores nothing"


def test_nodes_are_made_anew_without_the_manifest(sealed: Site) -> None:
    sealed.deploy(manifest(group("a", 1, SECRETS)))
    with sealed.ledger.write() as tx:
        tx.execute(nodes.update().values(state="dead"))
    task = resurrect(sealed.ledger, "dep")
    assert task is not None
    sealed.wait(task)
    assert [env["bosh"]["password"] for env in _envs(sealed)] == [PASSWORD]
    assert _found(sealed.ledger) == []


def test_they_go_with_the_deployment(sealed: Site) -> None:
    sealed.deploy(manifest(group("a", 1, SECRETS)))
    sealed.delete()
    assert _rows(sealed.ledger) == []


def test_replaced_ones_go_after_a_day(one: Site) -> None:
    one.deploy(manifest(group("a", 1, SECRETS)))
    [old] = _names(one.ledger)
    one.deploy(manifest(group("a", 1, SECRETS.replace("77", "78"))))
    with one.ledger.write() as tx:
        assert machine_secrets.forget_unused(tx) == 0
        tx.execute(secrets_table.update().values(wanted_at=1.0))
        assert machine_secrets.forget_unused(tx) == 1
    assert old not in _names(one.ledger) and len(_names(one.ledger)) == 1


def test_a_deploy_seals_to_the_newest_key(one: Site) -> None:
    one.deploy(manifest(group("a", 1, SECRETS)))
    [before] = _rows(one.ledger)
    newest = one.keys.add()
    with one.ledger.write() as tx:
        keys.publish(tx, keys.EVERY, newest.public.id, newest.public.text, "test")
        tx.execute(conductor_keys.update().where(conductor_keys.c.id == before.key_id).values(created_at=1.0))
        assert machine_secrets.sealed_to(tx, before.key_id) == ["dep"]
    one.deploy(manifest(group("a", 1, SECRETS)))
    [after] = _rows(one.ledger)
    assert (after.name, after.key_id) == (before.name, newest.public.id)


def test_a_group_without_a_key_is_refused_and_nothing_is_stored(one: Site) -> None:
    with one.ledger.write() as tx:
        tx.execute(conductor_keys.delete())
    with pytest.raises(Refused, match="cannot be sealed") as refused:
        one.deploy(manifest(group("a", 1, SECRETS)))
    assert "no key yet" in refused.value.why
    with one.ledger.read() as tx:
        assert tx.execute(deployments.select()).first() is None


def test_a_conductor_without_the_key_opens_nothing(one: Site, tmp_path: Path) -> None:
    one.deploy(manifest(group("a", 1, SECRETS)))
    [row] = _rows(one.ledger)
    other = KeyFile(tmp_path / "other.key")
    other.ensure()
    for file in (other, None):
        with pytest.raises(KeyMissing, match="cannot open"):
            SecretReader(one.ledger, file).open(row.name, "dep")
    assert SecretReader(one.ledger, one.keys).open(row.name, "dep").user_data == SCRIPT


def test_a_row_that_was_put_in_the_place_of_another_is_refused(one: Site) -> None:
    one.deploy(manifest(group("a", 1, SECRETS), group("b", 1, SECRETS.replace("77", "78"))))
    first, second = _rows(one.ledger)
    with one.ledger.write() as tx:
        tx.execute(secrets_table.update().where(secrets_table.c.name == first.name).values(sealed=second.sealed))
    with pytest.raises(Refused, match="cannot be opened"):
        SecretReader(one.ledger, one.keys).open(first.name, "dep")
    with pytest.raises(Refused, match="cannot be opened"):
        SecretReader(one.ledger, one.keys).open(second.name, "another deployment")


def test_a_node_does_not_move_to_a_group_that_cannot_open_them(one: Site) -> None:
    one.deploy(manifest(group("a", 1, SECRETS)))
    with one.ledger.write() as tx:
        made = fresh().public
        keys.publish(tx, "west", made.id, made.text, "test")
        tx.execute(clouds.update().values(other_groups=["west"]))
    with pytest.raises(Refused, match="could not make node a/0"):
        regroup.move_node(one.ledger, one.nodes()["a/0"].uuid, "west")
    one.config = one.config.replace("driver: sandbox", "driver: sandbox, other_conductor_groups: [west]")
    one.deploy(manifest(group("a", 1, SECRETS)))
    regroup.move_node(one.ledger, one.nodes()["a/0"].uuid, "west")


# -- upgrade --


def test_what_an_older_release_stored_is_sealed_and_unchanged(here: Site) -> None:
    """Before sealing begins, specs and steps are stored as release 0.1.0 stores them."""
    text = manifest(group("a", 2, SECRETS))
    here.deploy(text)
    with here.ledger.write() as tx:  # that release stored the manifest as it came
        tx.execute(deployments.update().values(manifest=text))
    assert set(_found(here.ledger)) == set(CANARIES)
    assert seal_stored(here.ledger)
    assert _found(here.ledger) == []
    assert not here.plan(text).changes
    [change, *_] = here.plan(manifest(group("a", 2, SECRETS.replace("77", "78")))).changes
    assert change.reason == "env or user data changed"
    with here.ledger.write() as tx:
        tx.execute(nodes.update().values(state="dead"))
    task = resurrect(here.ledger, "dep")
    assert task is not None
    here.wait(task)
    assert [env["bosh"]["password"] for env in _envs(here)] == [PASSWORD] * 2


def test_a_plan_compares_with_a_node_that_is_still_in_plain(local: Site) -> None:
    text = manifest(group("a", 1, SECRETS))
    local.deploy(text)
    with local.ledger.write() as tx:
        machine_secrets.begin_sealing(tx)
    assert not local.plan(text).changes
    [change] = local.plan(manifest(group("a", 1, SECRETS.replace("77", "78")))).changes
    assert change.reason == "env or user data changed"


@pytest.mark.parametrize("state", ["queued", "ready", "running"])
def test_a_step_that_has_not_ended_is_sealed_when_it_has(local: Site, state: str) -> None:
    local.deploy(manifest(group("a", 2, SECRETS)))
    local.conductor.drain(10)  # it would claim the step
    with local.ledger.write() as tx:
        first, *others = tx.execute(sa.select(steps.c.id).where(steps.c.flow == "node.create")).scalars()
        tx.execute(steps.update().where(steps.c.id == first).values(state=state))
    assert not seal_stored(local.ledger)
    with local.ledger.read() as tx:
        data = dict(tx.execute(sa.select(steps.c.id, steps.c.data)).all())
    assert [PASSWORD in str(data[one]) for one in (first, *others)] == [True, False]
    with local.ledger.write() as tx:
        tx.execute(steps.update().where(steps.c.id == first).values(state="done"))
    assert seal_stored(local.ledger)


def test_sealing_waits_for_old_conductors_and_pins(local: Site) -> None:
    def floor() -> str:
        with local.ledger.read() as tx:
            return str(tx.execute(sa.select(schema_floor.c.oldest)).scalar())

    before = floor()
    with local.ledger.write() as tx:  # release 0.1.0 does not know the column
        tx.execute(conductors.update().values(opens_secrets=False))
    assert not seal_stored(local.ledger) and floor() == before
    with local.ledger.write() as tx:
        tx.execute(conductors.update().values(opens_secrets=True))
    local.ledger.pin("0.1")
    assert not seal_stored(local.ledger) and floor() == before
    local.ledger.pin(None)
    assert seal_stored(local.ledger) and floor() == machine_secrets.SINCE, "older releases are refused from now on"


def test_a_group_without_a_key_is_left_in_plain_until_it_has_one(local: Site) -> None:
    local.deploy(manifest(group("a", 1, SECRETS)))
    with local.ledger.write() as tx:
        rows = [dict(row._mapping) for row in tx.execute(conductor_keys.select())]
        tx.execute(conductor_keys.delete())
    assert not seal_stored(local.ledger)
    assert PASSWORD in _found(local.ledger)
    with local.ledger.write() as tx:
        tx.execute(conductor_keys.insert(), rows)
    assert seal_stored(local.ledger)
    assert _found(local.ledger) == []
