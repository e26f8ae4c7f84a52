"""Logs: JSON lines or words, as the setting says, and no secret in either."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from coterie.telemetry import log


@pytest.fixture(autouse=True)
def root() -> Iterator[None]:
    logger = logging.getLogger()
    handlers, level = logger.handlers[:], logger.level
    yield
    logger.handlers[:], logger.level = handlers, level


@pytest.mark.parametrize(("form", "is_json"), [("json", True), ("text", False), ("auto", True)])
def test_the_setting_decides_and_auto_is_json_without_a_terminal(
    form: str, is_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    log.to_terminal(form)
    try:
        raise ValueError("broke at postgresql://me:hush@db/x")
    except ValueError:
        logging.getLogger("coterie.test").exception("cannot reach %s", "postgresql://me:hush@db/x")
    told = capsys.readouterr().err
    assert "hush" not in told
    if not is_json:
        assert "cannot reach postgresql://" in told
        return
    line = json.loads(told)
    assert (line["level"], line["from"]) == ("error", "coterie.test")
    assert "cannot reach" in line["message"] and "ValueError" in line["trace"]
