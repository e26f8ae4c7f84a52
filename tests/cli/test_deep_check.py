"""A deep check on the simulated datacenter: what every cloud is tried for."""

from __future__ import annotations

from tests.cli.conftest import Machine


def test_a_deep_check_of_a_cloud_tells_each_promise_and_removes_what_it_made(machine: Machine) -> None:
    machine.furnish()
    refused = machine.run("clouds", "check", "lab", "--deep")
    assert (refused.code, "--yes" in refused.err) == (4, True)
    done = machine.run("clouds", "check", "lab", "--deep", "--yes")
    assert done.code == 0, done.out + done.err
    assert {line.split("  ")[0] for line in done.out.splitlines()[1:]} == {
        "members of the server group",
        "placement",
        "survey",
        "disk",
        "living VMs change their server group",
    }
    assert "not possible" in done.out and "failed" not in done.out
    assert machine.run("deployments", "-o", "json").json["items"] == []
    assert machine.run("disks", "-o", "json").json["items"] == []


def test_a_deep_check_that_was_interrupted_is_removed_by_the_next_one(machine: Machine) -> None:
    machine.furnish()
    machine.run("sandbox", "fault", "add", "create_vm", "hang", "--ms", "600000")
    left = machine.run("clouds", "check", "lab", "--deep", "--yes", "--timeout", "0.2")
    machine.run("sandbox", "fault", "clear")
    assert (left.code, "coterie delete deep-check-lab --delete-disks" in left.err) == (9, True)
    for one in machine.run("tasks", "-o", "json").json["items"]:
        machine.run("tasks", "watch", str(one["id"]))
    done = machine.run("clouds", "check", "lab", "--deep", "--yes")
    assert (done.code, "interrupted" in done.err) == (0, True), done.err
    assert machine.run("deployments", "-o", "json").json["items"] == []


def test_a_deployment_of_its_name_that_a_user_made_is_not_touched(machine: Machine) -> None:
    machine.furnish()
    manifest = (machine.folder / "web.yml").read_text().replace("name: web\n", "name: deep-check-lab\n", 1)
    (machine.folder / "mine.yml").write_text(manifest)
    assert machine.run("deploy", "mine.yml").code == 0
    refused = machine.run("clouds", "check", "lab", "--deep", "--yes")
    assert (refused.code, "no deep check made" in refused.err) == (6, True), refused.err
    assert [one["name"] for one in machine.run("deployments", "-o", "json").json["items"]] == ["deep-check-lab"]


def test_options_of_a_deep_check_need_it(machine: Machine) -> None:
    machine.furnish()
    assert machine.run("clouds", "check", "lab", "--az", "z1").code == 2
    assert machine.run("clouds", "check", "--deep").code == 2
