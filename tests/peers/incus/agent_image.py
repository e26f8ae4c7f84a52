"""An image for the tests of BOSH: the tiny stemcell with the real BOSH agent inside, on the agent's `dummy` platform,
which reads the settings that Incus writes into the guest. It logs to where the guest's HTTP server has its files."""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

from coterie.stemcell.tiny.build import build

_INIT = """#!/bin/sh
export PATH=/bin:/sbin
settings=/var/vcap/bosh/settings.json
base=/var/vcap/agent
mkdir -p $base/bosh
ip=$(sed -n 's/.*"ip":"\\([^"]*\\)".*/\\1/p' $settings)
syslogd -O /dev/null  # the agent wants one
leased='{"ip":"'$ip'","netmask":"255.255.0.0","gateway":"127.0.0.1"}'
echo "$leased" > $base/bosh/dummy-default-network-settings.json
cd $base && bosh-agent -P dummy -M dummy -b $base -C /etc/agent.json > /www/agent.log 2>&1 &
exec /sbin/tiny-init
"""
_CONFIG = """{"Infrastructure": {"Settings": {"Sources": [
  {"Type": "File", "SettingsPath": "/var/vcap/bosh/settings.json"}]}}}
"""


def build_with_agent(out: Path, agent: Path, version: str) -> None:
    """`version`: of the stemcell, so that two differ."""
    plain = out.with_name("tiny.tgz")
    build(plain, Path("/bin/busybox"), "x86_64")
    with tarfile.open(plain) as source, tarfile.open(out, "w:gz") as target:
        for entry in source:
            if entry.name == "rootfs/sbin/init":
                entry.name = "rootfs/sbin/tiny-init"
            target.addfile(entry, source.extractfile(entry) if entry.isreg() else None)
        _add(target, "rootfs/sbin/init", _INIT.encode(), 0o755)
        _add(target, "rootfs/etc/agent.json", _CONFIG.encode())
        _add(target, "rootfs/etc/stemcell-version", version.encode())
        _add(target, "rootfs/bin/bosh-agent", agent.read_bytes(), 0o755)
        for library in _libraries(agent):
            _add(target, f"rootfs{library}", library.read_bytes(), 0o755)
    plain.unlink()


def _libraries(program: Path) -> Iterator[Path]:
    listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
    for found in re.findall(r"(/\S+) \(0x", listed):
        yield Path(found)


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))
