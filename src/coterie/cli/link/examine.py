"""The report of `coterie doctor`: findings about this machine, the Director and its fleet. Reads only; the API hides
secrets."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from coterie import __version__
from coterie.cli.link.route import route_to
from coterie.cli.local import look
from coterie.client import Client
from coterie.client.api import Api
from coterie.client.routes import Route, UnixRoute
from coterie.director.process.state_folder import StateFolder
from coterie.errors import CoterieError
from coterie.redact import hide_credentials
from coterie.settings import Settings

Finding = dict[str, Any]


def examine(settings: Settings) -> dict[str, Any]:
    state_folder = StateFolder(settings.state)
    local = look(state_folder)
    findings = [_folder(state_folder), _running(settings, local), *_ledger(settings, state_folder, local)]
    report, more = _reach(settings, state_folder, local)
    return {
        "versions": _versions_here(),
        "config": settings.facts(),
        "local": local,
        "findings": findings + more,
        "director": report,
        "files": _files(state_folder.path),
        "log": _log_tail(state_folder.log),
    }


def _finding(what: str, ok: bool, detail: str, remedy: str = "") -> Finding:
    return {"what": what, "ok": ok, "detail": detail, "remedy": "" if ok else remedy}


def _folder(state_folder: StateFolder) -> Finding:
    try:
        mode = state_folder.path.stat().st_mode & 0o777
    except FileNotFoundError:
        return _finding("state folder", True, f"{state_folder.path} is not there yet")
    except OSError as error:
        return _finding("state folder", False, f"{state_folder.path}: {error.strerror}", "set COTERIE_STATE elsewhere")
    return _finding(
        "state folder", mode == 0o700, f"{state_folder.path}, mode {mode:o}", f"chmod 700 {state_folder.path}"
    )


def _running(settings: Settings, local: dict[str, Any]) -> Finding:
    if settings["director"]:
        return _finding("Director", True, f"{settings['director']} ({settings.origin('director')})")
    if not local["running"]:
        return _finding("Director", True, "local; does not run now, starts on demand")
    same = local["version"] == __version__
    detail = f"local; process {local['pid']}, release {local['version']}"
    return _finding("Director", same, detail, "`coterie local stop`; the next command starts the present release")


def _ledger(settings: Settings, state_folder: StateFolder, local: dict[str, Any]) -> list[Finding]:
    """Whether a local Director could start on its database; a running one reports that itself."""
    elsewhere = settings["director"] is not None or local["running"]
    if elsewhere or not (settings["database"] or state_folder.ledger.exists()):
        return []
    from coterie.ledger.store import Ledger  # a heavy import, needed only here

    try:
        Ledger.examine(settings["database"] or state_folder.database)
    except CoterieError as error:
        return [_finding("ledger", False, str(error), error.remedy)]
    except Exception as error:  # the database driver raises its own exceptions for a server that does not answer
        return [
            _finding("ledger", False, type(error).__name__, "see that the database runs, and the setting `database`")
        ]
    return [_finding("ledger", True, "can be read")]


def _reach(
    settings: Settings, state_folder: StateFolder, local: dict[str, Any]
) -> tuple[dict[str, Any] | None, list[Finding]]:
    """The Director's report, and the findings in it."""
    if settings["director"] is None and not local["running"]:
        return None, []
    try:
        client = Client(api=Api(_route(settings, state_folder)))
        queries = _state_findings(client)
    except CoterieError as error:
        return None, [_finding("reachable", False, str(error), error.remedy)]
    report = bundle(client)
    return report, queries + _alarms(report) + _fleet(report)


def _route(settings: Settings, state_folder: StateFolder) -> Route:
    # Not the local route: it would start a Director, and this report changes nothing.
    if settings["director"] is None:
        return UnixRoute(state_folder.socket, "default")
    return route_to(settings, foreground=False, say=_discard)


def _state_findings(client: Client) -> list[Finding]:
    ready = client.health.readyz().strip()
    nodes, objects, groups = client.nodes.list, client.objects.list, client.groups.list
    broken = sum(1 for found in (nodes(state="failing"), nodes(state="dead"), nodes(state="missing")) for _ in found)
    doubt, late = len(list(objects(state="unknown"))), len(list(objects(state="late")))
    lost, drifted = list(groups(state="missing")), list(groups(state="drifted"))
    unfinished = [one for one in client.deployments.list() if one.get("unfinished_task")]
    running = len(list(client.tasks.list(state="running")))
    return [
        _finding("reachable", ready == "ok", ready),
        _finding("tasks", True, f"{running} running"),
        _finding(
            "deployments",
            not unfinished,
            _names_of("unfinished", unfinished) or "none is unfinished",
            "deploy again what failed or was cancelled (coterie deployments names the task)",
        ),
        _finding("nodes", not broken, f"{broken} in trouble", "coterie nodes --state failing (dead, missing)"),
        _finding(
            "server groups",
            not (lost or drifted),
            "; ".join(filter(None, (_names_of("missing in their clouds", lost), _names_of("not as made", drifted))))
            or "all are there",
            "; ".join(dict.fromkeys(one.get("remedy", "see `coterie groups`") for one in [*lost, *drifted])),
        ),
        _finding(
            "objects",
            not (doubt or late),
            f"{doubt} in doubt" + (f", {late} created after they had been given up" if late else ""),
            "; ".join(
                filter(None, (_SETTLE if doubt else "", "coterie cleanup, or delete the deployment" if late else ""))
            ),
        ),
    ]


