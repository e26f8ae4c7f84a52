"""The exit codes that scripts may count on, each one provoked."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.client.problems import exit_code
from coterie.director.process.state_folder import StateFolder
from tests.cli.conftest import CLOUD, MANIFEST, Machine, finish
from tests.peers.ports import free_port


@pytest.fixture
def deployed(machine: Machine) -> Machine:
    machine.furnish()
    assert machine.run("deploy", "web.yml").code == 0
    return machine


def test_0_done(shared: Machine) -> None:
    assert shared.run("version").code == 0
    assert shared.run("nodes").code == 0


def test_1_a_task_failed(machine: Machine) -> None:
    machine.furnish()
    machine.run("sandbox", "fault", "add", "create_vm", "error", "--permanent")
    done = machine.run("deploy", "web.yml")
    assert done.code == 1
    assert "Failed:" in done.out and "web/0" in done.out and "remedy" in done.out
    machine.run("sandbox", "fault", "clear")
    again = machine.run("deploy", "web.yml")
    assert again.code == 0, again.err


@pytest.mark.parametrize(
    "words",
    [
        ("nonsense",),
        ("nodes", "--nonsense"),
        ("deploy",),
        ("deploy", "not-there.yml"),
        ("deploy", "broken.yml"),
        ("plan",),
        ("nodes", "settle", "x"),
        ("tasks", "show", "x"),
        ("stemcells", "add", "a", "1", "--property", "nonsense"),
        ("deploy", "--plan", "web.yml"),
        ("stemcells", "delete", "noversion"),
        ("--timeout", "-1", "nodes"),
        ("nodes", "-o", "xml"),
        ("nodes", "--director", "nonsense"),
        ("nodes", "--state", "bogus"),
        ("tasks", "--state", "bogus"),
        ("groups", "--state", "bogus"),
        ("disks", "--state", "bogus"),
    ],
)
def test_2_usage(shared: Machine, words: tuple[str, ...]) -> None:
    shared.write("broken.yml", MANIFEST.replace("instances: 2", "instances: two"))
    done = shared.run(*words)
    assert done.code == 2, done.err
    assert done.err and not done.out


def test_2_a_bad_setting(machine: Machine) -> None:
    machine.env["COTERIE_WORKERS"] = "many"
    done = machine.run("nodes")
    assert done.code == 2
    assert "COTERIE_WORKERS" in done.err


def test_3_changes_pending_only_when_asked_for(shared: Machine) -> None:
    assert shared.run("plan", "web.yml").code == 0
    assert shared.run("plan", "web.yml", "--exit-code").code == 3


def test_4_refused_without_a_terminal_with_the_command_to_repeat(deployed: Machine) -> None:
    done = deployed.run("delete", "web")
    assert done.code == 4
    assert "coterie delete web --yes" in done.err
    assert len(deployed.run("nodes", "-o", "json").json["items"]) == 2
    deployed.write("web.yml", MANIFEST.replace("instances: 2", "instances: 1"))
    shrink = deployed.run("deploy", "web.yml")
    assert shrink.code == 4
    assert "coterie deploy web.yml --yes" in shrink.err
    refused = deployed.run("stemcells", "delete", "debian-12/1.1", "--yes")
    assert refused.code == 4
    assert "lab" in refused.err


def test_0_what_destroys_nothing_needs_no_yes(deployed: Machine) -> None:
    deployed.write("web.yml", MANIFEST.replace("instances: 2", "instances: 3"))
    assert deployed.run("deploy", "web.yml").code == 0
    assert len(deployed.run("nodes", "-o", "json").json["items"]) == 3


@pytest.mark.parametrize(
    "words",
    [
        ("nodes", "show", "nobody"),
        ("groups", "show", "nothing"),
        ("groups", "show", "cg-nothing"),
        ("tasks", "show", "99"),
        ("tasks", "watch", "99"),
        ("disks", "delete", "nothing", "--yes"),
        ("delete", "nothing", "--yes"),
        ("clouds", "show", "nowhere"),
        ("explain", "no.such.field"),
        ("stemcells", "delete", "a/1", "--yes"),
        ("nodes", "settle", "nothing", "--gone"),
        ("placement", "audit", "nosuch"),
        ("plan", "web.yml", "--node", "nosuch/0"),
        ("sandbox", "fault", "clear", "999"),
        ("placement", "show", "nosuch"),
        ("nodes", "--deployment", "nosuch"),
        ("nodes", "--cloud", "nosuch"),
        ("nodes", "--az", "nosuch"),
        ("nodes", "--group", "nosuch"),
        ("groups", "--deployment", "nosuch"),
        ("disks", "--deployment", "nosuch"),
        ("tasks", "--deployment", "nosuch"),
    ],
)
def test_5_not_found(shared: Machine, words: tuple[str, ...]) -> None:
    done = shared.run(*words)
    assert done.code == 5, done.err
    assert "remedy:" in done.err and "not_found" in done.err


def test_0_a_saved_plan_holds_no_credentials_and_can_be_applied(machine: Machine) -> None:
    machine.furnish()
    machine.write("cloud.yml", CLOUD.replace("driver: sandbox", "driver: sandbox\n  properties: {account: hunter2}"))
    machine.write("web.yml", MANIFEST.replace("  vm_type", "  user_data: hunter3\n  vm_type"))
    shown = machine.run("plan", "web.yml", "--cloud-config", "cloud.yml", "--save", "plan.json", "-o", "json")
    assert shown.code == 0 and "hunter" not in shown.out + shown.err, shown.err
    saved = (machine.folder / "plan.json").read_text()
    assert "hunter2" not in saved and "coterie-sealed" in saved
    done = machine.run("deploy", "--plan", "plan.json", "--yes")
    assert done.code == 0, done.err
    assert "hunter3" not in machine.run("nodes", "show", "web/web/0", "-o", "json").out
    assert "hunter3" not in machine.run("deployments", "manifest", "web").out


def test_6_a_stale_plan_and_a_conflict(deployed: Machine) -> None:
    deployed.write("more.yml", MANIFEST.replace("instances: 2", "instances: 3"))
    assert deployed.run("plan", "more.yml", "--save", "plan.json").code == 0
    assert (deployed.folder / "plan.json").stat().st_mode & 0o777 == 0o600
    deployed.write("other.yml", MANIFEST.replace("instances: 2", "instances: 4"))
    assert deployed.run("deploy", "other.yml").code == 0
    stale = deployed.run("deploy", "--plan", "plan.json", "--yes")
    assert stale.code == 6
    assert "stale_plan" in stale.err
    ended = deployed.run("tasks", "cancel", "1")
    assert ended.code == 6
    assert "task 1" in ended.err


def test_0_a_saved_plan_that_still_holds_is_applied(deployed: Machine) -> None:
    deployed.write("less.yml", MANIFEST.replace("instances: 2", "instances: 1"))
    assert deployed.run("plan", "less.yml", "--save", "plan.json").code == 0
    assert deployed.run("deploy", "--plan", "plan.json").code == 4
    applied = deployed.run("deploy", "--plan", "plan.json", "--yes")
    assert applied.code == 0, applied.err
    assert len(deployed.run("nodes", "-o", "json").json["items"]) == 1


def test_7_unreachable_names_the_address_and_where_it_came_from(machine: Machine) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    machine.env["COTERIE_DIRECTOR"] = url
    done = machine.run("nodes")
    assert done.code == 7
    assert url in done.err and "environment COTERIE_DIRECTOR" in done.err
    assert machine.run("nodes", "--director", f"unix:{machine.folder}/none.sock").code == 7


@pytest.fixture
def on_tcp(machine: Machine) -> Iterator[tuple[Machine, str]]:
    address = f"127.0.0.1:{free_port()}"
    serving = machine.start("director", "--listen", address)
    assert serving.stderr is not None
    said = serving.stderr.readline()
    while "listening" not in said:
        assert said, "the Director ended before it served"
        said = serving.stderr.readline()
    yield machine, address
    serving.send_signal(signal.SIGTERM)
    assert finish(serving).code == 0


def test_8_unauthenticated(on_tcp: tuple[Machine, str]) -> None:
    machine, address = on_tcp
    url = f"http://{address}"
    other = Machine(machine.folder / "elsewhere")
    other.folder.mkdir()
    assert other.run("nodes", "--director", url).code == 8
    other.env["COTERIE_TOKEN"] = "wrong"
    wrong = other.run("nodes", "--director", url)
    assert wrong.code == 8
    assert "COTERIE_TOKEN" in wrong.err
    token = StateFolder(machine.state_folder.path).token
    assert token.stat().st_mode & 0o777 == 0o600
    other.env["COTERIE_TOKEN"] = token.read_text().strip()
    assert other.run("nodes", "--director", url).code == 0
    assert machine.run("nodes", "--director", url).code == 0, "its own machine finds the token by itself"
    assert machine.run("nodes", "--director", f"http://{address.replace('127.0.0.1', '127.0.0.2')}").code == 7


def slow(machine: Machine) -> None:
    machine.furnish()
    machine.run("sandbox", "fault", "add", "create_vm", "hang", "--ms", "600000")


def test_9_time_is_up_and_the_task_goes_on(machine: Machine) -> None:
    slow(machine)
    done = machine.run("deploy", "web.yml", "--timeout", "1")
    assert done.code == 9
    assert "task 1 goes on" in done.err and "coterie tasks watch 1" in done.err
    busy = machine.run("deploy", "web.yml", "--yes")
    assert busy.code == 6
    assert "task 1" in busy.err
    machine.run("sandbox", "fault", "clear")
    assert machine.run("tasks", "watch", "1").code == 0


def test_130_interrupted_and_the_task_goes_on(machine: Machine) -> None:
    slow(machine)
    running = machine.start("deploy", "web.yml")
    assert running.stderr is not None
    while "task.started" not in running.stderr.readline():
        assert running.poll() is None
    os.kill(running.pid, signal.SIGINT)
    done = finish(running)
    assert done.code == 130
    assert "task 1 goes on" in done.err
    machine.run("sandbox", "fault", "clear")
    watched = machine.run("tasks", "watch", "1", "-o", "json")
    assert (watched.code, watched.json["state"]) == (0, "done")


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (400, "usage", 2),
        (422, "invalid_document", 2),
        (422, "invalid_request", 2),
        (409, "refused", 4),
        (404, "not_found", 5),
        (409, "conflict", 6),
        (412, "stale_plan", 6),
        (401, "unauthenticated", 8),
        (502, "authentication_failed", 1),
        (500, "internal", 1),
        (503, "unreachable", 1),
        (413, "too_large", 2),
        (409, "quota_exceeded", 1),
        (409, "group_in_use", 6),
        (503, None, 7),
        (504, None, 7),
        (500, None, 1),
    ],
)
def test_what_the_director_answers_becomes_a_code(status: int, code: str | None, expected: int) -> None:
    assert exit_code(status, code) == expected


def test_an_error_is_json_for_those_who_asked_for_json(shared: Machine) -> None:
    import json

    done = shared.run("nodes", "show", "nobody", "-o", "json")
    assert done.code == 5
    assert json.loads(done.err)["code"] == "not_found"
    assert done.out == ""


def test_state_folder_that_can_not_be_used(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    machine.env["COTERIE_STATE"] = str(tmp_path / "file" / "state")
    done = machine.run("nodes")
    assert done.code == 2
    assert "COTERIE_STATE" in done.err
