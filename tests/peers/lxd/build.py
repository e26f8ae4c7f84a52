"""Builds LXD and prints the folder that it is in: LXD's own source of one version, as Go's module proxy gives it, on
libraries of Debian 12, and dqlite of Debian 13. Installs nothing. Needs Go and gcc; the first time takes minutes."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.peers.incus.packages import apt, codename, sources

MODULE, VERSION = "github.com/canonical/lxd", "v0.0.0-20241209155119-76da976c6ee7"  # LXD 6.2
# the proxy lacks the version that LXD names
_OTHERS = ("github.com/openfga/api/proto@v0.0.0-20241230191130-b61b4ea28b71",)
_HEADERS = ("libuv1-dev", "liblz4-dev", "lxc-dev", "libcap-dev", "libacl1-dev", "libattr1-dev", "libudev-dev")
_LIBRARIES = (
    "libuv.so.1",
    "liblz4.so.1",
    "libsqlite3.so.0",
    "liblxc.so.1",
    "libcap.so.2",
    "libacl.so.1",
    "libudev.so.1",
)
_ARCHITECTURE = "x86_64-linux-gnu"
# Debian 13's archive of dqlite names functions of its newer glibc.
_NEWER = """
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
long __isoc23_strtol(const char *s, char **end, int base) { return strtol(s, end, base); }
unsigned long long __isoc23_strtoull(const char *s, char **end, int base) { return strtoull(s, end, base); }
int __isoc23_sscanf(const char *s, const char *format, ...) {
    va_list all;
    va_start(all, format);
    int found = vsscanf(s, format, all);
    va_end(all);
    return found;
}
"""


def build() -> Path:
    if codename() != "bookworm":
        raise SystemExit("LXD is built on Debian 12 only")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "coterie" / "lxd"
    folder = cache / hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "lxc").exists():
            with tempfile.TemporaryDirectory(prefix="coterie-lxd-") as work:
                _build(Path(work), folder)
    return folder


def _build(work: Path, folder: Path) -> None:
    libraries = _unpack(work)
    source = work / "source"
    _run(work, "go", "mod", "download", f"{MODULE}@{VERSION}")
    modules = _run(work, "go", "env", "GOMODCACHE").strip()
    shutil.copytree(f"{modules}/{MODULE}@{VERSION}", source)
    for path in (source, *source.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)
    _run(source, "go", "mod", "edit", *(f"-require={one}" for one in _OTHERS))
    env = {
        "GOFLAGS": "-mod=mod -trimpath",
        "CGO_CFLAGS": f"-O2 -Wno-error -isystem {work}/root/usr/include",
        "CGO_LDFLAGS": f"-L{libraries} -Wl,--start-group -ldqlite -lnewer -lsqlite3 -luv -llz4 -Wl,--end-group",
        "CGO_LDFLAGS_ALLOW": "-Wl,-wrap,pthread_create|-Wl,-z,now|-Wl,--(start|end)-group",
        "PKG_CONFIG_PATH": str(libraries),
    }
    folder.mkdir(exist_ok=True)
    for name, tags in (("lxd", "libsqlite3"), ("lxc", "")):
        _run(source, "go", "build", "-tags", tags, "-o", str(folder / name), f"./{name}", **env)


def _unpack(work: Path) -> Path:
    """Headers and archives, beside names by which the linker finds the machine's own libraries."""
    root, libraries, packages = work / "root", work / "libraries", work / "packages"
    libraries.mkdir()
    packages.mkdir()
    options = sources(work, "trixie")
    apt(options, "update")
    apt([], "download", *_HEADERS, cwd=packages)
    apt(options, "download", "libdqlite-dev", cwd=packages)
    for package in packages.glob("*.deb"):
        _run(work, "dpkg", "-x", str(package), str(root))
    shutil.copy(root / "usr/lib" / _ARCHITECTURE / "libdqlite.a", libraries)
    for name in _LIBRARIES:
        (libraries / f"{name.partition('.')[0]}.so").symlink_to(f"/usr/lib/{_ARCHITECTURE}/{name}")
    (libraries / "newer.c").write_text(_NEWER)
    _run(libraries, "gcc", "-O2", "-c", "newer.c")
    _run(libraries, "ar", "rcs", "libnewer.a", "newer.o")
    for library in ("lxc", "libudev", "libcap"):
        flags = f"Name: {library}\nDescription: {library}\nVersion: 1\nCflags: -I{root}/usr/include\n"
        (libraries / f"{library}.pc").write_text(f"{flags}Libs: -l{library.removeprefix('lib')}\n")
    return libraries


def _run(folder: Path, *words: str, **env: str) -> str:
    path = f"{os.environ['PATH']}:/usr/local/go/bin"
    command = ["nice", "-n", "10", *words]
    ran = subprocess.run(
        command, cwd=folder, env={**os.environ, "PATH": path, **env}, stdout=subprocess.PIPE, text=True, check=False
    )
    if ran.returncode:
        raise SystemExit(f"{' '.join(words)} failed")
    return ran.stdout


if __name__ == "__main__":
    sys.stdout.write(f"{build()}\n")
