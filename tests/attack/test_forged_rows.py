"""The attacker writes any row of the database, and has no Director's key: conductors refuse what is not signed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
import sqlalchemy as sa

from coterie.conductor.process import Conductor, params_of
from coterie.errors import CoterieError, UsageError
from coterie.flows.node import DELETE_NODE
from coterie.flows.node_params import DeleteNode
from coterie.ids import Ids
from coterie.ledger.rows import clouds, director_keys, nodes, stemcells
from coterie.ledger.rows.clouds import CloudRow
from coterie.ledger.rows.director_keys import DirectorKeys
from coterie.ledger.rows.identity import ensure_director
from coterie.ledger.store import Ledger, time
from coterie.ledger.tables import events, facts, steps
from coterie.ledger.work import steps as work
from coterie.ledger.work import tasks
from coterie.ledger.work.tasks import NewStage, NewTask
from coterie.requests import looks, start
from coterie.requests.ask_clouds import ask
from coterie.requests.request import PlanRequest
from coterie.seal.keys import KeyFile
from coterie.seal.signature import Signer
from tests.cli.conftest import CLOUD, MANIFEST
from tests.ledger.test_grants import finished


class Place:
    """A Director that signs, its conductor, and another connection of the attacker's, which does not sign."""

    def __init__(self, url: str, folder: Path) -> None:
        self.director, self.attacker, self.folder = Ledger.open(url), Ledger.open(url), folder
        ensure_director(self.director, "test", Ids())
        self.signer = Signer.load(folder / "director.key")
        self.calls: list[str] = []
        self.conductor: Conductor | None = None
        with self.director.write() as tx:
            stemcells.add(tx, "debian-12", "1.1", None, None, {"image": "x"}, [])

    def publish(self, *, pinned: bool = False) -> None:
        with self.director.write() as tx:
            director_keys.publish(tx, self.signer, params_of, pinned=pinned)
        self.director.sign_with(self.signer)

    def work(self, keys: KeyFile | None = None) -> None:
        self.conductor = Conductor(
            self.director,
            "c1",
            state_folder=self.folder,
            workers=2,
            keys=keys,
            observe=lambda method, seconds, problem: self.calls.append(method),
        )
        self.conductor.start()

    def deploy(self) -> None:
        request = PlanRequest(deployment="web", manifest=MANIFEST, cloud_config=CLOUD)
        assert finished(self.director, start.deploy(self.director, request, None, None)) == "done"
        self.calls.clear()

    def rest(self) -> None:
        if self.conductor is not None:
            self.conductor.drain(10)
            self.conductor = None

    def end_of(self, task: int) -> list[Any]:
        """How its steps ended: (state, code of the error)."""
        self.director.notify_ready()
        finished(self.director, task)
        with self.director.read() as tx:
            rows = tx.execute(sa.select(steps.c.state, steps.c.error).where(steps.c.task == task)).all()
        return [(row.state, (row.error or {}).get("code")) for row in rows]

    def wait_for_refusals(self, count: int) -> list[Any]:
        """The events about refused questions, once there are so many."""
        give_up = monotonic() + 30
        while True:
            with self.director.read() as tx:
                found = list(tx.execute(sa.select(events).where(events.c.kind == "question.refused")).all())
            if len(found) >= count:
                return found
            assert monotonic() < give_up
            sleep(0.05)

    def delete_node(self, ledger: Ledger) -> int:
        """A task that deletes a node with its disks, as `ledger` writes it."""
        with ledger.write() as tx:
            node, cloud = nodes.of_deployment(tx, "web")[0], clouds.get(tx, "lab")
            assert cloud is not None
            step = DELETE_NODE.step(DeleteNode("mine", True), "x", cloud, node=node.uuid)
            return tasks.create(tx, NewTask("deploy", "web", [NewStage("s", [step])]))


@pytest.fixture
def place(database_url: str, tmp_path: Path) -> Iterator[Place]:
    made = Place(database_url, tmp_path)
    try:
        yield made
    finally:
        made.rest()
        made.director.close()
        made.attacker.close()


def test_a_new_step_of_the_attacker_is_refused_and_calls_no_cloud(place: Place) -> None:
    place.publish()
    place.work()
    place.deploy()
    task = place.delete_node(place.attacker)
    assert place.end_of(task) == [("failed", "not_signed")]
    assert place.calls == []
    with place.director.read() as tx:
        said = tx.execute(sa.select(events.c.body).where(events.c.task == task, events.c.kind == "step.failed"))
        assert "not signed by a Director" in said.scalar_one()
        assert len(nodes.of_deployment(tx, "web")) == 2


def test_a_changed_or_copied_step_is_refused(place: Place) -> None:
    """Another flow, node, group or parameter under an old signature; and a signed step under another id."""
    place.publish()
    place.work()
    place.deploy()
    place.rest()
    task = place.delete_node(place.director)
    with place.attacker.write() as tx:
        row = tx.execute(sa.select(steps).where(steps.c.task == task)).one()._asdict()
        mended = {**row["data"], "delete_disks": False}
        tx.execute(steps.update().where(steps.c.task == task).values(data={**row["data"], "reason": "another"}))
        for number, change in enumerate(
            ({}, {"flow": "node.destroy"}, {"node": "other"}, {"cloud": "other"}, {"data": mended}, {"driver": "exec"})
        ):
            tx.execute(steps.insert().values({**row, **change, "id": row["id"] + 100 + number}))
    place.work()
    place.director.notify_ready()
    assert set(place.end_of(task)) <= {("failed", "not_signed"), ("ready", None), ("running", None)}
    assert place.calls == []
    place.rest()
    with place.director.read() as tx:
        known = director_keys.read(tx)
        rows = [one._asdict() for one in tx.execute(sa.select(steps).where(steps.c.task == task))]
    assert len(rows) == 7 and not any(known.accept_step(one, one["signature"]) for one in rows)


