"""Where a command finds its token: the environment, a file, or the state folder of a Director on this machine.

Never on the command line, where every user of the machine could read it. Standard library only.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from coterie.director.process.state_folder import StateFolder
from coterie.errors import Refused, UsageError
from coterie.settings import Settings

_FILE = "file "
_LONGEST = 64 * 1024


def token_for(url: str, settings: Settings) -> str | None:
    if settings["token"]:
        origin = settings.origin("token")
        if origin.startswith(_FILE):
            _require_private(Path(origin.removeprefix(_FILE)))
        return str(settings["token"])
    if settings["token_file"]:
        return _read(settings["token_file"])
    # A Director on this machine created the token in our folder; it must not be sent to another one.
    own = StateFolder(settings.state).token
    if urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1") and own.exists():
        return _read(own)
    return None


def _read(file: Path) -> str:
    try:
        _require_private(file)
        with file.open(encoding="utf-8") as source:
            found = source.read(_LONGEST).strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise UsageError(
            f"cannot read the token file {file}", why=why, remedy="check COTERIE_TOKEN_FILE or the setting token_file"
        ) from error
    if not found or not found.isascii() or any(one.isspace() for one in found):
        raise UsageError(f"there is no token in {file}", remedy="write the token into it, and nothing else")
    return found


def _require_private(file: Path) -> None:
    mode = file.stat().st_mode
    if mode & 0o077:
        raise Refused(
            f"{file} can be read by others",
            why=f"its mode is {mode & 0o777:o}, and there is a token in it",
            remedy=f"chmod 600 {file}; if others may have read it, have the token revoked",
        )
