"""The examination behind `coterie doctor`: findings about this machine and the way to the Director; reads only."""

from __future__ import annotations

from typing import Any

from coterie import __version__
from coterie.cli.link import here
from coterie.cli.link.api import Api
from coterie.cli.link.bundle import bundle, unserved, waiting
from coterie.cli.link.route import Route, UnixRoute, route_to
from coterie.cli.local import look
from coterie.director.process.state_folder import StateFolder
from coterie.errors import CoterieError
from coterie.settings import Settings

Finding = dict[str, Any]


def examine(settings: Settings) -> dict[str, Any]:
    state_folder = StateFolder(settings.state)
    local = look(state_folder)
    findings = [_folder(state_folder), _running(settings, local), *_ledger(settings, state_folder, local)]
    told, more = _reach(settings, state_folder, local)
    return {
        "versions": here.versions(),
        "config": settings.facts(),
        "local": local,
        "findings": findings + more,
        "director": told,
        "files": here.files(state_folder.path),
        "log": here.tail(state_folder.log),
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
    """Whether a local Director could start on its database; one that runs tells by itself whether it can work."""
    elsewhere = settings["director"] is not None or local["running"]
    if elsewhere or not (settings["database"] or state_folder.ledger.exists()):
        return []
    from coterie.ledger.store import Ledger  # dear, and only a doctor looks into it

    try:
        Ledger.examine(settings["database"] or state_folder.database)
    except CoterieError as error:
        return [_finding("ledger", False, str(error), error.remedy)]
    except Exception as error:  # a server that does not answer says so in its driver's own words
        return [
            _finding("ledger", False, type(error).__name__, "see that the database runs, and the setting `database`")
        ]
    return [_finding("ledger", True, "can be read")]


def _reach(
    settings: Settings, state_folder: StateFolder, local: dict[str, Any]
) -> tuple[dict[str, Any] | None, list[Finding]]:
    """What the Director tells, and what is to be found in it."""
    if settings["director"] is None and not local["running"]:
        return None, []
    try:
        api = Api(_route(settings, state_folder))
        asked = _asked(api)
    except CoterieError as error:
        return None, [_finding("reachable", False, str(error), error.remedy)]
    told = bundle(api)
    return told, asked + _fleet(told)


def _route(settings: Settings, state_folder: StateFolder) -> Route:
    # Not the local route: that one would start a Director, and a doctor only looks.
    if settings["director"] is None:
        return UnixRoute(state_folder.socket, "default")
    return route_to(settings, foreground=False, say=_unsaid)


def _asked(api: Api) -> list[Finding]:
    ready = api.get("/readyz").strip()
    states = ("failing", "dead", "missing")
    broken = sum(len(api.list("/v1/nodes", {"state": state})["items"]) for state in states)
    doubt = len(api.list("/v1/objects", {"state": "unknown"})["items"])
    lost, drifted = (api.list("/v1/groups", {"state": state})["items"] for state in ("missing", "drifted"))
    running = len(api.list("/v1/tasks", {"state": "running"})["items"])
    return [
        _finding("reachable", ready == "ok", ready),
        _finding("tasks", True, f"{running} running"),
        _finding("nodes", not broken, f"{broken} in trouble", "coterie nodes --state failing (dead, missing)"),
        _finding(
            "server groups",
            not (lost or drifted),
            "; ".join(filter(None, (_listed("missing in their clouds", lost), _listed("not as made", drifted))))
            or "all are there",
            "; ".join(dict.fromkeys(one.get("remedy", "see `coterie groups`") for one in [*lost, *drifted])),
        ),
        _finding("objects", not doubt, f"{doubt} in doubt", "coterie nodes show NODE; then coterie nodes settle"),
    ]


def _listed(what: str, groups: list[dict[str, Any]]) -> str:
    return f"{what}: {', '.join(one['name'] for one in groups)}" if groups else ""


def _fleet(told: dict[str, Any]) -> list[Finding]:
    alive = len(told["conductors"]) if isinstance(told["conductors"], list) else 0
    lost, waits = unserved(told), waiting(told)
    detail = f"{alive} alive" + (f"; nobody serves {', '.join(lost)}" if lost else "")
    remedy = "start a conductor for it: coterie conductor --group NAME; see `coterie conductors groups`"
    return [
        _finding("conductors", alive > 0 and not lost, detail, remedy),
        _finding("waiting", not waits, "; ".join(waits[:5]) or "nothing waits", "coterie tasks show TASK"),
    ]


def _unsaid(words: str) -> None:
    """A doctor's own report is all that is said."""
