"""Which commands are simulated: the others are refused in the vendor's own words, and the manual names them. And the
witness of all other tests is put to the test itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from coterie.sandbox.fronts.cloudstack.command_table import HANDLERS
from coterie.sandbox.fronts.cloudstack.definition import commands
from coterie.sandbox.fronts.cloudstack.faults import Reply
from tests.peers.cloudstack_witness import Witness
from tests.sandbox.fronts.cloudstack.rig import Rig
from tests.sandbox.fronts.cloudstack.test_wire import raw

ROOT = Path(__file__).parents[4]
MANUAL = ROOT / "docs" / "cloudstack.md"
DRIVER = ROOT / "src" / "coterie" / "cpi" / "drivers" / "cloudstack"


def missing() -> set[str]:
    return {command.name for key, command in commands().items() if key not in HANDLERS}


def test_every_other_command_is_refused_in_its_own_envelope(rig: Rig) -> None:
    assert len(missing()) > 30
    for name in missing():
        answer = raw(rig, name)
        assert answer.status_code == 432, name
        body = answer.json()[commands()[name.lower()].envelope]
        assert (body["errorcode"], body["cserrorcode"]) == (432, 4555), name
        assert body["errortext"] == f"The given command:{name} does not exist or it is not available for user"


def test_the_cloud_lists_only_what_it_simulates(rig: Rig) -> None:
    told = {row["name"] for row in rig.admin.listApis()["api"]}
    assert told == {command.name for command in commands().values()} - missing()


def test_the_manual_names_what_is_missing() -> None:
    before, _, rest = MANUAL.read_text("utf-8").partition("Not simulated:")
    assert f"({len(commands())} commands, of which {len(HANDLERS)} are simulated" in before
    words = set(re.findall(r"[A-Za-z]+", rest.partition("\n\n")[0]))
    assert words == missing()


def test_the_driver_calls_only_what_is_simulated() -> None:
    """So every one of its calls is held against the definition, in whichever test it is made."""
    words = {
        word
        for path in DRIVER.glob("*.py")
        for word in re.findall(r'"((?:list|[a-z]+[A-Z])[A-Za-z]+)"', path.read_text("utf-8"))
        if word.lower() in commands()
    }
    assert len(words) > 40
    assert not words & missing()


@pytest.mark.parametrize(
    ("body", "mistake"),
    [
        ({"listzones": {}}, "the envelope"),
        ({"listzonesresponse": {"count": 1, "zones": []}}, "a list answers"),
        ({"listzonesresponse": {"count": 1, "zone": [{"colour": "blue"}]}}, "no field colour"),
        ({"listzonesresponse": {"count": 1, "zone": [{"capacity": [{"colour": "blue"}]}]}}, "no field colour"),
    ],
)
def test_the_witness_sees_a_wrong_answer(rig: Rig, body: dict[str, Any], mistake: str) -> None:
    witness = Witness(rig.server)
    witness._ask = lambda raw, **_: Reply(200, body)
    assert raw(rig, "listZones").status_code == 200
    assert mistake in " ".join(witness.mistakes)
    rig.witness.mistakes.clear()


@pytest.mark.parametrize(
    ("command", "more", "mistake"),
    [
        ("listZones", {"nosuch": "1"}, "no parameter nosuch"),
        ("listZones", {"page": "one"}, "page is no integer"),
        ("listZones", {"id": "not-a-uuid"}, "id is no uuid"),
        ("listZones", {"tags": "plain"}, "tags is a map"),
        ("listZones", {"name": "x" * 256}, "name is no string of 255"),
        ("createAffinityGroup", {"name": "g"}, "type is missing"),
    ],
)
def test_the_witness_sees_a_wrong_request(rig: Rig, command: str, more: dict[str, str], mistake: str) -> None:
    """Had the emulator let it pass."""
    witness = Witness(rig.server)
    witness._ask = lambda raw, **_: Reply(200, {commands()[command.lower()].envelope: {"jobid": "1", "id": "2"}})
    raw(rig, command, **more)
    assert mistake in " ".join(witness.mistakes)
    rig.witness.mistakes.clear()
