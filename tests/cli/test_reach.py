"""Reaching machines: the real ssh judges the settings, and a program in its place shows what it is given."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator

import pytest

from tests.cli.conftest import MANIFEST, Machine

SSH = "ssh: {user: debian, port: 2222, jump_host: ops@bastion.example, identity_file: ~/.ssh/web}\n"


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    machine = Machine(tmp_path_factory.mktemp("machine"))
    machine.furnish()
    machine.write("web.yml", MANIFEST + SSH)
    assert machine.run("deploy", "-y", "web.yml").code == 0
    yield machine
    machine.close()


def test_ssh_gets_what_the_manifest_says(deployed: Machine) -> None:
    programs = deployed.folder / "bin"
    programs.mkdir()
    (programs / "ssh").write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    (programs / "ssh").chmod(0o755)
    deployed.env["PATH"] = f"{programs}:{os.environ['PATH']}"
    try:
        words = deployed.run("ssh", "web/0", "--", "uname", "-a").out.split("\n")
    finally:
        del deployed.env["PATH"]
    (node,) = [one for one in deployed.run("nodes", "-o", "json").json["items"] if one["name"] == "web/0"]
    address = node["addresses"]["default"]
    assert words[:5] == ["-p", "2222", "-o", f"HostKeyAlias={node['vm_cid']}", "-J"]
    key = str(deployed.folder / ".ssh/web")
    assert words[5:] == ["ops@bastion.example", "-i", key, "-l", "debian", "--", address, "uname", "-a", ""]


def test_the_real_ssh_understands_the_settings(deployed: Machine) -> None:
    deployed.write("config", deployed.run("ssh-config", "--deployment", "web").out)
    done = subprocess.run(
        ["ssh", "-G", "-F", "config", "web/web/1"], cwd=deployed.folder, capture_output=True, text=True, check=True
    )
    read = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    assert re.fullmatch(r"127\.0\.0\.\d+", read["hostname"])
    assert (read["user"], read["port"], read["proxyjump"]) == ("debian", "2222", "ops@bastion.example")


def test_the_inventory_has_the_form_of_ansibles_scripts(deployed: Machine) -> None:
    found = deployed.run("inventory", "--list").json
    assert found["deployment_web"]["hosts"] == ["web/web/0", "web/web/1"]
    assert found["group_web_web"] == found["az_z1"] == found["state_up"] == found["deployment_web"]
    assert set(found["all"]["children"]) == set(found) - {"_meta", "all"} | {"ungrouped"}
    variables = found["_meta"]["hostvars"]["web/web/0"]
    assert variables["ansible_user"] == "debian" and "-J ops@bastion.example" in variables["ansible_ssh_common_args"]
    assert deployed.run("inventory", "--host", "web/web/0").json == variables


@pytest.mark.parametrize("bad", ["-oProxyCommand=x", "a b", "x\\ny", "$(id)"])
def test_what_ssh_could_take_for_an_option_is_refused(deployed: Machine, bad: str) -> None:
    deployed.write("bad.yml", MANIFEST + f'ssh: {{jump_host: "{bad}"}}\n')
    done = deployed.run("plan", "bad.yml")
    assert done.code == 2 and "ssh.jump_host" in done.err
