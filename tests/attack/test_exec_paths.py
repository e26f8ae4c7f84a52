"""An admin of the API has a conductor run a program: only what the conductor's own settings allow is run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from coterie.conductor.process import Conductor
from coterie.director.context import AppContext
from coterie.seal.keys import KeyFile
from tests.director.access.conftest import Make

Start = Callable[..., None]


@pytest.fixture
def start(context: AppContext) -> Iterator[Start]:
    made: list[Conductor] = []

    def start_conductor(*exec_paths: str) -> None:
        folder = context.state_folder.path
        keys = KeyFile(folder / "conductor.key")
        conductor = Conductor(
            context.ledger, "test", state_folder=folder, workers=1, keys=keys, exec_paths=list(exec_paths)
        )
        conductor.start()
        made.append(conductor)

    yield start_conductor
    for one in made:
        one.drain(10)


def _check_cloud(person: Make, path: str, **properties: Any) -> str:
    admin = person("admin")
    cloud = {"name": "lab", "driver": "exec", "properties": {"path": path, "properties": properties}}
    config = {"clouds": [cloud], "azs": [{"name": "z1", "cloud": "lab"}]}
    assert admin.send("PUT", "/v1/cloud-config", {"text": json.dumps(config)}).status == 200
    return admin.send("POST", "/v1/clouds/lab/check").text


@pytest.mark.parametrize("allowed", [(), ("/bin/true",)])
def test_a_shell_with_a_command_is_not_run(
    allowed: tuple[str, ...], person: Make, start: Start, tmp_path: Path
) -> None:
    start(*allowed)
    answer = _check_cloud(person, "/bin/sh", x=f"$(touch {tmp_path}/seen)")
    assert not (tmp_path / "seen").exists()
    assert "exec_paths" in answer and "/bin/sh" in answer


def test_an_allowed_program_is_run_also_by_way_of_a_link(person: Make, start: Start, tmp_path: Path) -> None:
    program = tmp_path / "cpi"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/seen\n")
    program.chmod(0o755)
    (tmp_path / "link").symlink_to(program)
    start(str(program))
    _check_cloud(person, str(tmp_path / "link"))
    assert (tmp_path / "seen").exists()
