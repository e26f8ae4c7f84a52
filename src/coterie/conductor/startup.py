"""What a service needs before it works: an open ledger, a correct clock, the key of its conductor group."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable

from coterie.errors import CoterieError, Refused, Unreachable
from coterie.ledger.errors import BadUrl, NotPermitted, Unavailable, reason
from coterie.ledger.rows import keys, roles
from coterie.ledger.store import Ledger
from coterie.ledger.store import time as database_time
from coterie.redact import hide_credentials
from coterie.seal.keys import KeyFile
from coterie.settings import Settings

log = logging.getLogger(__name__)

_TOLERANCE_S = 30.0
_NO_DATABASE = "check that the database runs, and its URL: --database or COTERIE_DATABASE"
# PostgreSQL's library reads no other file, and does not say so.
_UNREAD_FILE = (
    "the file that PGPASSFILE names must belong to the user of this service, have mode 0600 and a line for this role"
)
_OBJECTS = 20_000


class ClockOff(CoterieError):
    """This machine and the database disagree about the time."""

    code, exit_code = "clock_off", 4


def collect_garbage_seldom() -> None:
    """Look for cycles after so many new objects, not after 700: plans and audits of thousands of nodes make no cycles,
    and up to two fifths of their CPU was spent on looking for some."""
    gc.set_threshold(_OBJECTS)


def connect(url: str) -> Ledger:
    try:
        return Ledger.open(url)
    except (Unavailable, BadUrl) as error:
        why = hide_credentials(reason(error))
        raise Unreachable(
            f"cannot open the ledger {hide_credentials(url)}",
            why=why,
            remedy=_UNREAD_FILE if "no password supplied" in why else _NO_DATABASE,
        ) from error
    except NotPermitted as error:
        raise Refused(
            f"this role may not bring the ledger {hide_credentials(url)} up to date",
            why=hide_credentials(reason(error)),
            remedy="start the Director of this release first, then grant again: coterie conductors role NAME --group G",
        ) from error


def check_clock(ledger: Ledger, clock: Callable[[], float] = time.time, tolerance_s: float = _TOLERANCE_S) -> None:
    """Leases use the database's clock only, but clouds refuse requests signed an hour off, and logs would mislead."""
    before = clock()
    with ledger.read() as tx:
        there = database_time(tx)
    # The query takes time itself: only a difference beyond that counts.
    off = max(before - there, there - clock(), 0.0)
    if off > tolerance_s:
        raise ClockOff(
            f"the clock of this machine is {off:.0f} s off the database's",
            why=f"no more than {tolerance_s:.0f} s are tolerated",
            remedy="let both follow a time server (chrony, systemd-timesyncd), then start again",
        )


def check_role(ledger: Ledger, group: str | None) -> None:
    """The database role must be one of the conductor group; `group` None: of every group."""
    with ledger.read() as tx:
        role = roles.own(tx)
    option = "'*'" if group is None else group or "''"
    remedy = f"as the Director's role: coterie conductors role {role.name} --group {option} | psql"
    if role.old:
        log.warning(
            "the database role %s has the rights of an earlier release: it sees and changes the rows of every site; "
            "once its other conductors are of this release, grant again, %s",
            role.name,
            remedy,
        )
    if not role.serves(group):
        raise Refused(
            f"the database role {role.name} is not one of conductor group {option}",
            why=f"it works for {', '.join(sorted(role.groups or ())) or 'no group'}",
            remedy=remedy,
        )


def key_file(ledger: Ledger, settings: Settings, group: str | None) -> KeyFile:
    """The file with the key that opens credentials; `group` None: of a conductor that serves every group.

    The first conductor of a group creates and publishes the key. Any other one without it is refused: its work could
    only fail.
    """
    file = KeyFile(settings["key_file"] or settings.state / "conductor.key")
    name = keys.EVERY if group is None else group
    with ledger.read() as tx:
        published = keys.own(tx, name)
    if not published:
        file.ensure()
        published = _publish(ledger, name, file)
    if published and not any(file.find(key.id) for key in published):
        raise Refused(
            f"this conductor has no key of its group {name!r}",
            why=f"credentials of its clouds are sealed to key {published[0].id}, which is not in {file.path}",
            remedy=f"copy the key file of another conductor of the group to {file.path} (mode 600)",
        )
    return file


def _publish(ledger: Ledger, group: str, file: KeyFile) -> list[keys.KeyRow]:
    newest = file.newest()
    if newest is None:
        return []
    try:
        with ledger.write() as tx:
            return keys.publish_first(tx, group, newest.public.id, newest.public.text, "conductor")
    except NotPermitted:
        # The database role of a conductor may lack this right, and should where sites do not trust each other.
        log.warning(
            "the key of conductor group %r is not published yet; an admin can: coterie conductors keys publish %s "
            "--group %s",
            group,
            newest.public.text,
            group,
        )
        return []
