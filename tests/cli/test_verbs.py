"""What the verbs do to a deployment, told as a user would do it."""

from __future__ import annotations

import io
import json
import select
import signal
import subprocess
import tarfile
from pathlib import Path

from tests.cli.conftest import CLOUD, MANIFEST, Machine, finish


def test_a_day_with_a_deployment(machine: Machine) -> None:
    machine.write("cloud.yml", CLOUD)
    machine.write("web.yml", MANIFEST)
    _upload(machine)
    dry = machine.run("deploy", "web.yml", "--cloud-config", "cloud.yml", "--dry-run")
    assert "4 to create" in dry.out
    assert machine.run("tasks", "-o", "json").json["items"] == [], "a dry run starts nothing"

    made = machine.run("deploy", "web.yml", "--cloud-config", "cloud.yml")
    assert made.code == 0, made.err
    assert made.err.count("node.up") == 2
    assert "Task 1 (deploy web): done" in made.out

    again = machine.run("deploy", "web.yml")
    assert again.code == 0
    assert "nothing to change" in again.out

    quiet = machine.run("deploy", "web.yml", "-q")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")

    as_json = machine.run("deploy", "web.yml", "-o", "json", "--no-wait")
    assert as_json.json["kind"] == "deploy"

    assert machine.run("nodes", "show", "web/web/1").code == 0
    shown = machine.run("nodes", "show", "web/1")
    assert "127.0.0." in shown.out and "disk" in shown.out
    (group,) = machine.run("groups", "-o", "json").json["items"]
    for name in ("web", "web/web", group["cid"]):
        assert machine.run("groups", "show", name, "-o", "json").json["live"]["data"]["state"] == "live"
    assert "verdict     holds" in machine.run("placement", "audit").out
    assert "z1-r1" in machine.run("placement", "show", "web").out
    assert machine.run("deployments", "manifest", "web").out == MANIFEST

    gone = machine.run("delete", "web", "--yes")
    assert gone.code == 0, gone.err
    (first, second) = machine.run("disks", "-o", "json").json["items"]
    assert {first["state"], second["state"]} == {"kept"}
    assert machine.run("disks", "delete", first["intent"]).code == 4
    assert machine.run("disks", "delete", first["intent"], "--yes").code == 0
    assert len(machine.run("disks", "-o", "json").json["items"]) == 1


def _upload(machine: Machine) -> None:
    _pack(machine, "name: debian-12\nversion: '1.1'\n")
    assert machine.run("stemcells", "upload", "stemcell.tgz").code == 0
    (stored,) = machine.run("stemcells", "-o", "json").json["items"]
    assert (stored["name"], stored["version"], stored["light"]) == ("debian-12", "1.1", False)


def _pack(machine: Machine, facts: str) -> None:
    with tarfile.open(machine.folder / "stemcell.tgz", "w:gz") as archive:
        for name, content in (("stemcell.MF", facts.encode()), ("image", b"x" * 5000)):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def test_a_manifest_names_an_operating_system_instead_of_a_stemcell(machine: Machine) -> None:
    machine.furnish()
    for version in ("1.10", "1.9"):
        _pack(machine, f"name: debian-12\nversion: '{version}'\noperating_system: debian-12\n")
        assert machine.run("stemcells", "upload", "stemcell.tgz").code == 0
    assert machine.run("stemcells", "add", "image", "2", "--os", "arch", "--property", "image=x").code == 0
    shown = machine.run("stemcells").out
    assert "OS" in shown and "arch" in shown
    named = MANIFEST.replace('name: debian-12, version: "1.1"', "os: debian-12, version: latest")
    machine.write("web.yml", named)
    assert "debian-12/1.10@lab" in machine.run("plan", "web.yml").out
    machine.write("web.yml", named.replace("os: debian-12", "os: arch"))
    assert "image/2@lab" in machine.run("plan", "web.yml").out
    machine.write("web.yml", named.replace("os: debian-12", "os: beos"))
    missing = machine.run("plan", "web.yml")
    assert missing.code == 4 and "with os beos, version latest is not in the catalogue" in missing.err


