"""Credentials of clouds: sealed before they are stored, opened only by the conductors of their group."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from coterie.conductor.membership import ConductorRole
from coterie.conductor.process import Conductor
from coterie.director.context import AppContext
from coterie.engine.clouds import Clouds
from coterie.engine.fence import Lease
from coterie.errors import Refused
from coterie.ledger.rows import clouds, keys, machine_secrets
from coterie.ledger.rows.machine_secrets import SecretRow
from coterie.ledger.store import Ledger
from coterie.ledger.tables import metadata
from coterie.seal.keys import KeyFile
from coterie.seal.machine import MachineSecrets, open_secrets, seal_secrets
from coterie.seal.sealed import boxes
from tests.director.asgi import Client
from tests.director.conftest import publish_key
from tests.ledger.views import rows

SECRET = "hunter2-the-secret"
LATEST = {"Coterie-API-Version": "latest"}


def config(folder: Path, group: str = "east", secret: str = SECRET) -> str:
    return f"""\
clouds:
- name: lab
  driver: sandbox
  conductor_group: {group}
  properties:
    state: {folder}/{secret}.db
azs:
- name: z1
  cloud: lab
"""


def everything(ledger: Ledger) -> str:
    with ledger.read() as tx:
        return "\n".join(str(tx.execute(table.select()).all()) for table in metadata.sorted_tables)


@contextmanager
def conducting(ledger: Ledger, folder: Path, group: str, key_file: KeyFile | None) -> Iterator[None]:
    made = Conductor(
        ledger, f"{folder.name}-{group}", state_folder=folder, role=ConductorRole(group), keys=key_file, workers=1
    )
    made.start()
    try:
        yield
    finally:
        made.drain(10)


@pytest.fixture
def east(ledger: Ledger, tmp_path: Path) -> KeyFile:
    return publish_key(ledger, tmp_path / "east", "east")


def checked(client: Client) -> dict[str, Any]:
    reply = client.send("POST", "/v1/clouds/lab/check")
    assert reply.status == 200, reply.text
    fact: dict[str, Any] = reply.json["facts"]["check"]
    return fact


def opener(ledger: Ledger, folder: Path, key_file: KeyFile | None) -> Clouds:
    return Clouds(ledger, "uuid", None, Lease(60), drivers_folder=folder, keys=key_file)  # type: ignore[arg-type]  # opens only


def test_the_ledger_holds_only_sealed_bytes_and_the_group_s_conductor_opens_them(
    client: Client, ledger: Ledger, tmp_path: Path, east: KeyFile
) -> None:
    reply = client.send("PUT", "/v1/cloud-config", {"text": config(tmp_path)})
    assert reply.status == 200, reply.text
    assert SECRET not in everything(ledger)
    with conducting(ledger, tmp_path / "east", "east", east):
        assert checked(client)["error"] is None
    assert (tmp_path / f"{SECRET}.db").exists(), "the driver was given the real properties"
    assert SECRET not in everything(ledger)


def test_questions_about_a_config_that_is_not_set_hold_no_credential_either(
    client: Client, ledger: Ledger, tmp_path: Path, east: KeyFile
) -> None:
    with conducting(ledger, tmp_path / "east", "east", east):
        group = "{name: a, instances: 1, azs: [z1], vm_type: t, stemcell: s, networks: [{name: n}]}"
        manifest = f'name: web\nstemcells: [{{alias: s, name: os, version: "1"}}]\ninstance_groups: [{group}]\n'
        more = (
            "vm_types: [{name: t, cloud_properties: {cpu: 1, ram_mb: 1, disk_mb: 1}}]\n"
            "networks: [{name: n, subnets: [{range: 127.0.0.0/24, gateway: 127.0.0.1, azs: [z1]}]}]\n"
        )
        body = {"manifest": manifest, "cloud_config": config(tmp_path) + more}
        client.send("POST", "/v1/plans", body)
    assert (tmp_path / f"{SECRET}.db").exists(), "the cloud was asked"
    assert SECRET not in everything(ledger)


def test_neither_the_director_nor_another_group_can_open_them(
    client: Client, ledger: Ledger, tmp_path: Path, east: KeyFile
) -> None:
    west = publish_key(ledger, tmp_path / "west", "west")
    client.send("PUT", "/v1/cloud-config", {"text": config(tmp_path)})
    assert opener(ledger, tmp_path, east).get("lab") is not None
    own = KeyFile(tmp_path / "state" / "conductor.key")  # of the conductor inside the Director
    for key_file in (None, west, own, KeyFile(tmp_path / "none")):
        with pytest.raises(Refused, match="cannot open the properties of cloud lab"):
            opener(ledger, tmp_path, key_file).get("lab")


def test_a_conductor_that_only_claims_to_be_of_the_group_gets_the_question_and_no_credential(
    client: Client, ledger: Ledger, tmp_path: Path, east: KeyFile
) -> None:
    client.send("PUT", "/v1/cloud-config", {"text": config(tmp_path)})
    impostor = KeyFile(tmp_path / "impostor")
    impostor.ensure()
    with conducting(ledger, tmp_path / "there", "east", impostor):
        error = checked(client)["error"]
    assert "cannot open" in error["what"] and "copy the key file" in error["remedy"]
    assert not (tmp_path / f"{SECRET}.db").exists()


def test_rotation(client: Client, ledger: Ledger, tmp_path: Path, east: KeyFile) -> None:
    client.send("PUT", "/v1/cloud-config", {"text": "# ours\n" + config(tmp_path)})
    old = east.newest()
    with conducting(ledger, tmp_path / "east", "east", east):
        new = east.add()
        assert old is not None
        early = client.send("POST", "/v1/clouds/lab/reseal")
        assert (early.status, early.json["code"]) == (409, "refused"), "the new key is not published yet"
        published = {"conductor_group": "EAST", "public": new.public.text}
        assert client.send("POST", "/v1/keys", published).status == 204
        kept = client.send("POST", f"/v1/keys/{old.public.id}/retire", {"conductor_group": "east"})
        assert (kept.status, kept.json["code"]) == (409, "refused")
        assert client.send("POST", "/v1/clouds/lab/reseal").json["key"] == new.public.id
        assert client.send("POST", f"/v1/keys/{old.public.id}/retire", {"conductor_group": "east"}).status == 204
        assert checked(client)["error"] is None
    with ledger.read() as tx:
        row, text = clouds.get(tx, "lab"), clouds.config(tx)
        assert [key.id for key in keys.own(tx, "east")] == [new.public.id]
    assert row is not None and text is not None
    assert [where.key_id for where in boxes(row.properties)] == [new.public.id]
    assert row.properties["sealed"] in text.body and text.body.startswith("# ours\n")
    assert SECRET not in everything(ledger)


def test_rotation_takes_the_secrets_of_machines_along(
    client: Client, ledger: Ledger, tmp_path: Path, east: KeyFile
) -> None:
    """Of a cloud with sealed properties, and of one without any; what no key here opens is left, and named."""
    old, other = east.newest(), KeyFile(tmp_path / "other").add()
    assert old is not None
    content = MachineSecrets({"password": SECRET}, "echo")
    for text in (config(tmp_path), config(tmp_path).partition("  properties")[0] + "azs:\n- {name: z1, cloud: lab}\n"):
        client.send("PUT", "/v1/cloud-config", {"text": text})
        with ledger.write() as tx:
            for name, group, key in (("one", "east", old), ("theirs", "west", other), ("lost", "east", other)):
                sealed = seal_secrets(key.public, name, f"of-{name}", content)
                machine_secrets.save(tx, SecretRow(name, group, f"of-{name}", key.public.id, sealed))
        new = east.add()
        with conducting(ledger, tmp_path / "east", "east", east):
            client.send("POST", "/v1/keys", {"conductor_group": "east", "public": new.public.text})
            kept = client.send("POST", f"/v1/keys/{old.public.id}/retire", {"conductor_group": "east"})
            assert kept.status == 409 and "coterie clouds reseal" in kept.json["remedy"]
            again = client.send("POST", "/v1/clouds/lab/reseal", None, LATEST)
            assert (again.status, again.json["sealed_again"]) == (200, 1), again.text
            assert client.send("POST", "/v1/clouds/lab/reseal", None, LATEST).json["sealed_again"] == 0
            assert client.send("POST", f"/v1/keys/{old.public.id}/retire", {"conductor_group": "east"}).status == 204
        with ledger.read() as tx:
            (row,) = machine_secrets.of_name(tx, "one")
            assert {one.key_id for one in machine_secrets.of_name(tx, "theirs")} == {other.public.id}
            assert machine_secrets.sealed_to(tx, other.public.id) == ["of-lost", "of-theirs"]
        assert row.key_id == new.public.id and open_secrets(new, "one", "of-one", row.sealed) == content
        assert SECRET not in everything(ledger)
        old = new


def test_conductors_reseal_only_to_keys_that_they_hold(
    client: Client, ledger: Ledger, tmp_path: Path, east: KeyFile
) -> None:
    client.send("PUT", "/v1/cloud-config", {"text": config(tmp_path)})
    thief = KeyFile(tmp_path / "thief").add()
    client.send("POST", "/v1/keys", {"conductor_group": "east", "public": thief.public.text})
    with conducting(ledger, tmp_path / "east", "east", east):
        client.send("POST", "/v1/clouds/lab/reseal")
    with ledger.read() as tx:
        row = clouds.get(tx, "lab")
    assert row is not None
    mine = east.newest()
    assert mine is not None and [where.key_id for where in boxes(row.properties)] == [mine.public.id]
    assert mine.public.id != thief.public.id


def test_moving_a_cloud_to_another_group_needs_its_credentials_again(
    client: Client, ledger: Ledger, tmp_path: Path, east: KeyFile
) -> None:
    publish_key(ledger, tmp_path / "west", "west")
    first = client.send("PUT", "/v1/cloud-config", {"text": config(tmp_path)})
    moved = client.send("PUT", "/v1/cloud-config", {"text": first.json["text"].replace("group: east", "group: west")})
    assert (moved.status, moved.json["code"]) == (409, "refused")
    assert "in plain" in moved.json["remedy"]
    patched = client.send("PATCH", "/v1/clouds/lab", {"conductor_group": "west"}, LATEST)
    assert (patched.status, patched.json["remedy"]) == (409, moved.json["remedy"])
    assert client.get("/v1/clouds/lab", **LATEST).json["conductor_group"] == "east"
    assert client.send("PUT", "/v1/cloud-config", {"text": config(tmp_path, "west")}).status == 200
    assert client.send("PATCH", "/v1/clouds/lab", {"conductor_group": "west"}, LATEST).status == 200
    # What was read can be set again as it is: nothing in it is hidden, and nothing can be read.
    again = client.get("/v1/cloud-config").json["text"]
    assert client.send("PUT", "/v1/cloud-config", {"text": again}).status == 200


def test_the_same_config_again_is_the_same_config(client: Client, tmp_path: Path, east: KeyFile) -> None:
    ids = [client.send("PUT", "/v1/cloud-config", {"text": config(tmp_path)}).json["id"] for _ in range(3)]
    assert len(set(ids)) == 1


def test_a_group_without_a_key_uses_the_key_for_every_group(
    client: Client, context: AppContext, ledger: Ledger, tmp_path: Path
) -> None:
    assert client.send("PUT", "/v1/cloud-config", {"text": config(tmp_path, "lonely")}).status == 200
    stand_in = KeyFile(context.state_folder.path / "conductor.key")
    assert opener(ledger, tmp_path, stand_in).get("lab") is not None


def test_without_any_key_nothing_is_stored(client: Client, ledger: Ledger, tmp_path: Path) -> None:
    with ledger.write() as tx:
        tx.execute(metadata.tables["conductor_keys"].delete())
    reply = client.send("PUT", "/v1/cloud-config", {"text": config(tmp_path)})
    assert (reply.status, reply.json["code"]) == (409, "refused")
    assert "no key yet" in reply.json["why"]
    assert SECRET not in everything(ledger)


def test_a_cloud_that_is_added_is_sealed(client: Client, ledger: Ledger, tmp_path: Path, east: KeyFile) -> None:
    client.send("PUT", "/v1/cloud-config", {"text": config(tmp_path)})
    new = {
        "name": "far",
        "driver": "sandbox",
        "conductor_group": "east",
        "properties": {"state": f"{tmp_path}/{SECRET}"},
    }
    reply = client.send("POST", "/v1/clouds", new, {**LATEST, "Idempotency-Key": "k"})
    assert reply.status == 201, reply.text
    assert SECRET not in everything(ledger) + reply.text
    assert opener(ledger, tmp_path, east).get("far") is not None


def test_a_node_goes_only_to_a_group_that_can_open_its_cloud(
    client: Client, ledger: Ledger, tmp_path: Path, east: KeyFile
) -> None:
    west = publish_key(ledger, tmp_path / "west", "west")
    client.send("PUT", "/v1/cloud-config", {"text": config(tmp_path)})
    uuid = rows.node(ledger, "broker", 0)
    with conducting(ledger, tmp_path / "west", "west", west):
        moved = client.send("PATCH", f"/v1/nodes/{uuid}", {"conductor_group": "west"}, LATEST)
    assert (moved.status, moved.json["code"]) == (409, "refused")
    assert moved.json["what"] == "cloud lab is not sealed to conductor group 'west'"
    assert "other_conductor_groups of cloud lab" in moved.json["remedy"] and "clouds set FILE" in moved.json["remedy"]


SHARED = "east\n  other_conductor_groups: [West]"


def test_every_group_of_a_cloud_opens_it_and_a_node_may_go_there(
    client: Client, ledger: Ledger, tmp_path: Path, east: KeyFile
) -> None:
    west, north = (publish_key(ledger, tmp_path / name, name) for name in ("west", "north"))
    assert client.send("PUT", "/v1/cloud-config", {"text": config(tmp_path, SHARED)}).status == 200
    assert SECRET not in everything(ledger)
    for key_file in (east, west):
        assert opener(ledger, tmp_path, key_file).get("lab") is not None
    with pytest.raises(Refused, match="cannot open the properties of cloud lab"):
        opener(ledger, tmp_path, north).get("lab")
    uuid = rows.node(ledger, "broker", 0)
    with conducting(ledger, tmp_path / "west", "west", west):
        moved = client.send("PATCH", f"/v1/nodes/{uuid}", {"conductor_group": "WEST"}, LATEST)
    assert (moved.status, moved.json["runs_in_group"]) == (200, "west")
    shown = client.get("/v1/clouds/lab", **LATEST).json
    assert (shown["conductor_group"], shown["other_conductor_groups"]) == ("east", ["west"])
    assert "other_conductor_groups" not in client.get("/v1/clouds/lab", **{"Coterie-API-Version": "1.1"}).json
    left = client.send("PUT", "/v1/cloud-config", {"text": config(tmp_path)})
    assert (left.status, left.json["code"]) == (409, "refused"), "a node is still in group west"
    assert "broker/0 has that group" in left.json["why"]


def test_a_group_that_is_added_needs_the_credentials_again_and_one_without_a_key_is_named(
    client: Client, ledger: Ledger, tmp_path: Path, east: KeyFile
) -> None:
    first = client.send("PUT", "/v1/cloud-config", {"text": config(tmp_path)})
    publish_key(ledger, tmp_path / "west", "west")
    more = first.json["text"].replace("conductor_group: east", f"conductor_group: {SHARED}")
    added = client.send("PUT", "/v1/cloud-config", {"text": more})
    assert (added.status, added.json["code"]) == (409, "refused")
    assert "group 'west' could not open" in added.json["what"] and "in plain" in added.json["remedy"]
    with ledger.write() as tx:
        keys_table = metadata.tables["conductor_keys"]
        tx.execute(keys_table.delete().where(keys_table.c.conductor_group != "east"))
    keyless = client.send("PUT", "/v1/cloud-config", {"text": config(tmp_path, SHARED)})
    assert (keyless.status, keyless.json["why"]) == (409, "conductor group 'west' has no key yet")
    assert "coterie conductors keys publish" in keyless.json["remedy"]


def test_a_cloud_moves_to_one_of_its_other_groups_without_its_credentials(
    client: Client, ledger: Ledger, tmp_path: Path, east: KeyFile
) -> None:
    west = publish_key(ledger, tmp_path / "west", "west")
    client.send("PUT", "/v1/cloud-config", {"text": config(tmp_path, SHARED)})
    moved = client.send("PATCH", "/v1/clouds/lab", {"conductor_group": "west"}, LATEST)
    assert moved.status == 200, moved.text
    assert (moved.json["conductor_group"], moved.json["other_conductor_groups"]) == ("west", ["east"])
    for key_file in (east, west):
        assert opener(ledger, tmp_path, key_file).get("lab") is not None
    text = client.get("/v1/cloud-config").json["text"].replace('  other_conductor_groups: ["east"]', "")
    assert client.send("PUT", "/v1/cloud-config", {"text": text}).status == 200, "leaving a group needs no credentials"
    with pytest.raises(Refused, match="cannot open the properties of cloud lab"):
        opener(ledger, tmp_path, east).get("lab")


def test_each_group_seals_its_own_box_again(client: Client, ledger: Ledger, tmp_path: Path, east: KeyFile) -> None:
    west = publish_key(ledger, tmp_path / "west", "west")
    client.send("PUT", "/v1/cloud-config", {"text": config(tmp_path, SHARED)})
    old, kept = west.newest(), east.newest()
    assert old is not None and kept is not None
    with conducting(ledger, tmp_path / "east", "east", east), conducting(ledger, tmp_path / "west", "west", west):
        new = west.add()
        client.send("POST", "/v1/keys", {"conductor_group": "west", "public": new.public.text})
        held = client.send("POST", f"/v1/keys/{old.public.id}/retire", {"conductor_group": "west"})
        assert held.status == 409, "a box is sealed to it"
        again = client.send("POST", "/v1/clouds/lab/reseal", None, LATEST)
        assert again.json["sealed_to"] == {"east": kept.public.id, "west": new.public.id}, again.text
        assert client.send("POST", f"/v1/keys/{old.public.id}/retire", {"conductor_group": "west"}).status == 204
        assert checked(client)["error"] is None
    assert opener(ledger, tmp_path, west).get("lab") is not None
    gone = client.send("POST", "/v1/clouds/lab/reseal")
    assert gone.json["code"] in ("no_conductors", "no_conductor_in_group")
