"""The key file of a conductor: its keys, newest first, for its owner only.

A conductor group shares one file. Private keys leave it only as a copy that an operator makes.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from coterie.errors import Refused, UsageError
from coterie.seal.key import Key, fresh, of_row, to_row

_FORM = 1


class KeyFile:
    """Read anew when it has changed, so that a rotated file needs no restart."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._keys: list[Key] = []
        self._seen: tuple[int, int] | None = None

    def ensure(self) -> None:
        """Make the first key. Of several processes that try at once, one wins and the others use its key."""
        if not self.path.exists():
            self._write([fresh()], first=True)

    def add(self) -> Key:
        """Put a new key in front; the old ones still open what was sealed to them."""
        made = fresh()
        present = self._read() if self.path.exists() else []
        self._write([made, *present], first=not present)
        return made

    def newest(self) -> Key | None:
        found = self._read()
        return found[0] if found else None

    def find(self, key_id: str) -> Key | None:
        return next((key for key in self._read() if key.public.id == key_id), None)

    def _read(self) -> list[Key]:
        try:
            facts = self.path.stat()
        except FileNotFoundError:
            return []
        require_private(self.path, facts)
        if self._seen != (facts.st_mtime_ns, facts.st_ino):
            self._keys = _parse(self.path)
            self._seen = (facts.st_mtime_ns, facts.st_ino)
        return self._keys

    def _write(self, keys: list[Key], *, first: bool) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        try:
            handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                _leave_to_owner(handle, self.path)
                json.dump({"coterie_keys": _FORM, "keys": [to_row(key) for key in keys]}, out, indent=1)
                out.flush()
                os.fsync(handle)
            if first:
                _link_if_absent(draft, self.path)
            else:
                draft.rename(self.path)
        finally:
            draft.unlink(missing_ok=True)


def _leave_to_owner(handle: int, path: Path) -> None:
    """What root writes belongs to the service, which must read it: to the owner of the file, or else of the folder."""
    if os.geteuid() == 0:
        owner = (path if path.exists() else path.parent).stat()
        os.fchown(handle, owner.st_uid, owner.st_gid)


def require_private(path: Path, facts: os.stat_result | None = None) -> None:
    """Refuse a file with a secret in it that others may read."""
    found = facts or path.stat()
    if found.st_mode & 0o077:
        raise Refused(
            f"{path} can be read by others",
            why=f"its mode is {found.st_mode & 0o777:o}, and it holds a secret",
            remedy=f"chmod 600 {path}; if others may have read it, make a new secret",
        )


def _link_if_absent(draft: Path, path: Path) -> None:
    try:
        os.link(draft, path)
    except FileExistsError:
        return


def _parse(path: Path) -> list[Key]:
    try:
        written = json.loads(path.read_text("utf-8"))
        if written["coterie_keys"] != _FORM:
            raise ValueError("it has another form")
        return [of_row(row) for row in written["keys"]]
    except PermissionError as error:
        raise UsageError(
            f"{path} cannot be read by this process",
            why=f"it belongs to user {path.stat().st_uid}, the process is of user {os.geteuid()}",
            remedy=f"give it to the user of the service: chown USER {path}",
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        # Not the error's own words: some repeat what they could not read.
        raise UsageError(
            f"{path} is no key file", why=type(error).__name__, remedy="restore it from another conductor of the group"
        ) from None
