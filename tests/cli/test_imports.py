"""What a command may cost before it does anything: judged by the modules that it loads, not by a clock."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.cli.conftest import Machine

HEAVY = ("sqlalchemy", "alembic", "fastapi", "starlette", "uvicorn", "pydantic", "ruamel", "rich", "asyncio", "psycopg")
PROBE = """\
import json, sys
from coterie.cli.main import run
code = run(json.loads(sys.argv[1]))
print(json.dumps({"code": code, "modules": sorted(sys.modules)}), file=sys.stderr)
"""


def loaded(machine: Machine, *words: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROBE, json.dumps(words)],
        env=machine.environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    found = json.loads(done.stderr.strip().splitlines()[-1])
    assert found["code"] == 0, done.stderr
    return set(found["modules"])


def heavy(modules: set[str]) -> set[str]:
    return {name for name in modules if name.partition(".")[0] in HEAVY}


def test_help_loads_no_verb_and_nothing_heavy(machine: Machine) -> None:
    modules = loaded(machine, "--help")
    assert heavy(modules) == set()
    assert "http.client" not in modules
    ours = {name for name in modules if name.startswith("coterie.")}
    assert ours <= {
        "coterie.errors",
        "coterie.cli",
        "coterie.cli.main",
        "coterie.cli.frame",
        "coterie.cli.frame.flags",
        "coterie.cli.frame.lazy",
    }


@pytest.mark.parametrize(
    "words",
    [
        ("nodes", "-o", "json"),
        ("nodes",),
        ("tasks",),
        ("config", "show"),
        ("version",),
        ("local", "status"),
        ("explain", "instance_groups"),
        ("deploy", "--help"),
        ("plan", "web.yml"),
    ],
)
def test_a_command_against_a_running_director_loads_nothing_heavy(
    shared: Machine, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shared.folder)
    modules = loaded(shared, *words)
    assert heavy(modules) == set()
    assert "coterie.client.resources" not in modules, "these types are for type checkers"


@pytest.mark.parametrize("words", [("version",), ("config", "show")])
def test_a_command_that_asks_no_director_loads_no_client(machine: Machine, words: tuple[str, ...]) -> None:
    assert not {"coterie.client", "http.client"} & loaded(machine, *words)
