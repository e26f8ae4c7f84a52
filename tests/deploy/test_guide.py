"""The commands of the guide exist, with these flags; its metrics and settings too."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from coterie.settings import all_settings
from tests.deploy.words import accept
from tests.director.asgi import Client
from tests.director.conftest import client, context

__all__ = ["client", "context"]
GUIDE = (Path(__file__).parents[2] / "docs" / "operating.md").read_text()
COMMANDS = re.findall(r"^coterie .*$", "\n".join(re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL)), re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_guide_is_one(command: str) -> None:
    accept(shlex.split(re.split(r" [>|] ", command)[0])[1:])


def test_settings_of_the_guide_exist() -> None:
    known = {setting.variable for setting in all_settings({"HOME": "/root"})}
    named = set(re.findall(r"COTERIE_[A-Z_]+[A-Z]", GUIDE))
    assert len(COMMANDS) > 10 and named and named <= known


def test_metrics_of_the_guide_are_served(client: Client) -> None:
    served = set(re.findall(r"^# TYPE (\w+)", client.get("/metrics").text, re.MULTILINE))
    named = {name.removesuffix("_sum") for name in re.findall(r"`(coterie_[a-z_]+)", GUIDE)}
    # The first is on a conductor's own page only; the second is no metric but a mark on VMs.
    assert named - served == {"coterie_conductor_steps", "coterie_ledger"}
