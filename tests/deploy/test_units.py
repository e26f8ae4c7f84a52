"""The files under deploy/ are true: flags and settings exist, and systemd takes the units."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from coterie.settings import all_settings
from tests.deploy.words import accept

DEPLOY = Path(__file__).parents[2] / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
PROGRAM = "/opt/coterie/bin/coterie"
SETTINGS = {setting.variable: setting for setting in all_settings({"HOME": "/root"})}
OTHERS = {"PGPASSFILE", "COTERIE_SANDBOX_STATE"}


def lines(unit: Path, key: str) -> list[str]:
    found = [line.partition("=") for line in unit.read_text().splitlines() if not line.startswith("#")]
    return [value for name, _, value in found if name == key]


def check(name: str, value: str) -> None:
    if name not in OTHERS:
        SETTINGS[name].read(value.replace("%i", "x").replace("%H", "host"))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_starts_what_there_is(unit: Path) -> None:
    (command,) = lines(unit, "ExecStart")
    program, *words = shlex.split(command)
    assert program == PROGRAM
    accept(words)
    for given in lines(unit, "Environment"):
        for one in shlex.split(given):
            name, _, value = one.partition("=")
            check(name, value)
    (example,) = lines(unit, "EnvironmentFile")
    kind = "conductor.env" if "conductor" in unit.name else "director.env"
    assert kind.removesuffix(".env") in example and (unit.parent / kind).is_file()


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_service_may_drain_before_it_is_killed(unit: Path) -> None:
    from coterie.conductor import serve as conductor
    from coterie.director.process import http_server, run_director

    (limit,) = lines(unit, "TimeoutStopSec")
    needed = conductor._DRAIN_S if "conductor@" in unit.name else run_director._DRAIN_S + http_server._GRACE_S
    assert int(limit) > needed
    assert lines(unit, "Restart") == ["always"]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_service_that_hangs_is_killed_by_the_watchdog(unit: Path) -> None:
    from coterie.conductor import process, serve
    from coterie.director.process import http_server

    assert lines(unit, "Type") == ["notify"]
    (limit,) = lines(unit, "WatchdogSec")
    needed = serve._WATCH_S + process._STUCK_S if "conductor@" in unit.name else http_server._WATCH_S
    assert int(limit) > needed


@pytest.mark.parametrize("file", sorted((DEPLOY / "systemd").glob("*.env")), ids=lambda file: file.name)
def test_an_environment_file_sets_only_settings(file: Path) -> None:
    given = re.findall(r"^#?([A-Z_]+)=(.*)$", file.read_text(), re.MULTILINE)
    assert given
    for name, value in given:
        check(name, value)
    assert not [value for _, value in given if re.search(r"://[^/@]*:[^/@]*@", value)], "no password stands here"


def test_systemd_takes_the_units(tmp_path: Path) -> None:
    """Where systemd is; elsewhere every line has to be of a section, with a key."""
    for unit in UNITS:
        assert all(re.fullmatch(r"|#.*|\[\w+\]|\w+=.*", line) for line in unit.read_text().splitlines())
        copy = tmp_path / unit.name.replace("@", "@test")
        copy.write_text(unit.read_text().replace(PROGRAM, "/bin/true"))
        if shutil.which("systemd-analyze"):
            done = subprocess.run(
                ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(copy)],
                capture_output=True,
                text=True,
                timeout=60,
            )
            assert unit.name.partition("@")[0] not in done.stderr, done.stderr


def test_the_container_starts_what_there_is() -> None:
    text = (DEPLOY / "container" / "Containerfile").read_text()
    root = DEPLOY.parent
    for sources in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE):
        assert all((root / source).exists() for source in sources.split())
    entry, command = (
        json.loads(re.findall(rf"^{word} (.*)$", text, re.MULTILINE)[0]) for word in ("ENTRYPOINT", "CMD")
    )
    assert entry == ["coterie"]
    accept(command)
    for name, value in re.findall(r"(COTERIE_[A-Z_]+)=(\S+)", text):
        check(name, value)
    assert re.search(r"^USER [1-9]\d+$", text, re.MULTILINE), "not as root"
    port = re.findall(r"^EXPOSE (\d+)$", text, re.MULTILINE)[0]
    assert command[-1].endswith(f":{port}")
