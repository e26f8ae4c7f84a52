"""What a shell may offer for a parameter: files, names that a running Director knows, paths of `explain`.

A completion must not wait and must change nothing: it starts no Director, gives up after two seconds, and then offers
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click
from click.shell_completion import CompletionItem

from coterie.errors import CoterieError

if TYPE_CHECKING:
    from coterie.client import Client, Pages

T = TypeVar("T")

_PATIENCE_S = 2.0
_MOST = 1000


class Offer(NamedTuple):
    value: str
    help: str | None = None


Source = Callable[[click.Context, str], Iterator[Offer]]


def offer(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    kind = kind_of(ctx, param)
    if kind is None:
        return []
    if kind == "file":
        return [CompletionItem(incomplete, type="file")]
    try:
        found = list(_SOURCES[kind](ctx, incomplete))
    except (CoterieError, OSError, ValueError):
        return []
    given = set(ctx.params.get(param.name or "") or ()) if param.nargs == -1 else set()
    return [
        CompletionItem(one.value, help=one.help)
        for one in dict.fromkeys(found)
        if one.value.startswith(incomplete) and one.value not in given
    ]


def kind_of(ctx: click.Context, param: click.Parameter) -> str | None:
    """What a parameter names, by the word for its value in the help, or by its own name."""
    noun = ctx.command_path.split()[1:2]
    word = param.metavar or ""
    if noun == ["sandbox"] and word != "FILE":
        return None
    for part, kind in _BY_WORD.items():
        if part in word:
            return kind
    if word not in ("", "NAME", "N", "AZ", "[NAME]..."):
        return None
    own = (param.name or "").removeprefix("not_")
    if isinstance(param, click.Argument) and own in ("name", "names"):
        return _NAME_OF_NOUN.get(" ".join(noun)) if ctx.info_name not in ("create", "add") else None
    return _BY_NAME.get(own)


# The order decides: a word may contain a shorter one.
_BY_WORD = {
    "CONDUCTOR_GROUP": "conductor group",
    "[DEPLOYMENT/]NAME|CID": "server group",
    "DEPLOYMENT|NODE": "deployment or node",
    "GROUP/INDEX": "node",
    "UUID|NAME": "node",
    "NODE": "node",
    "NAME/VERSION": "stemcell",
    "NAME=FILE": "nothing",
    "FILE": "file",
    ".json": "file",
    "PATH": "path",
    "DISK": "disk",
}
_BY_NAME = {
    "manifest": "file",
    "file": "file",
    "plan": "file",
    "deployment": "deployment",
    "cloud": "cloud",
    "clouds": "cloud",
    "task": "task",
    "number": "task",
    "conductor_group": "conductor group",
    "driver": "driver",
    "drivers": "driver",
    "intent": "disk",
    "disks": "disk",
    "nodes": "node",
}
_NAME_OF_NOUN = {"delete": "deployment", "deployments": "deployment", "clouds": "cloud"}


def _deployments(ctx: click.Context, incomplete: str) -> Iterator[Offer]:
    return (Offer(one["name"]) for one in _list(ctx, lambda client: client.deployments.list()))


def _deployments_and_nodes(ctx: click.Context, incomplete: str) -> Iterator[Offer]:
    return _nodes(ctx, incomplete) if "/" in incomplete else _deployments(ctx, incomplete)


def _clouds(ctx: click.Context, incomplete: str) -> Iterator[Offer]:
    return (Offer(one["name"], one.get("driver")) for one in _list(ctx, lambda client: client.clouds.list()))


def _nodes(ctx: click.Context, incomplete: str) -> Iterator[Offer]:
    """As DEPLOYMENT/GROUP/INDEX; parts that stand already are left to the server to filter by. `--node` belongs to one
    manifest and takes no deployment."""
    short = ctx.info_name in ("plan", "deploy")
    known = incomplete.split("/")[:-1]
    names = ("instance_group",) if short else ("deployment", "instance_group")
    wanted: dict[str, Any] = dict(zip(names, known, strict=False))
    for one in _list(ctx, lambda client: client.nodes.list(**wanted)):
        whose = "" if short or one.get("enrolled") else f"{one['deployment']}/"
        yield Offer(whose + one["name"], one["state"])


def _tasks(ctx: click.Context, incomplete: str) -> Iterator[Offer]:
    for one in _list(ctx, lambda client: client.tasks.list(without="look")):
        yield Offer(str(one["id"]), " ".join(filter(None, (one["kind"], one["deployment"], one["state"]))))


def _server_groups(ctx: click.Context, incomplete: str) -> Iterator[Offer]:
    for one in _list(ctx, lambda client: client.groups.list()):
        yield Offer(f"{one['deployment']}/{one['name']}", one["policy"])


def _disks(ctx: click.Context, incomplete: str) -> Iterator[Offer]:
    for one in _list(ctx, lambda client: client.disks.list()):
        yield Offer(one["intent"], " ".join(filter(None, (one.get("deployment"), one.get("node"), one["state"]))))


def _stemcells(ctx: click.Context, incomplete: str) -> Iterator[Offer]:
    return (Offer(f"{one['name']}/{one['version']}") for one in _list(ctx, lambda client: client.stemcells.list()))


def _conductor_groups(ctx: click.Context, incomplete: str) -> Iterator[Offer]:
    return (Offer(one["name"]) for one in _list(ctx, lambda client: client.conductors.groups()) if one["name"])


def _drivers(ctx: click.Context, incomplete: str) -> Iterator[Offer]:
    from coterie.cpi.load import driver_names

    return (Offer(name) for name in driver_names())


def _paths(ctx: click.Context, incomplete: str) -> Iterator[Offer]:
    """Fields of both documents; after an `@`, the properties of a driver."""
    from coterie.cpi.load import driver_names, forms_of
    from coterie.manifest.explain import ROOTS, paths
    from coterie.manifest.properties import PLACES

    place, at, rest = incomplete.partition("@")
    if not at:
        for root in ROOTS:
            yield Offer(root)
            yield from (Offer(path.removeprefix("cloud_config.")) for path in paths(root))
            yield from (Offer(path) for path in paths(root))
        yield from (Offer(f"{field}@{driver}") for field in PLACES for driver in driver_names())
        return
    driver, dot, _ = rest.partition(".")
    if not dot:
        yield from (Offer(f"{place}@{name}") for name in driver_names())
        return
    form = forms_of(driver).get(PLACES[place]) if place in PLACES else None
    yield from (Offer(f"{place}@{driver}.{key}") for key in (form.readers if form else ()))


_SOURCES: dict[str, Source] = {
    "cloud": _clouds,
    "conductor group": _conductor_groups,
    "deployment": _deployments,
    "deployment or node": _deployments_and_nodes,
    "disk": _disks,
    "driver": _drivers,
    "node": _nodes,
    "nothing": lambda ctx, incomplete: iter(()),
    "path": _paths,
    "server group": _server_groups,
    "stemcell": _stemcells,
    "task": _tasks,
}


def _list(ctx: click.Context, choose: Callable[[Client], Pages[T]]) -> list[T]:
    from coterie.client import Client
    from coterie.client.api import Api

    route = _route(ctx)
    try:
        return choose(Client(api=Api(route, tries=1, timeout_s=_PATIENCE_S))).listing(_MOST)["items"]
    finally:
        route.close()


def _route(ctx: click.Context) -> Any:
    """To the Director that the command would use; a local one only if it runs."""
    from coterie.cli.link.route import route_to
    from coterie.client.routes import UnixRoute
    from coterie.director.process.state_folder import StateFolder
    from coterie.settings import load

    flags = ctx.ensure_object(dict).get("flags", {})
    settings = load({name: flags.get(name) for name in ("director", "ca")})
    if settings["director"] is None:
        return UnixRoute(StateFolder(settings.state).socket, settings.origin("director"))
    return route_to(settings, foreground=False, say=lambda words: None)
