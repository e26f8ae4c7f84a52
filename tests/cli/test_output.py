"""Output: data on stdout, words on stderr, JSON as the API gives it, tables that line up, colours on terminals."""

from __future__ import annotations

import io
import json
import re

import pytest

from coterie.cli.show.paint import Paint
from coterie.cli.show.table import fields, table
from coterie.cli.watch.report import report
from coterie.manifest import load_deployment
from coterie.times import ago, span, took
from tests.cli.conftest import Machine

PLAIN = Paint("never", io.StringIO())
BRIGHT = Paint("always", io.StringIO())


def test_columns_line_up_and_numbers_stand_right() -> None:
    text = table(("NAME", "MIB", "NOTE"), [("a", 10240, None), ("longer", 5, ["x", "y"])], PLAIN)
    assert text.splitlines() == [
        "NAME      MIB  NOTE",
        "a       10240  -",
        "longer      5  x, y",
    ]


def test_values_of_all_kinds_have_words() -> None:
    text = fields([("yes", True), ("none", None), ("map", {"a": 1}), ("lines", "a\nb"), ("empty", [])], PLAIN)
    assert text.splitlines() == ["yes    yes", "none   -", 'map    {"a": 1}', "lines  a b", "empty  -"]


def test_an_empty_table_is_its_head() -> None:
    assert table(("A", "B"), [], PLAIN) == "A  B"


def test_states_are_coloured_without_moving_columns() -> None:
    text = table(("STATE", "X"), [("up", 1), ("failing", 2)], BRIGHT, state=0)
    assert "\x1b[32mup     \x1b[0m" in text and "\x1b[31mfailing\x1b[0m" in text
    assert "\x1b" not in table(("STATE",), [("up",)], PLAIN, state=0)


def test_a_plan_is_coloured_by_its_signs() -> None:
    plan = "Destroys or interrupts:\n  - delete   node a\nOther changes:\n  + create   node b\nNote: mind\n"
    lines = BRIGHT.plan(plan).splitlines()
    assert [line[:5] for line in lines] == ["\x1b[31m", "\x1b[31m", "\x1b[1mO", "\x1b[32m", "\x1b[33m"]
    assert PLAIN.plan(plan) + "\n" == plan


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.04, "0.0 s"), (9.96, "10.0 s"), (59, "59 s"), (600, "10 min"), (9000, "2 h"), (200000, "2 d")],
)
def test_spans(seconds: float, words: str) -> None:
    assert span(seconds) == words


def test_times() -> None:
    assert ago(None) == "-"
    assert took("1970-01-01T00:00:00.000Z", "1970-01-01T00:01:30.000Z") == "90 s"


def test_a_report_says_what_failed_why_and_what_to_do() -> None:
    task = {
        "id": 12,
        "kind": "deploy",
        "deployment": "kafka",
        "state": "failed",
        "created_at": "1970-01-01T00:00:00.000Z",
        "ended_at": "1970-01-01T00:00:05.000Z",
        "steps": {"total": 3, "ended": 3, "failed": 1},
        "report": {
            "steps": {"done": 2, "failed": 1},
            "failures": [
                {
                    "subject": "broker/2",
                    "error": {"code": "no_placement", "what": "no host", "why": "full", "remedy": "add hosts"},
                }
            ],
        },
        "waiting": [],
    }
    text = report(task, PLAIN)
    assert text.splitlines()[0] == "Task 12 (deploy kafka): failed after 5.0 s, 2 done, 1 failed"
    assert "  broker/2: no host (no_placement)\n    why: full\n    remedy: add hosts" in text
    assert "run the same command again" in text


@pytest.mark.parametrize("words", [("nodes",), ("groups",), ("disks",), ("stemcells",), ("clouds",), ("tasks",)])
def test_json_is_the_resource_of_the_api(shared: Machine, words: tuple[str, ...]) -> None:
    done = shared.run(*words, "-o", "json")
    assert set(done.json) == {"items", "next"}
    assert done.err == ""


@pytest.mark.parametrize(
    "words",
    [
        ("conductors",),
        ("events",),
        ("deployments",),
        ("placement",),
        ("placement", "audit"),
        ("clouds", "show", "lab"),
        ("clouds", "check"),
        ("clouds", "check", "lab"),
        ("clouds", "config"),
        ("explain", "instance_groups.placement.policy"),
        ("config", "show"),
        ("config",),
        ("doctor",),
        ("local",),
        ("version",),
        ("plan", "web.yml"),
        ("deploy", "web.yml", "--dry-run"),
        ("sandbox", "show"),
    ],
)
def test_every_verb_has_a_table_and_json(shared: Machine, words: tuple[str, ...]) -> None:
    plain = shared.run(*words)
    assert plain.code == 0, plain.err
    assert "\x1b" not in plain.out
    assert shared.run("-o", "json", *words).json is not None, "the flag works before the verb as well"


