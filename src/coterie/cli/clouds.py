"""`coterie clouds`: configured clouds, and the cloud config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from coterie.cli.frame.documents import read
from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import noun
from coterie.cli.show.table import as_json, fields, table
from coterie.cli.watch.task import watch_or_leave
from coterie.errors import UsageError
from coterie.times import ago


@noun("clouds")
def clouds(session: Session) -> None:
    """List clouds; `show`, `check` or `move` one, `set` the cloud config, `seal` a file, `reseal` after a new key."""
    found = session.client.clouds.list().listing()
    if session.json:
        session.data(as_json(found))
        return
    rows = [
        (one["name"], one["driver"], one.get("conductor_group"), _others(one), one["nodes"], _alarm_kinds(one))
        for one in found["items"]
    ]
    headers = ("CLOUD", "DRIVER", "CONDUCTOR GROUP", "OTHER GROUPS", "NODES", "ALARM")
    session.data(table(headers, rows, session.paint))
    for alarm in (alarm for one in found["items"] for alarm in one.get("alarms", ())):
        session.say(f"{alarm['kind']}: {alarm['body']}; {alarm['remedy']}")


def _others(cloud: Mapping[str, Any]) -> list[str]:
    return [group or "(none)" for group in cloud.get("other_conductor_groups", ())]


@clouds.verb("set")
@click.argument("file")
def set_config(session: Session, file: str) -> None:
    """Set the cloud config from FILE ("-": standard input)."""
    from coterie.cli.link.sealing import seal_if_remote

    stored = session.client.cloud_config.replace(text=seal_if_remote(session.client, read(file), file), file=file)
    if session.json:
        session.data(as_json(stored))
    session.say(f"cloud config {stored['id']} is in force")


@clouds.verb("move")
@click.argument("name")
@click.argument("group", metavar="CONDUCTOR_GROUP")
def move(session: Session, name: str, group: str) -> None:
    """Move a cloud to another conductor group ("": the one without a name), with its unfinished steps.

    One of its other groups changes places with it. Any other group cannot open its credentials: set the cloud config
    with the new group and the credentials in plain.
    """
    moved = session.client.clouds.change(name, conductor_group=group)
    if session.json:
        session.data(as_json(moved))
    session.say(f"cloud {name} belongs to conductor group {moved['conductor_group']!r}")


@clouds.verb("repin")
@click.argument("name")
@click.argument("identity")
def repin(session: Session, name: str, identity: str) -> None:
    """Say that all objects of cloud NAME are in the account IDENTITY now, with the ids that they had."""
    session.confirm(f"Take {identity} for the account that the objects of {name} are in?")
    moved = session.client.clouds.repin(name, identity=identity)
    if session.json:
        session.data(as_json(moved))
    session.say(f"cloud {name} is pinned to {moved['pinned_to']}")


@clouds.verb("accept")
@click.argument("name")
def accept(session: Session, name: str) -> None:
    """Take the state of cloud NAME as it is: its alarms end, and lost nodes may be made anew."""
    session.confirm(f"End the alarms of {name}, and let lost nodes be made anew?")
    ended = session.client.clouds.accept(name)
    if session.json:
        session.data(as_json(ended))
    session.say(f"cloud {name}: {', '.join(ended['ended']) or 'no alarm'} ended")


@clouds.verb("config")
def config(session: Session) -> None:
    """Print the cloud config in force; secrets in it are hidden."""
    found = session.client.cloud_config.get()
    session.data(as_json(found) if session.json else found["text"])


@clouds.verb("show")
@click.argument("name")
def show(session: Session, name: str) -> None:
    """One cloud: its properties, what its driver can do, its latest facts."""
    _show_cloud(session, session.client.clouds.get(name))


@clouds.verb("check")
@click.argument("name", required=False)
@click.option("--deep", is_flag=True, help="Make two VMs with group and disk, try what the cloud promises, remove all.")
@click.option("--az", metavar="AZ", help="Of --deep: where; default: the cloud's first one.")
@click.option("--vm-type", metavar="NAME", help="Of --deep; default: the first one.")
@click.option("--network", metavar="NAME", help="Of --deep; default: the first one of the az.")
@click.option("--stemcell", metavar="NAME/VERSION", help="Of --deep; default: the newest one in the catalogue.")
@click.option("--policy", metavar="POLICY", help="Of --deep; default: the strictest one that keeps VMs apart.")
def check(session: Session, name: str | None, deep: bool, **chosen: str | None) -> int:
    """Ask the clouds (or one) now: credentials, privileges, quotas, hosts. 1 if something is wrong.

    --deep is for the first run in a real cloud. It deploys `deep-check-NAME` and deletes it at the end; should it be
    interrupted, repeat it, or: coterie delete deep-check-NAME --delete-disks
    """
    if deep:
        from coterie.cli.deep_check import deep_check

        return deep_check(session, name, chosen)
    if any(chosen.values()):
        raise UsageError("these options belong to --deep", remedy="say --deep, too")
    names = [name] if name else [one["name"] for one in session.client.clouds.list()]
    found = [session.client.clouds.check(one) for one in names]
    if session.json:
        session.data(as_json(found[0] if name else {"items": found, "next": None}))
    else:
        rows = [row for cloud in found for row in _checks(cloud)]
        session.data(table(("CLOUD", "WHAT", "OK", "DETAIL", "REMEDY"), rows, session.paint, state=2))
    return 0 if all(row[2] for cloud in found for row in _checks(cloud)) else 1


@clouds.verb("seal")
@click.argument("file")
@click.option("--key", "keys", multiple=True, metavar="GROUP=PUBLIC", help="Seal to this key, without a Director.")
def seal(session: Session, file: str, keys: tuple[str, ...]) -> None:
    """Print the cloud config in FILE with its clouds' properties sealed: it may be kept where others read it."""
    from coterie.cli.link.sealing import parse_keys, published_keys, seal_for

    session.data(seal_for(parse_keys(keys) if keys else published_keys(session.client), read(file), file))


