"""Builds a Debian package of Coterie for the Python of this machine: /opt/coterie with what
deploy/release/constraints.txt pins, the units of deploy/systemd, and both programs in /usr/bin.

python3 deploy/deb/build.py --output FOLDER. Needs pip, git and dpkg-deb, and no root.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PYTHON = "/usr/bin/python3"
OPT = "opt/coterie"


def main() -> None:
    parser = argparse.ArgumentParser(description="Build a Debian package.")
    parser.add_argument("--output", type=Path, default=ROOT / "dist")
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        tree = Path(name) / "tree"
        _install(tree / OPT)
        _copy_files(tree)
        _write_control(tree)
        env = {**os.environ, "SOURCE_DATE_EPOCH": _run("git", "-C", str(ROOT), "log", "-1", "--format=%ct")}
        print(_run("dpkg-deb", "--build", "--root-owner-group", "-Zzstd", str(tree), str(folder), env=env))


def _install(opt: Path) -> None:
    """A virtual environment that works where the package puts it."""
    _run(PYTHON, "-m", "venv", str(opt))
    pip = [str(opt / "bin/python3"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    constraints = str(ROOT / "deploy/release/constraints.txt")
    _run(*pip, "--only-binary=:all:", "--require-hashes", "-r", constraints)
    # hatchling is among the constraints: nothing is fetched here.
    _run(*pip, "--no-deps", "--no-build-isolation", str(ROOT))
    _run(str(opt / "bin/python3"), "-m", "pip", "uninstall", "--quiet", "--yes", "pip")
    for script in (opt / "bin").iterdir():
        if not script.is_symlink() and script.name not in ("coterie", "coterie-cpi"):
            script.unlink()
    for file in (opt / "bin/coterie", opt / "bin/coterie-cpi", opt / "pyvenv.cfg"):
        file.write_text(file.read_text().replace(str(opt), f"/{OPT}"))
    for trace in (*opt.rglob("direct_url.json"), *opt.rglob("__pycache__")):  # of this machine
        shutil.rmtree(trace) if trace.is_dir() else trace.unlink()


def _copy_files(tree: Path) -> None:
    shutil.copytree(ROOT / "docs", tree / OPT / "docs")
    examples = tree / OPT / "examples"
    examples.mkdir()
    units = tree / "lib/systemd/system"
    units.mkdir(parents=True)
    for file in (ROOT / "deploy/systemd").iterdir():
        shutil.copy(file, units if file.suffix == ".service" else examples)
    programs = tree / "usr/bin"
    programs.mkdir(parents=True)
    for name in ("coterie", "coterie-cpi"):
        (programs / name).symlink_to(f"/{OPT}/bin/{name}")
    for folder, _, files in os.walk(tree):  # whatever the umask of this machine
        Path(folder).chmod(0o755)
        for one in files:
            path = Path(folder) / one
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
    documents = tree / "usr/share/doc/coterie"
    documents.mkdir(parents=True)
    shutil.copy(ROOT / "LICENSE", documents / "copyright")


def _write_control(tree: Path) -> None:
    control = tree / "DEBIAN"
    control.mkdir()
    found = re.search(r'__version__ = "(.+)"', (ROOT / "src/coterie/__init__.py").read_text())
    assert found
    minor = int(_run(PYTHON, "-c", "import sys; print(sys.version_info.minor)"))
    values = {
        "VERSION": found.group(1),
        "ARCHITECTURE": _run("dpkg", "--print-architecture"),
        "PYTHON": f"python3 (>= 3.{minor}~), python3 (<< 3.{minor + 1}~)",
    }
    text = (HERE / "control").read_text()
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    (control / "control").write_text(text)
    for name in ("postinst", "prerm"):
        shutil.copy(HERE / name, control / name)
        (control / name).chmod(0o755)


def _run(*words: str, env: dict[str, str] | None = None) -> str:
    return subprocess.run(words, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


if __name__ == "__main__":
    main()
