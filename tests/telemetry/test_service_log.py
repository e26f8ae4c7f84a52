"""A service writes nothing but lines of its log, and these tell its work."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coterie.errors import Refused
from coterie.telemetry import log
from tests.ledger.blank import sqlite_ledger
from tests.requests.site import group, manifest, site

PROGRAM = [sys.executable, "-c", "from coterie.cli.main import main; main()"]


@pytest.fixture(autouse=True)
def root() -> Iterator[None]:
    logger, hook = logging.getLogger(), threading.excepthook
    handlers, level = logger.handlers[:], logger.level
    yield
    logger.handlers[:], logger.level = handlers, level
    logging.captureWarnings(False)
    threading.excepthook = hook


def lines(text: str) -> list[dict[str, Any]]:
    """Fails if one of them is no JSON."""
    return [json.loads(line) for line in text.splitlines()]


def test_errors_and_threads_that_break_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        breaking = threading.Thread(target=lambda: 1 / 0, name="worker")
        breaking.start()
        breaking.join()
        raise Refused("not with\nthis key", why="it is old", remedy="make another")

    assert log.run_service("json", work) == Refused.exit_code
    broke, ended = lines(capsys.readouterr().err)
    assert broke["message"] == "thread worker ended" and "ZeroDivisionError" in broke["trace"]
    assert ended["message"] == "ended: not with\nthis key; it is old; remedy: make another (refused)"
    assert ended["level"] == "error"


def test_the_work_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.to_terminal("json")
    ledger = sqlite_ledger(tmp_path / "ledger.db")
    with site(ledger, tmp_path) as here:
        one = here.deploy(manifest(group("a", 1)))
        here.cpi().delete_vm(here.nodes()["a/0"].vm_cid or "")
        with ledger.write() as tx:
            tx.exec_driver_sql("UPDATE objects SET cid = NULL, state = 'intended' WHERE kind = 'server_group'")
        failed = here.deploy(manifest(group("a", 1, "persistent_disk: 999999999")), "failed")
    ledger.close()
    told = [line["message"] for line in lines(capsys.readouterr().err)]
    assert f"task {one} (deploy dep) is accepted, by test: 2 to create" in told
    assert f"task {one} (deploy dep) is done: 2 done" in told
    assert f"task {failed} (deploy dep) is failed: 1 failed" in told
    assert any(f"of task {failed} failed (node." in message for message in told)


def test_a_directors_whole_log_is_json_and_begins_with_its_settings(tmp_path: Path) -> None:
    env = {**os.environ, "COTERIE_STATE": str(tmp_path / "state"), "COTERIE_LOG_FORMAT": "json", "HOME": str(tmp_path)}
    command = [*PROGRAM, "director", "--listen", "127.0.0.1:0"]
    first = run_until(command, env, "listening on ")
    starts = [line["message"] for line in first if " starts: " in line["message"]]
    assert len(starts) == 1 and "database sqlite:///" in starts[0] and "conductor inside" in starts[0]
    assert first[-1]["message"] == "ended"
    second = run_until(command, env, "listening on ")
    assert not [line for line in second if "token" in line["message"]], "it was made by the first start"
    nowhere = f"sqlite:///{tmp_path}/none/x.db"
    refused = subprocess.run([*PROGRAM, "conductor", "--database", nowhere], env=env, capture_output=True, text=True)
    (line,) = lines(refused.stderr)
    assert refused.returncode != 0 and line["message"].startswith("ended: ") and "remedy: " in line["message"]


def run_until(command: list[str], env: dict[str, str], word: str) -> list[dict[str, Any]]:
    """Its whole log, from its start to its end by a signal after a line with this word."""
    process = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    told = ""
    for line in process.stderr:
        told += line
        if word in line:
            time.sleep(0.5)
            process.send_signal(signal.SIGTERM)
            break
    told += process.stderr.read()
    process.wait(60)
    return lines(told)
