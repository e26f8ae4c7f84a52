"""What the cluster needs: packages of Debian and, for Debian 12, of its backports. Their source is the machine's
own with the suite's name changed, in a folder of its own: the machine's list of sources stays as it is."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

PACKAGES = ("incus-base", "btrfs-progs", "busybox-static", "dnsmasq-base", "nftables", "iproute2", "lxcfs")
# For virtual machines: QEMU, its firmware, the disk with their settings; and what builds the tiny stemcell for them.
MACHINE_PACKAGES = (
    *("qemu-system-x86", "qemu-utils", "ovmf", "genisoimage"),
    *("systemd-boot-efi", "mtools", "dosfstools", "e2fsprogs"),
)
_NEWER_PACKAGES = ("qemu-system-modules-spice",)  # a part of the others in Debian 12
DAEMON = Path("/usr/libexec/incus/incusd")
_TOOLS = ("incus", "mkfs.btrfs", "busybox", "dnsmasq", "nft", "ip")
_MACHINE_TOOLS = ("qemu-system-x86_64", "qemu-img", "genisoimage", "mcopy", "mkfs.fat", "mke2fs")
_KERNEL = "linux-image-cloud-amd64"
_KERNELS = Path("/var/tmp/coterie-incus-kernel")
_PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
_OPTIONS = ("-q", "-y", "-o", "DPkg::Lock::Timeout=900", "-o", "Dpkg::Use-Pty=0", "-o", "APT::Sandbox::User=root")


def missing() -> str:
    """What has to be done before a cluster can start here, as the exact line; empty: nothing. Debian 12 has the
    daemon in its backports, which are not among a machine's sources as it comes."""
    lacking = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if DAEMON.exists() and not lacking:
        return ""
    if codename() == "bookworm":
        return "python3 -m tests.peers.incus install"
    return f"apt-get install --no-install-recommends {' '.join(PACKAGES)}"


def runs_machines() -> bool:
    """Whether all is here that virtual machines need, but KVM."""
    return not _lacks_machines() and bool(list(_KERNELS.glob("*.deb")))


def kernel() -> Path:
    """Debian's cloud kernel, as a package that is not installed."""
    return max(_KERNELS.glob("*.deb"))


def install(*, machines: bool) -> None:
    """Starts no daemon: a policy forbids it to the packages while they are installed."""
    if missing():
        _install_daemon()
    if machines and not runs_machines():
        newer = () if codename() == "bookworm" else _NEWER_PACKAGES
        apt([], "update")
        apt(["--no-install-recommends"], "install", *MACHINE_PACKAGES, *newer)
        _fetch_kernel()


def _lacks_machines() -> bool:
    return any(shutil.which(tool, path=_PATH) is None for tool in _MACHINE_TOOLS)


def _fetch_kernel() -> None:
    """Of two processes that do so at once, each in a folder of its own, the last one's file stays."""
    _KERNELS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_KERNELS) as folder:
        words = ["apt-cache", "depends", "--important", _KERNEL]
        listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        name = next(word for word in listed.split() if word.startswith("linux-image-") and word != _KERNEL)
        apt([], "download", name, cwd=folder)
        for path in Path(folder).iterdir():
            path.rename(_KERNELS / path.name)


def _install_daemon() -> None:
    with tempfile.TemporaryDirectory(prefix="coterie-incus-apt-") as folder:
        options = sources(Path(folder), "bookworm-backports") if codename() == "bookworm" else []
        policy = Path("/usr/sbin/policy-rc.d")
        mine = not policy.exists()
        if mine:
            policy.write_text("#!/bin/sh\nexit 101\n")
            policy.chmod(0o755)
        try:
            apt(options, "update")
            apt([*options, "--no-install-recommends"], "install", *PACKAGES)
        finally:
            if mine:
                policy.unlink()


def sources(folder: Path, suite: str) -> list[str]:
    """The machine's sources and, beside each, the same of this suite, which then comes first."""
    parts, lists = folder / "parts", folder / "lists"
    parts.mkdir()
    (lists / "partial").mkdir(parents=True)
    own = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*.list")]
    own += Path("/etc/apt/sources.list.d").glob("*.sources")
    for path in (one for one in own if one.exists()):
        text = path.read_text()
        if "bookworm" not in text or "debian" not in text:
            continue
        (parts / path.name).write_text(text)
        others = _of_suite(text, path.suffix == ".sources", suite)
        if others:
            (parts / f"other-{path.name}").write_text(others)
    chosen = ["-o", "Dir::Etc::sourcelist=/dev/null", "-o", f"Dir::Etc::sourceparts={parts}"]
    return [*chosen, "-o", f"Dir::State::lists={lists}", "-t", suite]


def _of_suite(text: str, is_paragraphs: bool, suite: str) -> str:
    """Of those that name the suite itself, not its updates or security."""
    if not is_paragraphs:
        lines = [line for line in text.splitlines() if " bookworm " in line and line.startswith("deb ")]
        return "".join(line.replace(" bookworm ", f" {suite} ") + "\n" for line in lines)
    found = []
    for paragraph in text.split("\n\n"):
        lines = paragraph.splitlines()
        suites = next((line for line in lines if line.startswith("Suites:")), "")
        if "bookworm" in suites.split()[1:]:
            found.append("\n".join(f"Suites: {suite}" if line == suites else line for line in lines))
    return "\n\n".join(found) + "\n" if found else ""


def codename() -> str:
    words = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
    return words.get("VERSION_CODENAME", "").strip('"')


def apt(options: list[str], *words: str, cwd: Path | str | None = None) -> None:
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LANG": "C.UTF-8"}
    given = options[: options.index("-t")] if words[0] == "update" and "-t" in options else options
    command = ["apt-get", *_OPTIONS, *given, *words]
    ran = subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise SystemExit(f"apt-get {' '.join(words)} failed:\n{ran.stderr[-2000:]}")
