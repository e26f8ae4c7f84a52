"""`coterie sandbox serve`: tells the way in, serves, keeps what was made."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from cs import CloudStack

MAIN = "import sys; from coterie.cli.main import run; sys.exit(run())"


def started(folder: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", MAIN, "sandbox", "--state", str(folder / "s.db"), "serve", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ.copy())


def way_in(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout
    text = ""
    while True:
        line = process.stdout.readline()
        assert line, process.stderr and process.stderr.read()
        text += line
        try:
            found: dict[str, Any] = json.loads(text)
            return found
        except ValueError:
            continue


def ended(process: subprocess.Popen[str]) -> int:
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    return process.returncode


def client(told: dict[str, Any], account: str) -> CloudStack:
    keys = told["accounts"][account]
    return CloudStack(endpoint=told["endpoint"], key=keys["api_key"], secret=keys["secret_key"], fetch_result=True)


def test_it_serves_both_accounts_and_keeps_their_keys(tmp_path: Path) -> None:
    process = started(tmp_path, "-o", "json", "--set", "expunge.delay=7")
    told = way_in(process)
    assert client(told, "user").listZones()["count"] == 3
    (setting,) = client(told, "admin").listConfigurations(name="expunge.delay")["configuration"]
    assert setting["value"] == "7"
    assert ended(process) == 0
    again = started(tmp_path, "-o", "json")
    assert way_in(again)["accounts"] == told["accounts"]
    assert ended(again) == 0


def test_a_wrong_setting_is_named(tmp_path: Path) -> None:
    process = started(tmp_path, "--set", "no.such=1")
    _, words = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "no.such" in words
    assert "expunge.delay" in words
