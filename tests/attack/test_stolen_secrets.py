"""The attacker has the database role and the key file of site A: the secrets of machines of site B stay sealed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from coterie.conductor.membership import ConductorRole
from coterie.conductor.process import Conductor
from coterie.engine.secrets import SecretReader
from coterie.errors import KeyMissing
from coterie.requests.machine_secrets import seal_stored
from coterie.seal.keys import KeyFile
from tests.attack.test_stolen_conductor import TwoSites, manifest
from tests.director.conftest import publish_key


class Sealed:
    """Two sites, each with a key, and a deployment with secrets in each."""

    def __init__(self, url: str, folder: Path) -> None:
        self.sites = TwoSites(url, folder)
        groups = ("site-a", "site-b")
        self.keys: list[KeyFile] = [publish_key(self.sites.director, folder / group, group) for group in groups]
        self.sites.conductors = [
            Conductor(
                ledger, f"c-{group}", state_folder=folder / group, role=ConductorRole(group), workers=2, keys=file
            )
            for ledger, group, file in zip(self.sites.ledgers, groups, self.keys, strict=True)
        ]


@pytest.fixture
def sealed(postgres_url: str, tmp_path: Path) -> Iterator[Sealed]:
    made = Sealed(postgres_url, tmp_path)
    made.sites.start()
    try:
        assert seal_stored(made.sites.director)
        made.sites.deploy("aapp", manifest("aapp", "a"))
        made.sites.deploy("bapp", manifest("bapp", "b"))
        yield made
    finally:
        made.sites.stop()


def test_the_other_site_has_nothing_of_them(sealed: Sealed) -> None:
    with psycopg.connect(sealed.sites.url) as owner:
        rows = owner.execute("SELECT name FROM machine_secrets WHERE conductor_group = 'site-b'").fetchall()
        names = owner.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        dump = "".join(str(owner.execute(f'SELECT * FROM "{name}"').fetchall()) for (name,) in names)
    assert len(rows) == 1 and "CANARY-" not in dump, "a dump of the whole database has none"
    with psycopg.connect(sealed.sites.role_a, autocommit=True) as attacker:
        assert attacker.execute("SELECT DISTINCT deployment FROM machine_secrets").fetchall() == [("aapp",)]
        for statement in (
            "DELETE FROM machine_secrets",
            "UPDATE machine_secrets SET conductor_group = 'site-a'",
            "INSERT INTO machine_secrets VALUES ('n', 'site-b', 'bapp', 'k', 's', 0)",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                attacker.execute(statement)
    ours, theirs = sealed.keys
    with pytest.raises(KeyMissing):  # even with the row, which the role does not see
        SecretReader(sealed.sites.director, ours).open(rows[0][0], "bapp")
    assert SecretReader(sealed.sites.director, theirs).open(rows[0][0], "bapp").env


def test_a_conductor_that_deletes_a_deployment_has_its_secrets_deleted(sealed: Sealed) -> None:
    sealed.sites.delete("bapp")
    with psycopg.connect(sealed.sites.url) as owner:
        assert owner.execute("SELECT DISTINCT deployment FROM machine_secrets").fetchall() == [("aapp",)]
