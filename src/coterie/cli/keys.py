"""`coterie conductors keys`: the keys that credentials of clouds are sealed to."""

from __future__ import annotations

from pathlib import Path

import click

from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import noun
from coterie.cli.show.table import as_json, table
from coterie.errors import NotFound
from coterie.settings import Settings
from coterie.times import ago


@noun("keys")
def keys(session: Session) -> None:
    """List the keys of conductor groups: the newest of each is the one that credentials are sealed to."""
    found = session.client.keys.list().listing()
    if session.json:
        session.data(as_json(found))
        return
    rows = [
        (one.get("conductor_group") or "(none)", one["id"], one["published_by"], ago(one["created_at"]))
        for one in found["items"]
    ]
    session.data(table(("GROUP", "KEY", "PUBLISHED BY", "WHEN"), rows, session.paint))


@keys.verb("make")
@click.option("--file", "path", metavar="FILE", help="Key file; default: that of a conductor on this machine.")
def make(session: Session, path: str | None) -> None:
    """Make a key on this machine. A file that has keys gets a new one in front; the old ones still open.

    Copy the file (mode 600) to every conductor of the group, then publish the key.
    """
    from coterie.seal.keys import KeyFile

    file = KeyFile(_path(session.settings, path))
    made = file.add()
    if session.json:
        session.data(as_json({"id": made.public.id, "public": made.public.text, "file": str(file.path)}))
    else:
        session.data(made.public.text)
    session.say(f"key {made.public.id} is in {file.path}")


@keys.verb("publish")
@click.argument("public", metavar="[PUBLIC]", required=False)
@click.option("--group", default="", metavar="NAME", help='Conductor group; "*": of a Director that conducts itself.')
@click.option("--file", "path", metavar="FILE", help="Take the newest key of this file instead of PUBLIC.")
def publish(session: Session, public: str | None, group: str, path: str | None) -> None:
    """From now on seal credentials of a group's clouds to this key. Only the public half leaves this machine.

    What is sealed already stays sealed to the old key: `coterie clouds reseal`.
    """
    given = public or _newest(_path(session.settings, path))
    session.client.keys.publish(conductor_group=group, public=given)
    session.say(f"published for group {group!r}")


@keys.verb("retire")
@click.argument("key", metavar="ID")
@click.option("--group", default="", metavar="NAME", help="Conductor group.")
def retire(session: Session, key: str, group: str) -> None:
    """Forget a key that was replaced; refused while credentials are sealed to it."""
    session.client.keys.retire(key, conductor_group=group)
    session.say(f"key {key} of group {group!r} is retired")


def _path(settings: Settings, given: str | None) -> Path:
    if given:
        return Path(given)
    return Path(settings["key_file"] or settings.state / "conductor.key")


def _newest(path: Path) -> str:
    from coterie.seal.keys import KeyFile

    found = KeyFile(path).newest()
    if found is None:
        raise NotFound(f"there is no key in {path}", remedy="make one: coterie conductors keys make")
    return found.public.text
