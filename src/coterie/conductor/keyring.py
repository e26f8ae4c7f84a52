"""The key of a conductor at its start: made and published by the first of a group, required of all the others."""

from __future__ import annotations

import logging

from coterie.errors import Refused
from coterie.ledger.errors import NotPermitted
from coterie.ledger.rows import keys
from coterie.ledger.store import Ledger
from coterie.seal.keys import KeyFile
from coterie.settings import Settings

log = logging.getLogger(__name__)


def key_file(ledger: Ledger, settings: Settings, group: str | None) -> KeyFile:
    """The file to open credentials with; `group` None: of a conductor that stands in for every group.

    Refused if the group has a key and this machine does not hold it: its work could only fail.
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
        # The database role of a conductor need not have this right, and should not where sites distrust each other.
        log.warning(
            "the key of conductor group %r is not published yet; an admin can: coterie conductors keys publish %s "
            "--group %s",
            group,
            newest.public.text,
            group,
        )
        return []