_SETTLE = "coterie nodes show NODE; then coterie nodes settle"


def _names_of(what: str, found: Sequence[Mapping[str, Any]]) -> str:
    return f"{what}: {', '.join(one['name'] for one in found)}" if found else ""


def _alarms(report: dict[str, Any]) -> list[Finding]:
    clouds = report["clouds"] if isinstance(report["clouds"], list) else []
    rung = [(cloud["name"], alarm) for cloud in clouds for alarm in cloud.get("alarms", ())]
    detail = "; ".join(f"{name}: {alarm['body']}" for name, alarm in rung)
    return [
        _finding("clouds", not rung, detail or "no alarm", "; ".join(alarm["remedy"] for _, alarm in rung)),
    ]


def _fleet(report: dict[str, Any]) -> list[Finding]:
    alive = len(report["conductors"]) if isinstance(report["conductors"], list) else 0
    lost, waits = unserved_groups(report), waiting_tasks(report)
    detail = f"{alive} alive" + (f"; no conductor serves {', '.join(lost)}" if lost else "")
    remedy = "start a conductor for it: coterie conductor --group NAME; see `coterie conductors groups`"
    return [
        _finding("conductors", alive > 0 and not lost, detail, remedy),
        _finding("waiting", not waits, "; ".join(waits[:5]) or "nothing waits", "coterie tasks show TASK"),
    ]


def _discard(words: str) -> None:
    """No messages beside the report."""


Json = dict[str, Any]
_FAILED = 5
_RUNNING = 20


def bundle(client: Client) -> Json:
    """One part per query; a query that fails gives its error, and the other parts stay."""
    queries: dict[str, Callable[[], Any]] = {
        "info": client.director.info,
        "versions": client.versions,
        "config": client.director.config,
        "conductors": lambda: list(client.conductors.list()),
        "groups": lambda: list(client.conductors.groups()),
        "clouds": lambda: list(client.clouds.list()),
        "running": lambda: _tasks(client, "running", _RUNNING),
        "failed": lambda: _tasks(client, "failed", _FAILED),
        "metrics": lambda: client.health.metrics().splitlines(),
    }
    return {name: _answer_or_error(ask) for name, ask in queries.items()}


def unserved_groups(found: Json) -> list[str]:
    """Groups with nodes that no live conductor serves, in words."""
    groups = found["groups"] if isinstance(found["groups"], list) else []
    return [f"{one['name'] or '(none)'}: {one['orphans']} nodes" for one in groups if one["orphans"]]


def waiting_tasks(found: Json) -> list[str]:
    """Why running tasks wait, in words."""
    tasks = found["running"] if isinstance(found["running"], list) else []
    return [f"task {task['id']}: {why}" for task in tasks for why in task["waiting"]]


def _answer_or_error(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except CoterieError as error:
        return {"error": error.facts()}


def _tasks(client: Client, state: Literal["running", "failed"], limit: int) -> list[Any]:
    found = client.tasks.list(state=state, without="look").listing(limit)["items"]
    return [client.tasks.get(task["id"]) for task in found]


_PACKAGES = ("click", "rich", "ruamel.yaml", "pydantic", "sqlalchemy", "alembic", "psycopg", "fastapi", "uvicorn")
_LOG_LINES = 50


def _versions_here() -> dict[str, str]:
    found = {"coterie": __version__, "python": sys.version.split()[0], "platform": platform.platform()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "missing"
    return found


def _files(folder: Path) -> list[dict[str, Any]]:
    try:
        return [{"name": one.name, "size": one.lstat().st_size} for one in sorted(folder.iterdir())]
    except OSError:
        return []


def _log_tail(log: Path) -> list[str]:
    try:
        with log.open("rb") as source:
            source.seek(max(0, log.stat().st_size - 64 * 1024))
            lines = source.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    return [hide_credentials(line) for line in lines[-_LOG_LINES:]]