def test_all_mistakes_are_shown_with_their_places(machine: Machine) -> None:
    machine.write("cloud.yml", CLOUD)
    machine.write("web.yml", MANIFEST.replace("vm_type: small", "vm_type: huge").replace("azs: [z1]", "azs: [z9]"))
    done = machine.run("plan", "web.yml", "--cloud-config", "cloud.yml")
    assert done.code == 2
    assert "web.yml:7:" in done.err and "web.yml:8:" in done.err
    assert "huge" in done.err and "z9" in done.err
    machine.write("web.yml", MANIFEST.replace("instances: 2", "instances: two").replace("stemcell:", "stemcel:"))
    alone = machine.run("plan", "web.yml")
    assert alone.code == 2
    assert "web.yml:6:" in alone.err and "stemcel" in alone.err and "no cloud config is set" in alone.err
    told = json.loads(machine.run("plan", "web.yml", "-o", "json").err)
    assert len(told["mistakes"]) == 3 and "stemcel" not in told["detail"] + told["why"], told


def test_a_broken_promise_is_code_1(machine: Machine) -> None:
    machine.furnish()
    machine.run("deploy", "web.yml")
    (group,) = machine.run("groups", "-o", "json").json["items"]
    live = machine.run("groups", "show", group["cid"], "-o", "json").json["live"]["data"]
    cid = next(one["cid"] for one in live["resources"] if one["kind"] == "server_group")
    assert machine.run("sandbox", "operator", "delete-group", cid, "--yes").code == 0
    audited = machine.run("placement", "audit")
    assert audited.code == 1
    assert "broken" in audited.out


def test_events_are_listed_and_followed(machine: Machine) -> None:
    machine.furnish()
    following = machine.start("events", "--follow", "-o", "json")
    assert following.stdout is not None
    while not select.select([following.stdout], [], [], 0)[0]:
        # It prints events from its connection on, at an unknown moment: so events are produced until it prints one.
        assert machine.run("deploy", "web.yml").code == 0
    assert json.loads(following.stdout.readline())["task"] >= 1
    following.send_signal(signal.SIGINT)
    assert finish(following).code == 130
    assert "task.done" in machine.run("events", "--task", "1").out
    listed = machine.run("events")
    assert listed.out.index("task.started") < listed.out.index("task.done")
    assert [machine.run("look").code for _ in range(2)] == [0, 0]
    newest = machine.run("events", "--limit", "4").out.splitlines()
    assert len(newest) == 4 and any("task.done" in one for one in newest), "what looks do takes no place"
    shown = [(one["kind"], one["subject"]) for one in machine.run("events", "--limit", "4", "-o", "json").json["items"]]
    assert len(shown) == 4 and shown.count(("audit", "/v1/looks")) == 2
    assert "task.done" in dict(shown), "a request may be noted after its task has ended"
    everything = machine.run("events", "--limit", "2", "-o", "json", "--all").json["items"]
    assert "look" in [one["subject"] for one in everything]
    followed = machine.run("events", "--task", "1", "--follow", "-o", "json")
    kinds = [json.loads(line)["kind"] for line in followed.out.splitlines()]
    assert (kinds[0], kinds[-1], followed.code) == ("task.started", "task.done", 0)
    assert machine.run("events", "--follow", "--timeout", "0.1").code == 9
    assert machine.run("events", "--follow", "--kind", "audit", "--timeout", "0.1").code == 9
    assert machine.run("events", "--task", "1", "--kind", "audit").code == 2


def test_a_task_can_be_cancelled(machine: Machine) -> None:
    machine.furnish()
    machine.run("sandbox", "fault", "add", "create_vm", "hang", "--ms", "600000")
    machine.run("deploy", "web.yml", "--no-wait")
    while "create_vm" not in (shown := machine.run("tasks", "show", "1").out):
        assert "running" in shown
    (works,) = [line for line in shown.splitlines() if "create_vm" in line]
    assert works.startswith("web/0") and "1000000" not in shown and " all" in shown
    assert machine.run("tasks", "cancel", "1", "--no-wait").code == 0
    assert machine.run("tasks", "show", "1", "-o", "json").json["state"] == "cancelling"
    machine.run("sandbox", "fault", "clear")
    assert machine.run("tasks", "watch", "1").code == 1
    assert machine.run("tasks", "show", "1", "-o", "json").json["state"] == "cancelled"


def test_a_manifest_may_come_from_standard_input(machine: Machine) -> None:
    from tests.cli.conftest import PROGRAM

    machine.furnish()
    done = subprocess.run(
        [*PROGRAM, "plan", "-"], input=MANIFEST, env=machine.environment(), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "4 to create" in done.stdout


def test_a_manifest_that_is_no_text_is_told(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    assert "not UTF-8" in machine.run("plan", "binary").err
    (tmp_path / "large").write_bytes(b"#" * (4 * 2**20 + 1))
    assert "larger than 4 MiB" in machine.run("plan", "large").err
