"""The programs: Debian's packages, and of some only the files that they ship."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

from tests.peers.openstack.files import write
from tests.peers.openstack.layout import Layout
from tests.peers.openstack.progress import die

_WANTED = [
    *("python3-keystone", "python3-placement", "python3-glance", "python3-neutron", "python3-nova", "python3-cinder"),
    *("python3-pymysql", "uwsgi-core", "uwsgi-plugin-python3"),
    *("rabbitmq-server", "mariadb-server-core", "mariadb-client-core"),
]
# Wanted for single files, not for their users, daemons and maintainer scripts: unpacked, never installed.
_UNPACKED = ["glance-common", "neutron-common", "nova-common", "cinder-common"]
_SHIPPED = {
    "glance-paste.ini": "usr/share/glance-common/glance-api-paste.ini",
    "neutron-paste.ini": "usr/share/neutron-common/api-paste.ini",
    "nova-paste.ini": "usr/share/nova-common/api-paste.ini",
    "cinder-paste.ini": "usr/share/cinder-common/api-paste.ini",
    "cinder-filters.json": "etc/cinder/resource_filters.json",
}
_POLICY = Path("/usr/sbin/policy-rc.d")  # keeps a package from starting its daemon on the standard port
_LOCK = ["-o", "DPkg::Lock::Timeout=900"]


def install(layout: Layout) -> dict[str, str]:
    """The versions of everything, after it was installed where it was missing."""
    versions = _installed(_WANTED)
    if not versions:
        if not layout.may_install:
            die("packages are missing, and OSLAB_NO_INSTALL is set")
        _apt(layout, _WANTED)
        versions = _installed(_WANTED) or die("packages are still missing after apt-get")
    _unpack(layout, versions)
    return versions


def _installed(names: list[str]) -> dict[str, str] | None:
    query = ["dpkg-query", "-W", "-f", "${binary:Package} ${db:Status-Status} ${Version}\n", *names]
    found = subprocess.run(query, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout
    rows = [line.split() for line in found.splitlines()]
    versions = {row[0].split(":")[0]: row[2] for row in rows if len(row) == 3 and row[1] == "installed"}
    return versions if set(names) <= set(versions) else None


def _apt(layout: Layout, names: list[str]) -> None:
    sudo = [] if os.getuid() == 0 else ["sudo", "-n", "DEBIAN_FRONTEND=noninteractive"]
    options = ["-q", "-y", *_LOCK, "-o", "Dpkg::Use-Pty=0", "-o", "Dpkg::Options::=--force-unsafe-io"]
    mine = os.getuid() == 0 and not _POLICY.exists()
    if mine:
        write(_POLICY, "#!/bin/sh\nexit 101\n", 0o755)
    try:
        for words in (["update"], ["install", "--no-install-recommends", *names]):
            _logged(layout, ["nice", "-n", layout.nice, *sudo, "apt-get", *options, *words])
    finally:
        if mine:
            _POLICY.unlink()


def _unpack(layout: Layout, versions: dict[str, str]) -> None:
    here = Path(layout.path("shipped"))
    key = hashlib.sha256(json.dumps(versions).encode()).hexdigest()[:16]
    kept = layout.cache / f"shipped-{key}" if layout.cache else None
    if all((here / name).exists() for name in _SHIPPED):
        return
    if not (kept and all((kept / name).exists() for name in _SHIPPED)):
        kept = _download(layout, kept or Path(layout.path("tmp/shipped")))
    for name in _SHIPPED:
        shutil.copy(kept / name, here / name)


def _download(layout: Layout, target: Path) -> Path:
    folder = Path(layout.path("tmp", "debs"))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    get = ["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", *_UNPACKED]
    try:
        _logged(layout, get, folder)
    except subprocess.CalledProcessError:  # the lists of packages are too old
        _logged(layout, ["apt-get", "-q", *_LOCK, "update"])
        _logged(layout, get, folder)
    for package in folder.glob("*.deb"):
        _logged(layout, ["dpkg-deb", "-x", str(package), str(folder / "x")])
    target.mkdir(parents=True, exist_ok=True)
    for name, path in _SHIPPED.items():
        shutil.copy(folder / "x" / path, target / name)
    shutil.rmtree(folder)
    return target


def _logged(layout: Layout, words: list[str], folder: Path | None = None) -> None:
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LANG": "C.UTF-8"}
    with open(layout.path("log", "apt.out"), "ab") as log:
        subprocess.run(words, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True)
