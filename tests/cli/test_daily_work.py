"""Daily work by names: kept disks come back, nodes are stopped and started, deployments are looked at."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import MANIFEST, PROGRAM, Machine


@pytest.fixture
def here(shared: Machine) -> Iterator[Machine]:
    """A deployment `web` of two nodes with disks; nothing is left of it."""
    deployed = shared.run("deploy", "--yes", "web.yml")
    assert deployed.code == 0, deployed.err
    yield shared
    shared.run("delete", "web", "--yes", "--delete-disks")
    shared.run("disks", "delete", "--cloud", "lab", "--yes")


def scale(machine: Machine, instances: int, more: str = "") -> str:
    text = MANIFEST.replace("instances: 2", f"instances: {instances}{more}")
    return machine.write(f"web-{instances}.yml", text)


def states(machine: Machine) -> dict[str, str]:
    return {node["name"]: node["state"] for node in machine.run("nodes", "-o", "json").json["items"]}


def kept(machine: Machine) -> dict[str, str]:
    """CID → intent."""
    found = machine.run("disks", "--state", "kept", "-o", "json").json["items"]
    return {disk["cid"]: disk["intent"] for disk in found}


def test_kept_disks_are_deleted_by_cid_by_several_and_by_deployment(here: Machine) -> None:
    assert here.run("deploy", "--yes", scale(here, 0)).code == 0
    first, second = kept(here)
    refused = here.run("disks", "delete", first, second)
    assert refused.code == 4
    assert f"coterie disks delete {first} {second} --yes" in refused.err
    assert here.run("disks", "delete", "nonsense", "--yes").code == 5
    assert here.run("disks", "delete", "--yes").code == 2
    done = here.run("disks", "delete", first, second, "--yes")
    assert done.code == 0
    assert f"{first} (1024 MiB, was of web/web/" in done.err
    assert kept(here) == {}
    assert here.run("disks", "delete", "--deployment", "web", "--yes").code == 5
    assert here.run("deploy", "--yes", "web.yml").code == 0
    assert here.run("delete", "--yes", "web").code == 0
    assert len(kept(here)) == 2
    assert here.run("disks", "delete", "--deployment", "web", "--yes").code == 0
    assert kept(here) == {}


def test_disks_are_offered_on_a_terminal_and_taken_by_an_option(here: Machine) -> None:
    assert here.run("deploy", "--yes", scale(here, 0)).code == 0
    before = kept(here)
    assert "--reuse-disks" in here.run("plan", "web.yml").out
    assert answer(here, ["y", "y"], "deploy", "web.yml") == 0
    assert kept(here) == {}
    assert here.run("deploy", "--yes", scale(here, 0)).code == 0
    assert kept(here) == before
    assert here.run("deploy", "--yes", "--reuse-disks", "web.yml").code == 0
    assert kept(here) == {}
    assert {disk["cid"] for disk in here.run("disks", "-o", "json").json["items"]} == before.keys()


def answer(machine: Machine, answers: list[str], *words: str) -> int:
    """Run a command on a terminal and type these lines, each as soon as one is asked for; its exit code."""
    outer, inner = pty.openpty()
    environment = {**machine.environment(), "TERM": "dumb"}
    process = subprocess.Popen(
        [*PROGRAM, *words], stdin=inner, stdout=inner, stderr=inner, env=environment, cwd=machine.folder
    )
    os.close(inner)
    shown = b""
    try:
        while chunk := os.read(outer, 65536):
            shown += chunk
            if answers and shown.endswith(b"[y/N]: "):
                os.write(outer, answers.pop(0).encode() + b"\n")
                shown = b""
    except OSError:  # the end of a terminal
        pass
    os.close(outer)
    return process.wait(60)


def test_a_kept_disk_is_attached_by_its_cid(here: Machine) -> None:
    assert here.run("deploy", "--yes", scale(here, 1)).code == 0
    ((cid, _),) = kept(here).items()
    dry = here.run("disks", "attach", cid, "web/web/0", "--dry-run")
    assert f"gets the kept disk {cid} of web/web/1" in dry.out
    assert here.run("disks", "attach", cid, "web/0").code == 4
    assert here.run("disks", "attach", cid, "web/0", "--yes").code == 0
    assert cid not in kept(here)
    assert len(kept(here)) == 1


def test_nodes_are_stopped_started_restarted_and_recreated_by_name(here: Machine) -> None:
    refused = here.run("nodes", "stop", "web/web/1")
    assert (refused.code, "1 to stop" in refused.out) == (4, True)
    assert here.run("nodes", "stop", "web/web/1", "--yes").code == 0
    assert states(here) == {"web/0": "up", "web/1": "stopped"}
    assert "nothing to change" in here.run("plan", "web.yml").out
    assert here.run("nodes", "start", "web/web/1").code == 0
    assert here.run("nodes", "restart", "web/0", "web/1", "--max-in-flight", "2", "--yes").code == 0
    assert here.run("nodes", "recreate", "web/0", "--yes").code == 0
    assert states(here) == {"web/0": "up", "web/1": "up"}
    dry = here.run("nodes", "recreate", "web/0", "--dry-run", "-o", "json").json
    assert [change["action"] for change in dry["changes"]] == ["recreate"]
    assert here.run("nodes", "stop", "web/7", "--yes").code == 5


def test_a_deployment_is_shown_as_a_whole(here: Machine) -> None:
    shown = here.run("deployments", "show", "web")
    assert shown.code == 0
    for words in ("nodes          2 up", "server groups  web", "web                 2  2 up    z1"):
        assert words in shown.out, shown.out
    assert here.run("deployments", "show", "web", "-o", "json").json["nodes"] == {"up": 2}
    assert here.run("deployments", "show", "nonsense").code == 5
    assert here.run("deployments", "manifest", "web").out == MANIFEST


def test_watched_nodes_are_told_one_change_a_line(here: Machine) -> None:
    watching = here.start("nodes", "--watch", "--deployment", "web", "-o", "json", "--timeout", "60")
    assert watching.stdout is not None
    assert [json.loads(watching.stdout.readline())["state"] for _ in range(2)] == ["up", "up"]
    assert here.run("nodes", "stop", "web/web/1", "--yes").code == 0
    give_up, seen = time.monotonic() + 60, ""
    while seen != "stopped" and time.monotonic() < give_up:
        seen = json.loads(watching.stdout.readline())["state"]
    watching.terminate()
    watching.communicate()
    assert seen == "stopped"
    ended = here.run("nodes", "--watch", "--timeout", "0")
    assert (ended.code, ended.out.count("web/web/")) == (9, 2)


def test_a_cloud_config_without_the_cloud_of_kept_disks_names_the_way_out(here: Machine) -> None:
    assert here.run("delete", "--yes", "web").code == 0
    other = here.write("other.yml", Path(here.folder / "cloud.yml").read_text().replace("lab", "own"))
    refused = here.run("clouds", "set", other)
    assert refused.code == 6
    assert "2 kept disks (2048 MiB)" in refused.err
    assert "coterie disks delete --cloud lab" in refused.err
    assert here.run("disks", "delete", "--cloud", "lab", "--yes").code == 0
    assert here.run("clouds", "set", other).code == 0
    assert here.run("clouds", "set", "cloud.yml").code == 0
