"""`make demo-real`: a deployment on real machines, by the commands that it shows, from nothing to nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from coterie.stemcell.tiny.build import build_stemcell
from tests.peers.incus import packages
from tests.peers.incus.cluster import Cluster

_EXAMPLES = Path(__file__).parents[3] / "examples" / "incus"
_PROGRAM = (sys.executable, "-P", "-c", "from coterie.cli.main import main; main()")
_CONTROLLERS = ("10.78.1.10", "10.78.1.11", "10.78.1.12")
_WORD = "from-before-the-crash"


def play(cluster: Cluster) -> None:
    lacking = packages.missing()
    if os.getuid() != 0:
        raise SystemExit("the demonstration starts members in namespaces of this machine, so it needs root")
    if lacking:
        raise SystemExit(f"this machine lacks what the cluster needs; install it by\n  {lacking}")
    if cluster.runs():
        raise SystemExit(
            f"a cluster of another test runs in {cluster.folder}; `python -m tests.peers.incus down` ends it"
        )
    began = time.monotonic()
    try:
        _say("Three members of a real Incus cluster, each in namespaces of its own")
        cluster.start()
        with tempfile.TemporaryDirectory(prefix="coterie-demo-") as folder:
            _Story(cluster, Path(folder)).tell()
    finally:
        cluster.stop()
    _say(f"Nothing is left: no member, no machine, no network. {time.monotonic() - began:.0f} s")


class _Story:
    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster = cluster
        self._folder = folder
        own = {name: value for name, value in os.environ.items() if not name.startswith("COTERIE_")}
        state = {"COTERIE_STATE": str(folder / "state"), "COTERIE_CONFIG": str(folder / "no-config.toml")}
        self._environment = {**own, **state}

    def tell(self) -> None:
        self._write()
        try:
            self._deploy()
            self._lose_a_member()
            self._delete()
        finally:
            self._coterie("-q local stop", check=False)

    def _deploy(self) -> None:
        _say("A cloud to deploy on, and a stemcell of one megabyte")
        self._coterie("clouds set cloud.yml")
        self._coterie("stemcells upload tiny.tgz")
        _say(
            "Three controllers never on one member, three brokers spread; each must answer HTTP before it counts as up"
        )
        self._coterie("deploy kafka.yml --yes")
        self._coterie("placement audit kafka")
        _say("What the machines see from the inside")
        for ip in _CONTROLLERS:
            print(f"$ curl http://{ip}/facts\n{_get(ip, '/facts')}", end="")
        _say("A controller writes onto its disk")
        said = _get(_CONTROLLERS[1], f"/cgi-bin/write?{_WORD}")
        print(f"$ curl http://{_CONTROLLERS[1]}/cgi-bin/write?{_WORD}\n{said}", end="")

    def _lose_a_member(self) -> None:
        member = self._member_of(_CONTROLLERS[1])
        _say(f"Member {member} loses its power, and with it all its machines")
        self._cluster.crash(member)
        entry = next(name for name in ("inc1", "inc2", "inc3") if name != member)
        self._cluster.await_status(member, "Offline", entry)
        self._use(entry)
        self._coterie("look", check=False)
        self._coterie("nodes")
        _say("It comes back; its machines do not start by themselves. The next deploy makes them anew, with their data")
        self._cluster.rejoin(member, entry)
        for _ in range(3):  # a machine that is down is made anew after three looks
            self._coterie("-q look", check=False)
        self._coterie("deploy kafka.yml --yes")
        self._coterie("nodes")
        facts = _get(_CONTROLLERS[1], "/facts", _WORD)
        print(f"$ curl http://{_CONTROLLERS[1]}/facts\n{facts}", end="")
        if _WORD not in facts:
            raise SystemExit("the data is gone: this is a defect, report it, please")

    def _delete(self) -> None:
        _say("Delete everything, disks too")
        self._coterie("delete kafka --delete-disks --yes")
        self._coterie("stemcells delete tiny/1 --yes", check=False)
        left = self._cluster.call("GET", "/1.0/instances") + self._cluster.call("GET", _VOLUMES)
        if left:
            raise SystemExit(f"the cluster still has {left}: this is a defect, report it, please")

    def _member_of(self, ip: str) -> str:
        for row in self._cluster.call("GET", "/1.0/instances?recursion=1"):
            if f'"ip":"{ip}"' in row["config"].get("user.user-data", ""):
                return str(row["location"])
        raise SystemExit(f"no machine has {ip}")

    def _use(self, member: str) -> None:
        """Another member's socket, where the first one's is gone."""
        path = self._folder / "cloud.yml"
        text = path.read_text()
        changed = text.replace(self._cluster.socket("inc1"), self._cluster.socket(member))
        if changed != text:
            path.write_text(changed)
            self._coterie("clouds set cloud.yml --yes")

    def _write(self) -> None:
        cloud = (_EXAMPLES / "cloud.yml").read_text()
        cloud = cloud.replace("/var/tmp/coterie-incus/inc1/lib/unix.socket", self._cluster.socket())
        if Path("/sys/fs/cgroup/memory").exists():  # liblxc fails to set limits in cgroups of version 1
            cloud = cloud.replace("memory_limits: true", "memory_limits: false")
        (self._folder / "cloud.yml").write_text(cloud)
        (self._folder / "kafka.yml").write_text((_EXAMPLES / "kafka.yml").read_text())
        build_stemcell(self._folder / "tiny.tgz", Path("/bin/busybox"), os.uname().machine)

    def _coterie(self, words: str, *, check: bool = True) -> None:
        if not words.startswith("-q"):
            print(f"$ coterie {words}", flush=True)
        done = subprocess.run([*_PROGRAM, *words.split()], env=self._environment, cwd=self._folder, check=False)
        if check and done.returncode:
            raise SystemExit(f"the demonstration stopped at: coterie {words} ({done.returncode})")


_VOLUMES = "/1.0/storage-pools/local/volumes/custom"


def _get(ip: str, path: str, word: str = "") -> str:
    """What it answers; for some seconds again if it lacks the word, since the guest writes its facts each second."""
    give_up = time.monotonic() + 10
    while True:
        try:
            with urllib.request.urlopen(f"http://{ip}{path}", timeout=2) as answer:
                found = str(answer.read().decode())
            if word in found or time.monotonic() > give_up:
                return found
            time.sleep(0.2)
        except OSError as error:
            if time.monotonic() > give_up:
                raise SystemExit(f"http://{ip}{path} does not answer: {error}") from error
            time.sleep(0.2)


def _say(title: str) -> None:
    print(f"\n▶ {title}", flush=True)
