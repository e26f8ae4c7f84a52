"""docs/client.md, run literally: its blocks are one program, and what they print is what the page shows."""

from __future__ import annotations

import io
import os
import re
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Machine
from tests.cli.conftest import machine as machine
from tests.cli.test_access import site as site  # a Director on TCP with TLS
from tests.cli.test_tutorial import run_blocks

PAGE = Path(__file__).parents[2] / "docs" / "client.md"
BLOCK = re.compile(r"^```(sh|python|text)\n(.*?)^```", re.DOTALL | re.MULTILINE)
REMOTE = "https://director.example.org:8443"
BLOCKS: list[tuple[str, str]] = BLOCK.findall(PAGE.read_text())


def run(text: str, names: dict[str, Any]) -> str:
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(text, str(PAGE), "exec"), names)  # the page's own words
    return printed.getvalue()


def test_the_page_does_what_it_says(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    run_blocks(machine, [text for kind, text in BLOCKS if kind == "sh"])
    monkeypatch.chdir(machine.folder / "try")
    for name, value in machine.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    names: dict[str, Any] = {}
    printed, compared = "", 0
    for kind, text in BLOCKS:
        if kind == "python" and REMOTE in text:
            run("from pathlib import Path", names)
        elif kind == "python":
            printed = run(text, names)
        elif kind == "text":
            assert printed == text
            compared += 1
    assert compared == 6


def test_the_director_elsewhere_is_reached_with_token_and_certificates(
    site: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (block,) = (text for kind, text in BLOCKS if kind == "python" and REMOTE in text)
    (tmp_path / "token").write_text(site.state_folder.token.read_text())
    (tmp_path / "ca.pem").write_bytes(Path(site.env["COTERIE_CA"]).read_bytes())
    monkeypatch.chdir(tmp_path)
    connected = "from coterie.client import Client\n" + block.replace(REMOTE, site.env["COTERIE_DIRECTOR"])
    assert run(connected, {}) == "bootstrap\n"
