"""The local Director: one per folder however many commands start at once, gone when idle, back after any death."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

from coterie.cli.link import spawn
from coterie.director.process.state_folder import Lock, read_holder
from tests.cli.conftest import MANIFEST, Machine, finish


def pid_of(machine: Machine) -> int:
    holder = read_holder(machine.state_folder.lock)
    assert holder is not None
    return holder.pid


def await_end(machine: Machine) -> None:
    give_up = time.monotonic() + 60
    while read_holder(machine.state_folder.lock) is not None:
        assert time.monotonic() < give_up
        time.sleep(0.05)


def log(machine: Machine) -> list[dict[str, str]]:
    return [json.loads(line) for line in machine.state_folder.log.read_text().splitlines()]


def test_ten_commands_at_once_start_one_director(machine: Machine) -> None:
    running = [machine.start("local", "status", "-o", "json") for _ in range(2)]
    running += [machine.start("nodes", "-o", "json") for _ in range(10)]
    results = [finish(process) for process in running]
    assert [result.code for result in results] == [0] * 12, [result.err for result in results]
    assert sum("listening" in entry["message"] for entry in log(machine)) == 1
    assert machine.run("local", "status", "-o", "json").json["pid"] == pid_of(machine)


def test_directors_that_lose_the_race_for_the_folder_step_back(machine: Machine) -> None:
    assert machine.run("nodes").code == 0
    command = [sys.executable, "-m", "coterie.director", "--local", str(machine.state_folder.path)]
    losers = [subprocess.Popen(command, env=machine.environment()) for _ in range(3)]
    assert [loser.wait(60) for loser in losers] == [0, 0, 0]
    assert sum("listening" in entry["message"] for entry in log(machine)) == 1


def test_the_folder_and_its_files_are_private(machine: Machine) -> None:
    machine.run("nodes")
    state_folder = machine.state_folder
    assert state_folder.path.stat().st_mode & 0o777 == 0o700
    for path in (state_folder.socket, state_folder.ledger, state_folder.log, state_folder.lock):
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_deep_folder_works_as_well(machine: Machine) -> None:
    deep = machine.folder.joinpath(*["a-folder-with-a-long-name"] * 6)
    machine.env["COTERIE_STATE"] = str(deep)
    assert machine.run("nodes").code == 0
    stopped = machine.run("local", "stop", "-o", "json")
    assert stopped.json == {"stopped": True}


def test_it_ends_when_idle_and_the_next_command_starts_another(machine: Machine) -> None:
    machine.env["COTERIE_IDLE_MINUTES"] = "0.005"
    assert machine.run("nodes").code == 0
    await_end(machine)
    assert not machine.state_folder.socket.exists()
    assert any("idle" in entry["message"] for entry in log(machine))
    assert machine.run("nodes").code == 0


def test_it_does_not_end_while_a_task_is_unfinished(machine: Machine) -> None:
    machine.env["COTERIE_IDLE_MINUTES"] = "0.02"
    machine.furnish()
    machine.run("sandbox", "fault", "add", "create_vm", "hang", "--ms", "600000")
    assert machine.run("deploy", "web.yml", "--no-wait").code == 0
    first = pid_of(machine)
    time.sleep(4)  # more than three times the idle time
    assert pid_of(machine) == first
    machine.run("sandbox", "fault", "clear")
    await_end(machine)
    assert [n["state"] for n in machine.run("nodes", "-o", "json").json["items"]] == ["up", "up"]


def test_stop_ends_it_and_a_second_stop_finds_nothing(machine: Machine) -> None:
    machine.run("nodes")
    assert machine.run("local", "status", "-o", "json").json["answers"] is True
    assert machine.run("local", "stop").err == "stopped\n"
    assert machine.run("local", "stop").err == "no local Director runs\n"
    assert machine.run("local", "status", "-o", "json").json == {
        "running": False,
        "folder": str(machine.state_folder.path),
    }


def test_after_kill_9_the_next_command_goes_on_with_the_task_and_says_so(machine: Machine) -> None:
    machine.furnish()
    machine.run("sandbox", "fault", "add", "create_vm", "hang", "--ms", "600000")
    assert machine.run("deploy", "web.yml", "--no-wait").code == 0
    os.kill(pid_of(machine), signal.SIGKILL)
    machine.run("sandbox", "fault", "clear")
    watched = machine.run("tasks", "watch", "1")
    assert watched.code == 0, watched.err
    assert "resumed task 1 (deploy web)" in watched.err
    again = machine.run("nodes", "-o", "json")
    assert "resumed" not in again.err
    assert [node["state"] for node in again.json["items"]] == ["up", "up"]


def test_a_follower_survives_the_death_of_the_director(machine: Machine) -> None:
    machine.furnish()
    machine.run("sandbox", "fault", "add", "create_vm", "hang", "--ms", "600000")
    following = machine.start("deploy", "web.yml")
    assert following.stderr is not None
    seen = ""
    while "group.ready" not in seen:
        line = following.stderr.readline()
        assert line, seen
        seen += line
    os.kill(pid_of(machine), signal.SIGKILL)
    machine.run("sandbox", "fault", "clear")
    done = finish(following)
    assert done.code == 0, done.err
    told = seen + done.err
    assert told.count("task.started") == 1, "events that were seen are not told again"
    assert told.count("node.up") == 2
    assert "task.done" in told


def test_a_start_that_fails_is_explained(machine: Machine) -> None:
    machine.run("nodes")
    machine.run("local", "stop")
    with sqlite3.connect(machine.state_folder.ledger) as database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
        database.execute("UPDATE schema_floor SET oldest = '9999'")  # it did more than add things
    failed = machine.run("nodes")
    assert failed.code == 1
    assert "ledger_too_new" in failed.err and "newer release" in failed.err and "remedy" in failed.err


def test_a_director_of_another_release_is_replaced_when_it_is_idle(machine: Machine) -> None:
    machine.run("nodes")
    first = pid_of(machine)
    pretend_other_release(machine)
    done = machine.run("nodes")
    assert (done.code, "replacing the local Director 0.0.1" in done.err) == (0, True)
    assert pid_of(machine) != first


def test_a_busy_director_of_another_release_is_left_alone(machine: Machine) -> None:
    machine.furnish()
    machine.run("sandbox", "fault", "add", "create_vm", "hang", "--ms", "600000")
    machine.run("deploy", "web.yml", "--no-wait")
    first = pid_of(machine)
    pretend_other_release(machine)
    done = machine.run("nodes")
    assert done.code == 0
    assert "is replaced once task 1 has ended" in done.err
    assert pid_of(machine) == first
    machine.run("sandbox", "fault", "clear")


def pretend_other_release(machine: Machine) -> None:
    note = json.loads(machine.state_folder.lock.read_text())
    machine.state_folder.lock.write_text(json.dumps({**note, "version": "0.0.1"}))


def test_in_the_foreground_it_ends_with_the_command(machine: Machine) -> None:
    machine.write("web.yml", MANIFEST)
    done = machine.run("nodes", "--foreground", "-o", "json")
    assert done.code == 0
    assert read_holder(machine.state_folder.lock) is None
    assert machine.run("local", "status", "-o", "json").json["running"] is False


def test_in_the_foreground_it_ends_even_if_the_command_is_killed(machine: Machine) -> None:
    machine.furnish()
    machine.run("sandbox", "fault", "add", "create_vm", "hang", "--ms", "600000")
    machine.run("local", "stop")
    command = machine.start("deploy", "web.yml", "--foreground")
    assert command.stderr is not None
    while "task.started" not in command.stderr.readline():
        assert command.poll() is None
    command.kill()
    command.communicate(timeout=60)
    machine.run("sandbox", "fault", "clear")
    await_end(machine)


def test_one_that_is_ending_is_waited_for(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.state_folder.prepare()
    ending = Lock(machine.state_folder.lock)
    assert ending.take()
    started = machine.start("nodes", "-o", "json")
    time.sleep(1)
    assert started.poll() is None
    ending.release()
    try:
        assert finish(started).code == 0
        assert spawn.answers(machine.state_folder)
    finally:
        machine.close()
