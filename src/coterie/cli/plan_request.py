"""A deploy request as the API takes it, the plan for it, and saved plans (applied only if planning still agrees)."""

from __future__ import annotations

import json
import sys
from typing import Any, Literal

import click

from coterie.cli.frame.documents import read, write_private
from coterie.cli.frame.session import Session
from coterie.cli.show.table import as_json
from coterie.cli.watch.task import watch_or_leave
from coterie.errors import UsageError

Json = dict[str, Any]


def deploy_request(
    session: Session,
    manifest: str,
    cloud_config: str | None,
    recreate: bool,
    nodes: tuple[str, ...],
    reuse_disks: bool | None = None,
) -> Json:
    reuse = {"reuse_disks": True} if reuse_disks else {}  # a Director of an earlier release refuses the word
    return {
        **reuse,
        "manifest": read(manifest),
        "manifest_file": manifest,
        "cloud_config": _config(session, cloud_config) if cloud_config else None,
        "config_file": cloud_config or "cloud-config",
        "recreate": recreate,
        "nodes": list(nodes),
    }


def _config(session: Session, file: str) -> str:
    from coterie.cli.link.sealing import seal_if_remote

    return seal_if_remote(session.client, read(file), file)


def seal_request(session: Session, request: Json) -> Json:
    """The same request, fit for a file: only conductors can open the cloud config in it."""
    from coterie.cli.link.sealing import seal_with_published

    text, file = request["cloud_config"], request["config_file"]
    return {**request, "cloud_config": seal_with_published(session.client, text, file) if text else None}


def request_plan(session: Session, request: Json, *, detail: bool, kept: bool = False) -> Json:
    """The plan, with its text unless JSON is wanted; one that is kept may be shown as text later."""
    text: Literal["none", "short", "detail"] = "none" if session.json and not kept else "detail" if detail else "short"
    return {**session.client.plans.make(text=text, **request)}


def show(session: Session, plan: Json) -> None:
    if session.json:
        session.data(as_json(plan))
    else:
        session.data(session.paint.plan(plan["text"]))


def agree(session: Session, plan: Json) -> None:
    """Ask before anything is changed. Without a terminal, what destroys nothing needs no --yes."""
    if not plan["changes"]:
        return
    if plan["destructive"]:
        session.confirm("This destroys or interrupts what runs. Go on?")
    elif sys.stdin.isatty():
        session.confirm("Go on?")


def offer_disks(session: Session, request: Json, plan: Json, *, detail: bool) -> tuple[Json, Json]:
    """Ask whether new nodes shall take the disks that were kept; the request and the plan after that."""
    offers = plan.get("offers") or []
    if not offers or session.yes or session.json or session.quiet or not sys.stdin.isatty():
        return request, plan
    for one in offers:
        session.say(f"  {one['node']}: kept disk {one['cid']} of {one['of']} ({one['size_mb']} MiB)")
    if not click.confirm("Use these kept disks again, with their data?", default=False, err=True):
        return request, plan
    request = {**request, "reuse_disks": True}
    plan = request_plan(session, request, detail=detail)
    show(session, plan)
    return request, plan


def act(session: Session, deployment: str, request: Json, *, dry_run: bool) -> int:
    """Work on nodes: plan, show, ask, start, follow."""
    plan = request_plan(session, {"deployment": deployment, **request}, detail=True)
    if dry_run or not (session.json or session.quiet):
        show(session, plan)
    if dry_run or not plan["changes"]:
        return 0
    agree(session, plan)
    return watch_or_leave(session, session.client.deployments.act(deployment, **request, plan=plan["id"]))


_FORM = 1


def save(path: str, request: dict[str, Any], plan: dict[str, Any]) -> None:
    # The manifest inside may hold secrets.
    write_private(path, json.dumps({"coterie_plan": _FORM, "wish": request, "plan": plan}, indent=2) + "\n")


def load(path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The request and the plan."""
    try:
        saved = json.loads(read(path))
        if saved["coterie_plan"] == _FORM:
            return dict(saved["wish"]), dict(saved["plan"])
    except (ValueError, KeyError, TypeError) as error:
        raise _no_plan(path, str(error)) from error
    raise _no_plan(path, f"it has form {saved['coterie_plan']}, this release reads {_FORM}")


def _no_plan(path: str, why: str) -> UsageError:
    return UsageError(f"{path} is no saved plan", why=why, remedy="make one: coterie plan MANIFEST --save FILE")
