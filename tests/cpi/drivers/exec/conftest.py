"""Makes small foreign CPI programs, and drivers that run them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from coterie.cpi.contract import Mark, Runtime
from coterie.cpi.drivers.exec.driver import ExecCpi

DIRECTOR = "6f0d5a52-9a3c-4c55-b7a1-0c6b6d1f2e11"
# `request` is what came in; `say` answers; every request is kept in the file `seen` beside the program.
PRELUDE = f"""\
#!{sys.executable} -IS
import json, os, sys, time
text = sys.stdin.read()
request = json.loads(text)
here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "seen"), "a") as seen:
    seen.write(text + "\\n")
def say(result, error=None, log=""):
    print(json.dumps({{"result": result, "error": error, "log": log}}))
def fail(type, message, retry=False):
    say(None, {{"type": type, "message": message, "ok_to_retry": retry}})
def info(version=3):
    if request["method"] == "info":
        say({{"api_version": version, "stemcell_formats": ["raw"]}})
        sys.exit()
"""

WriteProgram = Callable[[str], Path]
OpenProgram = Callable[..., ExecCpi]


@pytest.fixture
def program(tmp_path: Path) -> WriteProgram:
    def write(body: str) -> Path:
        path = tmp_path / "cpi"
        path.write_text(PRELUDE + dedent(body))
        path.chmod(0o755)
        return path

    return write


@pytest.fixture
def foreign(program: WriteProgram) -> OpenProgram:
    def open_it(body: str, **properties: Any) -> ExecCpi:
        path = program(body)
        return ExecCpi("abroad", {"path": str(path), **properties}, runtime(path))

    return open_it


def runtime(*allowed: Path) -> Runtime:
    return Runtime(DIRECTOR, None, exec_paths=[str(path) for path in allowed])  # type: ignore[arg-type] # the exec driver submits no changes


@pytest.fixture
def mark() -> Mark:
    return Mark(DIRECTOR, "0123456789abcdefghjkmnpqrs")