def test_an_explained_example_can_be_written_as_it_stands(shared: Machine) -> None:
    told = shared.run("explain", "resurrection").out
    assert re.search(r"default +false\nexample +true\n", told)
    (example,) = re.findall(r"example +(.*)", shared.run("explain", "deployment").out)
    assert load_deployment(example, "example").value.name


def test_events_have_no_table_when_there_are_none(shared: Machine) -> None:
    assert shared.run("events", "--task", "1").code == 5


def test_colours_follow_flag_and_environment(shared: Machine) -> None:
    assert "\x1b" in shared.run("stemcells", "--color", "always").out
    shared.env["NO_COLOR"] = "1"
    try:
        assert "\x1b" not in shared.run("stemcells").out
        assert "\x1b" in shared.run("stemcells", "--color", "always").out
    finally:
        del shared.env["NO_COLOR"]


def test_verbose_tells_the_requests_on_stderr(shared: Machine) -> None:
    done = shared.run("nodes", "-v", "-o", "json")
    assert "GET /v1/nodes" in done.err
    assert done.json["items"] == []


def test_a_reader_that_has_enough_is_no_failure(shared: Machine) -> None:
    from tests.cli.conftest import PROGRAM

    command = " ".join(f"'{word}'" for word in [*PROGRAM, "config", "show"])
    import subprocess

    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} | true"],
        env=shared.environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, "Traceback" in done.stderr, "Exception" in done.stderr) == (0, False, False)


def test_config_show_tells_origins_and_files_and_no_secret(shared: Machine) -> None:
    file = shared.folder / "config.toml"
    file.write_text("workers = 5\n")
    shared.env |= {
        "COTERIE_CONFIG": str(file),
        "COTERIE_TOKEN": "hunter2",
        "COTERIE_DATABASE": "postgresql://a:hunter2@h/d",
    }
    try:
        done = shared.run("config", "show")
        as_json = shared.run("config", "show", "-o", "json")
        doctor = shared.run("doctor", "-o", "json")
        saved = shared.run("doctor", "--save", "report.json")
    finally:
        for name in ("COTERIE_CONFIG", "COTERIE_TOKEN", "COTERIE_DATABASE"):
            del shared.env[name]
    assert f"file {file}" in done.out and str(file) in done.err
    values = {one["name"]: one["value"] for one in as_json.json["settings"]}
    assert (values["workers"], values["token"]) == (5, "<redacted>")
    assert saved.code == doctor.code == 0
    report_file = shared.folder / "report.json"
    assert report_file.stat().st_mode & 0o777 == 0o600
    for text in (done.out, as_json.out, doctor.out, report_file.read_text()):
        assert "hunter2" not in text
    assert {"versions", "config", "local", "findings", "log"} <= json.loads(report_file.read_text()).keys()


def test_doctor_starts_nothing(machine: Machine) -> None:
    done = machine.run("doctor", "-o", "json")
    assert done.code == 0
    assert done.json["local"]["running"] is False
    assert not machine.state_folder.path.exists()


def test_doctor_finds_what_is_wrong(machine: Machine) -> None:
    machine.state_folder.prepare()
    machine.state_folder.path.chmod(0o755)
    done = machine.run("doctor")
    assert done.code == 1
    assert "chmod 700" in done.out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(machine: Machine, shell: str) -> None:
    done = machine.run("completion", shell)
    assert done.code == 0
    assert "_COTERIE_COMPLETE" in done.out


def test_completion_knows_verbs_and_loads_no_director(machine: Machine) -> None:
    machine.env |= {"_COTERIE_COMPLETE": "bash_complete", "COMP_WORDS": "coterie dep", "COMP_CWORD": "1"}
    done = machine.run()
    assert "deploy" in done.out and "deployments" in done.out
    assert not machine.state_folder.path.exists()


def test_help_of_every_verb(shared: Machine) -> None:
    from coterie.cli.main import VERBS

    assert all(shared.run(verb, "--help").code == 0 for verb in VERBS if verb != "sandbox")
