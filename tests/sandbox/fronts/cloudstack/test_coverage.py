"""Which of the vendor's commands are simulated: the others are refused in its own words, and the manual names them."""

from __future__ import annotations

import re
from pathlib import Path

from coterie.sandbox.fronts.cloudstack.definition import commands
from coterie.sandbox.fronts.cloudstack.desk import DESKS
from tests.sandbox.fronts.cloudstack.rig import Rig
from tests.sandbox.fronts.cloudstack.test_wire import raw

MANUAL = Path(__file__).parents[4] / "docs" / "cloudstack.md"


def missing() -> set[str]:
    return {command.name for key, command in commands().items() if key not in DESKS}


def test_every_other_command_is_refused_in_its_own_envelope(rig: Rig) -> None:
    assert len(missing()) > 30
    for name in missing():
        answer = raw(rig, name)
        assert answer.status_code == 432, name
        body = answer.json()[commands()[name.lower()].envelope]
        assert (body["errorcode"], body["cserrorcode"]) == (432, 9999), name
        assert name in body["errortext"]


def test_the_cloud_lists_only_what_it_simulates(rig: Rig) -> None:
    told = {row["name"] for row in rig.admin.listApis()["api"]}
    assert told == {command.name for command in commands().values()} - missing()


def test_the_manual_names_what_is_missing() -> None:
    _, _, rest = MANUAL.read_text("utf-8").partition("Not simulated:")
    words = set(re.findall(r"[A-Za-z]+", rest.partition("\n\n")[0]))
    assert words == missing()
