"""What is wished for, as the API takes it, and the plan that comes of it."""

from __future__ import annotations

import sys
from typing import Any

from coterie.cli.frame.documents import read
from coterie.cli.frame.session import Session
from coterie.cli.show.data import as_json

Json = dict[str, Any]


def deploy_wish(
    session: Session, manifest: str, cloud_config: str | None, recreate: bool, nodes: tuple[str, ...]
) -> Json:
    return {
        "manifest": read(manifest),
        "manifest_file": manifest,
        "cloud_config": _config(session, cloud_config) if cloud_config else None,
        "config_file": cloud_config or "cloud-config",
        "recreate": recreate,
        "nodes": list(nodes),
    }


def _config(session: Session, file: str) -> str:
    from coterie.cli.link.sealing import sealed

    return sealed(session.api, read(file), file)


def sealed(session: Session, wish: Json) -> Json:
    """The same wish, fit to lie in a file: the cloud config in it can be opened by conductors only."""
    from coterie.cli.link.sealing import sealed_anyway

    text, file = wish["cloud_config"], wish["config_file"]
    return {**wish, "cloud_config": sealed_anyway(session.api, text, file) if text else None}


def ask(session: Session, wish: Json, *, detail: bool, kept: bool = False) -> Json:
    """The plan, with its text unless JSON is wanted; one that is kept may be shown as text later."""
    text = "none" if session.json and not kept else "detail" if detail else "short"
    plan: Json = session.api.send("POST", "/v1/plans", {"text": text}, wish, harmless=True).body
    return plan


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
