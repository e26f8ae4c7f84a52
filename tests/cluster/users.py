"""A Unix user for each conductor group: the operating system refuses what a conductor of another group does.

The users are numbers that no account has; only root can start a process as one of them.
"""

from __future__ import annotations

import os
import pwd
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

# What a sandbox says of a file that the user may not open.
REFUSED = re.compile("Permission denied|unable to open database file|attempt to write a readonly database")
_NUMBERS = range(40_000, 40_100)
_NEEDED = tuple(dict.fromkeys(map(Path, (sys.base_prefix, sys.prefix, Path(__file__).parents[2]))))


@dataclass(frozen=True)
class User:
    number: int
    before: tuple[str, ...]  # the words that start a command as this user

    def own(self, folder: Path) -> None:
        """Make this a folder that no other user may enter."""
        folder.mkdir(mode=0o700, exist_ok=True)
        os.chown(folder, self.number, self.number)


@contextmanager
def separated(names: Sequence[str]) -> Iterator[tuple[Path, dict[str, User]]]:
    """A folder that each of these users may pass through, and the users; none where that cannot be had: then only the
    datacenters tell where a call went, and the line that is printed says so."""
    with tempfile.TemporaryDirectory(prefix="coterie-cluster-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        aside = folder / "aside"
        aside.mkdir()
        free = [number for number in _NUMBERS if not _has_account(number)]
        users = {one: User(number, _words(number, aside)) for one, number in zip(names, free, strict=False)}
        problem = _why_not(users[names[0]])
        found = {one: user.number for one, user in users.items()}
        print(f"witness of routing: {f'the datacenters alone, {problem}' if problem else f'Unix users {found}'}")
        yield folder, {} if problem else users


def _words(number: int, aside: Path) -> tuple[str, ...]:
    become = ("setpriv", f"--reuid={number}", f"--regid={number}", "--clear-groups")
    hidden = [path for path in _NEEDED if _closed(path)]
    if not hidden:
        return become
    closed = str(_closed(hidden[0]))
    return ("unshare", "--mount", "sh", "-euc", _OPEN, "sh", closed, str(aside), *map(str, hidden), "--", *become)


# Root's home is often closed to others, and the interpreter or this program in it. In a mount namespace of the process
# there is a home that has these folders and nothing else.
_OPEN = """
closed=$1 aside=$2
shift 2
mount --bind "$closed" "$aside"
mount -t tmpfs -o mode=711 none "$closed"
while [ "$1" != -- ]; do
    mkdir -p "$1"
    mount --bind "$aside${1#"$closed"}" "$1"
    shift
done
shift
umount "$aside"
exec "$@"
"""


def _closed(path: Path) -> Path | None:
    """The first folder on the way that others may not pass."""
    return next((one for one in [*reversed(path.parents), path] if not one.stat().st_mode & 0o001), None)


def _why_not(user: User) -> str | None:
    if os.geteuid() != 0:
        return "since only root may start processes as other users"
    command = [*user.before, sys.executable, "-c", "import coterie.conductor.process"]
    tried = subprocess.run(command, env={**os.environ, "HOME": "/"}, capture_output=True, text=True, check=False)
    return f"since other users cannot run this program: {tried.stderr.strip()[-200:]}" if tried.returncode else None


def _has_account(number: int) -> bool:
    with suppress(KeyError):
        return bool(pwd.getpwuid(number))
    return False
