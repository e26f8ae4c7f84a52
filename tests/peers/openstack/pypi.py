"""The newest releases in a virtual environment, where Debian's are too old for a question."""

from __future__ import annotations

import shutil
import subprocess
import sys

from tests.peers.openstack.files import write
from tests.peers.openstack.layout import Layout
from tests.peers.openstack.progress import die

_WANTED = ("keystone", "openstack-placement", "glance", "neutron", "nova", "cinder", "PyMySQL", "pyuwsgi")
_SHIPPED = {
    "glance-paste.ini": "etc/glance/glance-api-paste.ini",
    "neutron-paste.ini": "etc/neutron/api-paste.ini",
    "nova-paste.ini": "etc/nova/api-paste.ini",
    "cinder-paste.ini": "etc/cinder/api-paste.ini",
    "cinder-filters.json": "etc/cinder/resource_filters.json",
}


def install(layout: Layout) -> dict[str, str]:
    ready = layout.venv / ".oslab-ready"
    if not ready.exists():
        if not layout.may_install:
            die(f"there is no environment in {layout.venv}, and OSLAB_NO_INSTALL is set")
        pinned = ["-c", layout.constraints] if layout.constraints else []
        _run(layout, sys.executable, "-m", "venv", str(layout.venv))
        _run(layout, layout.python, "-m", "pip", "install", "--prefer-binary", *pinned, *_WANTED)
        freeze = [layout.python, "-m", "pip", "freeze"]
        write(ready, subprocess.run(freeze, check=True, stdout=subprocess.PIPE, text=True).stdout)
    for name, path in _SHIPPED.items():
        shutil.copy(layout.venv / path, layout.path("shipped", name))
    return {"pypi": ready.read_text()}


def _run(layout: Layout, *words: str) -> None:
    with open(layout.path("log", "pip.out"), "ab") as log:
        command = ["nice", "-n", layout.nice, *words]
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True)