@clouds.verb("reseal")
@click.argument("names", nargs=-1, metavar="[NAME]...")
def reseal(session: Session, names: tuple[str, ...]) -> None:
    """Have conductors seal the properties of clouds (all, or some) anew, and the env and user_data of machines in them,
    to the newest key that they hold."""
    chosen = names or tuple(one["name"] for one in session.client.clouds.list())
    done = [session.client.clouds.reseal(name) for name in chosen]
    if session.json:
        session.data(as_json({"items": done, "next": None}))
    else:
        rows = [
            (one["name"], group or "(none)", key)
            for one in done
            for group, key in one.get("sealed_to", {"": one["key"]}).items()
        ]
        session.data(table(("CLOUD", "GROUP", "KEY"), rows, session.paint))
        secrets = sum(one.get("sealed_again", 0) for one in done)
        session.say(f"{secrets} machine secrets were sealed to a newer key")


def _properties(cloud: Mapping[str, Any]) -> list[tuple[str, Any]]:
    sealed = cloud["properties"].get("sealed")
    texts = sealed if isinstance(sealed, list) else [sealed]
    if not all(isinstance(text, str) for text in texts):
        return [(f"property {key}", value) for key, value in cloud["properties"].items()]
    boxes = [[*text.split(":"), "", ""] for text in texts]
    return [("properties", [f"sealed to key {key} of group {group or '(none)'}" for _, group, key, *_ in boxes])]


@clouds.verb("grant")
@click.argument("name")
@click.option("--user", required=True, metavar="USER", help="The user that gets the rights, by its name in the cloud.")
@click.option("--groups/--no-groups", default=True, help="Those for server groups too (default).")
def grant(session: Session, name: str, user: str, groups: bool) -> int:
    """Make or renew the role that cloud NAME's driver needs, and give it to USER; with the configured credentials."""
    return watch_or_leave(session, session.client.clouds.grant(name, user=user, groups=groups))


def _show_cloud(session: Session, cloud: Mapping[str, Any]) -> None:
    if session.json:
        session.data(as_json(cloud))
        return
    can = cloud["capabilities"] or {}
    pairs = [("name", cloud["name"]), ("driver", cloud["driver"]), ("conductor_group", cloud.get("conductor_group"))]
    pairs += [("other groups", _others(cloud)), ("nodes", cloud["nodes"]), *_properties(cloud)]
    pairs.append(("pinned to", cloud.get("pinned_to")))
    pairs += [(f"alarm {alarm['kind']}", f"{alarm['body']}; {alarm['remedy']}") for alarm in cloud.get("alarms", ())]
    pairs += [("policies", can["policies"]), ("kinds", list(can["kinds"]))] if can else []
    pairs.append(("checked", ago(cloud["facts"].get("check", {}).get("at"))))
    session.data(fields(pairs, session.paint))
    rows = [row[1:] for row in _checks(cloud)]
    if rows:
        session.data("\n" + table(("WHAT", "OK", "DETAIL", "REMEDY"), rows, session.paint, state=1))


def _alarm_kinds(cloud: Mapping[str, Any]) -> str:
    return ", ".join(alarm["kind"] for alarm in cloud.get("alarms", ()))


def _checks(cloud: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    fact = cloud["facts"].get("check")
    if fact is None:
        return []
    if fact["error"]:
        return [(cloud["name"], "answer", False, fact["error"]["what"], fact["error"]["remedy"])]
    items = (fact["data"] or {}).get("items", ())
    return [(cloud["name"], one["what"], one["ok"], one["detail"], one["remedy"]) for one in items]
