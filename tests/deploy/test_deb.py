"""The Debian package, as `make test-packages` builds it, is installed, used, upgraded and removed on a
copy-on-write view of this machine. No systemd runs there: a program in its place notes what it is told."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

DEB = os.environ.get("COTERIE_DEB", "")
UNITS = sorted(file.name for file in (Path(__file__).parents[2] / "deploy" / "systemd").glob("*.service"))
VIEW = """
set -e
mount -t tmpfs view "$1" && mkdir "$1/changed" "$1/work" "$1/root"
mount -t overlay view -o "lowerdir=/,upperdir=$1/changed,workdir=$1/work" "$1/root"
for folder in dev proc; do mount --rbind "/$folder" "$1/root/$folder"; done
mount -t tmpfs tmp "$1/root/tmp"
rm -rf "$1/root/run/systemd"
echo ready
exec sleep 3600
"""
SYSTEMCTL = """#!/bin/sh
echo "$@" >> /tmp/systemctl.log
[ "$1" != list-units ] || printf 'coterie-director.service loaded\\ncoterie-conductor@a.service loaded\\n'
"""


class View:
    def __init__(self, holder: int, root: Path) -> None:
        self._holder, self._root = holder, root

    def run(self, script: str) -> str:
        """As root, with the environment of a login."""
        command = ["nsenter", "-t", str(self._holder), "-m", "chroot", str(self._root), "sh", "-euc", script]
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "TERM": "dumb"}
        done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout

    def has(self, path: str) -> bool:
        return self.run(f"test -e {path} && echo yes || echo no") == "yes\n"


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> Iterator[View]:
    if not DEB:
        pytest.skip("needs the package that `make test-packages` builds")
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("only root can make a view of this machine")
    folder = tmp_path_factory.mktemp("view")
    holder = subprocess.Popen(["unshare", "-m", "sh", "-c", VIEW, "sh", str(folder)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        if holder.stdout.readline() != "ready\n":
            pytest.skip("this machine takes no overlay")
        made = View(holder.pid, folder / "root")
        shutil.copy(DEB, f"/proc/{holder.pid}/root{folder}/root/tmp/coterie.deb")
        made.run("dpkg --install /tmp/coterie.deb")
        yield made
    finally:
        holder.kill()
        holder.wait()


def test_the_commands_work_for_every_user(view: View) -> None:
    assert view.run("dpkg-query --show --showformat '${Status}' coterie") == "install ok installed"
    told = view.run("cd /tmp && COTERIE_STATE=/tmp/demo runuser -u nobody -- coterie demo")
    assert "as empty as before" in told
    request = '{"method": "info", "arguments": [], "context": {}}'
    view.run("""echo '{"driver": "sandbox", "properties": {"state": "/tmp/s.db"}}' > /tmp/cpi.json""")
    answer = json.loads(view.run(f"echo '{request}' | coterie-cpi --config /tmp/cpi.json"))
    assert answer["error"] is None and answer["result"]["api_version"]


def test_every_driver_has_what_it_needs(view: View) -> None:
    drivers = "botocore, azure.identity, keystoneauth1, pyVmomi, opentelemetry.sdk"
    view.run(f"cd / && /opt/coterie/bin/python3 -I -c 'import {drivers}'")


def test_services_have_their_user_folder_and_units(view: View) -> None:
    assert view.run("getent passwd coterie").endswith(":/var/lib/coterie:/usr/sbin/nologin\n")
    assert view.run("stat -c '%a %U %G' /etc/coterie") == "750 root coterie\n"
    assert view.run("cd /lib/systemd/system && ls coterie-*").split() == UNITS
    for unit in UNITS:
        text = view.run(f"cat /lib/systemd/system/{unit}")
        (program,) = (line.removeprefix("ExecStart=").split()[0] for line in text.splitlines() if "ExecStart=" in line)
        (page,) = (line.partition("file:")[2] for line in text.splitlines() if line.startswith("Documentation="))
        assert view.has(program) and view.has(page)
    assert view.run("ls /opt/coterie/examples").split() == ["conductor.env", "director.env"]


def test_nothing_of_the_machine_that_built_it_is_inside(view: View) -> None:
    root = Path(__file__).parents[2]
    assert view.run(f"grep -rlF {root} /opt/coterie || true") == ""
    owners = view.run("find /opt/coterie /usr/bin/coterie ! -user root -o ! -group root")
    assert owners == ""
    assert view.run("find /opt/coterie -type f -perm /022") == ""


def test_an_upgrade_stops_what_runs_and_starts_it_again(view: View) -> None:
    view.run("mkdir -p /run/systemd/system")
    view.run(f"cat > /usr/local/sbin/systemctl <<'END'\n{SYSTEMCTL}END\nchmod +x /usr/local/sbin/systemctl")
    view.run("PATH=/usr/local/sbin:$PATH dpkg --install /tmp/coterie.deb")
    both = "coterie-director.service coterie-conductor@a.service"
    _, *told = view.run("cat /tmp/systemctl.log").splitlines()
    assert told == [f"stop {both}", "daemon-reload", f"start {both}"]
    assert view.run("coterie version")


def test_what_is_removed_is_gone_but_for_keys_and_settings(view: View) -> None:
    view.run("mkdir -p /var/lib/coterie && touch /etc/coterie/director.env /var/lib/coterie/conductor.key")
    view.run("rm -f /tmp/systemctl.log && PATH=/usr/local/sbin:$PATH dpkg --remove coterie")
    assert view.run("tail -n 1 /tmp/systemctl.log").startswith("stop ")
    gone = ["/opt/coterie", "/usr/bin/coterie", "/lib/systemd/system/coterie-director.service", "/run/coterie.stopped"]
    assert [path for path in gone if view.has(path)] == []
    assert view.has("/etc/coterie/director.env") and view.has("/var/lib/coterie/conductor.key")