def test_each_signed_field_counts(tmp_path: Path) -> None:
    """One that is changed by itself is enough, also with the right id."""
    signer = Signer.load(tmp_path / "director.key")
    known = DirectorKeys({signer.public.id: signer.public}, required=True)
    step: dict[str, Any] = {name: name for name in ("flow", "subject", "node", "cloud", "driver", "conductor_group")}
    step |= {"id": 1, "task": 1, "data": {"reason": "x", "progress": 1}}
    signed = director_keys.sign_step(signer, step, ["reason"])
    assert known.accept_step({**step, "data": {"reason": "x", "progress": 2}}, signed)
    for name in step.keys() - {"data"}:
        assert not known.accept_step({**step, name: "another"}, signed), name
    for data in ({"reason": "y"}, {}, None):
        assert not known.accept_step({**step, "data": data}, signed)
    assert not known.accept_step(step, {**signed, "names": []})
    question: dict[str, Any] = {"cloud": "lab", "what": "check", "driver": "sandbox", "conductor_group": ""}
    question |= {"properties": None, "question": {}, "wanted_at": 1.5}
    signed = director_keys.sign_question(signer, question)
    assert known.accept_question(question, signed)
    for name in question:
        assert not known.accept_question({**question, name: "another"}, signed), name
    assert not known.accept_question(question, director_keys.sign_step(signer, step, []))
    stranger = Signer.load(tmp_path / "another.key")
    assert not known.accept_question(question, director_keys.sign_question(stranger, question))


def test_a_forged_question_runs_no_program_and_is_recorded(place: Place, tmp_path: Path) -> None:
    place.publish()
    place.work()
    place.deploy()
    canary = tmp_path / "canary"
    with place.attacker.write() as tx:
        properties = {"path": "/bin/sh", "properties": {"x": f"$(id > {canary})"}}
        forged = {"driver": "exec", "properties": properties, "at": None, "wanted_at": time(tx), "holder": None}
        count = tx.execute(facts.update().values(**forged)).rowcount
        assert count > 0
    place.director.notify_question()
    with pytest.raises(CoterieError) as refused, place.director.read() as tx:
        cloud = clouds.get(tx, "lab")
        assert cloud is not None
        ask(place.attacker, [(cloud, "check", {"kinds": ["vm"]})], timeout_s=30)
    assert "not signed by a Director" in str(refused.value)
    assert not canary.exists()
    told = place.wait_for_refusals(count)
    assert {row.subject for row in told} == {"lab"} and {row.data["code"] for row in told} == {"not_signed"}
    assert all("is not signed by a Director" in row.body for row in told)


def test_a_question_of_the_future_occupies_no_conductor(place: Place) -> None:
    """No answer would reach its date, so it would stay open and be answered for ever."""
    place.publish()
    place.work()
    place.deploy()
    with place.attacker.write() as tx:
        tx.execute(facts.update().values(at=None, wanted_at=time(tx) + 1000, holder=None))
    place.director.notify_question()
    with place.director.read() as tx:
        cloud = clouds.get(tx, "lab")
        assert cloud is not None
    (answer,) = ask(place.director, [(cloud, "capabilities", {"of": "another"})], timeout_s=30)
    sleep(0.5)
    assert answer and place.wait_for_refusals(0) == []


def test_plain_properties_in_a_question_are_refused_by_a_conductor_with_keys(place: Place) -> None:
    place.publish()
    file = KeyFile(place.folder / "conductor.key")
    file.ensure()
    place.work(file)
    with pytest.raises(CoterieError, match="not sealed"):
        ask(place.director, [(CloudRow("new", "sandbox", {"settle_s": 1}, ""), "capabilities", {})], timeout_s=30)


def test_what_an_earlier_release_began_is_signed_once_and_goes_on(place: Place) -> None:
    """Unsigned rows run until a Director without a pin has signed what is open."""
    place.work()
    place.deploy()
    for publish in (lambda: None, lambda: place.publish(pinned=True)):
        publish()
        task = looks.look(place.attacker)
        assert task is not None
        assert place.end_of(task) == [("done", None)]
    place.rest()
    task = place.delete_node(place.attacker)
    with place.attacker.write() as tx:  # release 0.1.0 wrote no version
        data = tx.execute(sa.select(steps.c.data).where(steps.c.task == task)).scalar_one()
        kept = {name: value for name, value in data.items() if name != "version"}
        tx.execute(steps.update().where(steps.c.task == task).values(data=kept))
    place.publish()
    place.work()
    assert place.end_of(task) == [("done", None)]
    place.publish()  # a later start signs nothing
    assert place.end_of(place.delete_node(place.attacker)) == [("failed", "not_signed")]


def test_a_step_that_is_sent_to_another_group_is_signed_for_it(place: Place) -> None:
    place.publish()
    place.work()
    place.deploy()
    place.rest()
    right, forged = place.delete_node(place.director), place.delete_node(place.attacker)
    with place.director.write() as tx:
        work.regroup_cloud(tx, "lab", "east")
        known = director_keys.read(tx)
        rows = tx.execute(sa.select(steps).where(steps.c.task.in_([right, forged])).order_by(steps.c.task)).all()
    assert [row.conductor_group for row in rows] == ["east", "east"]
    assert [known.accept_step(row._asdict(), row.signature) for row in rows] == [True, False]


def test_the_key_file_is_private_and_stays(tmp_path: Path) -> None:
    file = tmp_path / "state" / "director.key"
    made = Signer.load(file)
    assert Signer.load(file).public == made.public
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text("{}")
    with pytest.raises(UsageError, match="no signing key"):
        Signer.load(file)
