"""A conductor without the key of a cloud: its steps wait for it, and say so, however long it takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sqlalchemy as sa

from coterie.conductor.process import Conductor
from coterie.engine.runner import Retry
from coterie.ledger.tables import steps
from coterie.ledger.views import waiting
from coterie.requests import start
from coterie.seal.key import Key
from coterie.seal.keys import KeyFile
from coterie.seal.sealed import Purpose, seal
from tests.requests.site import CONFIG, Site, group, manifest
from tests.requests.test_work import _until

RETRY = Retry(tries=2, first_s=0.01, keyless_s=0.01)


class Counted(KeyFile):
    looks = 0

    def find(self, key_id: str) -> Key | None:
        self.looks += 1
        return super().find(key_id)


@pytest.fixture
def keys(local: Site, tmp_path: Path) -> Counted:
    """The file that opens the cloud of the site, whose conductor looks into it."""
    made = Counted(tmp_path / "conductor.key")
    newest = made.add()
    sealed = seal(newest.public, Purpose("lab", "sandbox", ""), {"settle_s": 0.1})
    local.config = CONFIG.replace("{settle_s: 0.1}", json.dumps(sealed))
    local.conductor.drain(10)
    local.conductor = Conductor(local.ledger, "k", state_folder=local.folder, retry=RETRY, keys=made)
    local.conductor.start()
    return made


@pytest.mark.parametrize("loss", ["gone", "open to all"])
def test_steps_wait_for_the_key_and_go_on_with_it(local: Site, keys: Counted, loss: str) -> None:
    away = keys.path.with_name("away")

    def lose(_: object) -> None:
        """After the planning, which would be refused, and before the first step."""
        keys.looks = 0
        if loss == "gone":
            keys.path.rename(away)
        else:
            keys.path.chmod(0o644)

    task = start.deploy(local.ledger, local.request(manifest(group("a", 1))), None, "test", permit=lose)
    _until(lambda: keys.looks > 5 * RETRY.tries)
    assert local.task(task).state == "running"
    assert local.kinds(task).count("step.keyless") == 1
    with local.ledger.read() as tx:
        found = tx.execute(sa.select(steps.c.error).where(steps.c.task == task, steps.c.error.is_not(None))).scalars()
        assert {error["what"] for error in found} == {"this conductor cannot open the properties of cloud lab"}
    if loss == "gone":
        away.rename(keys.path)
    else:
        keys.path.chmod(0o600)
    local.wait(task)
    assert local.nodes()["a/0"].state == "up"


def test_a_task_tells_why_it_waits_and_can_be_cancelled(local: Site, keys: Counted) -> None:
    local.conductor.drain(10)
    local.conductor = Conductor(local.ledger, "p", state_folder=local.folder, keys=keys)  # rests as long as usual
    local.conductor.start()
    task = start.deploy(
        local.ledger, local.request(manifest(group("a", 1))), None, "test", permit=lambda _: keys.path.unlink()
    )
    _until(lambda: "step.keyless" in local.kinds(task))
    with local.ledger.read() as tx:
        assert "key file that was not copied here" in waiting.reasons(tx, task)[0]
    start.cancel(local.ledger, task)
    local.wait(task, "cancelled")
