"""The verbs: without a name a survey (a dry run), then `apply`, `undo`, `status`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from coterie.cli.cleanup import file
from coterie.cli.cleanup.picture import items_table, picture
from coterie.cli.cleanup.spans import Span
from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import noun
from coterie.cli.show.table import as_json, table
from coterie.cli.watch.task import INTERRUPTED, TIMED_OUT, watch_or_leave, watch_quietly
from coterie.errors import UsageError
from coterie.times import ago

PENDING, INCOMPLETE = 3, 1


@noun("cleanup")
@click.option("--save", metavar="FILE", help="Keep the plan for `coterie cleanup apply FILE`.")
@click.option("--kinds", multiple=True, metavar="KIND", help="Only this kind; may be repeated, or a,b,c.")
@click.option("--not-kinds", multiple=True, metavar="KIND", help="All but this kind.")
@click.option("--name", "names", multiple=True, metavar="GLOB", help="Only names like this (3 letters or more).")
@click.option("--not-name", "not_names", multiple=True, metavar="GLOB", help="No names like this.")
@click.option("--cloud", "clouds", multiple=True, metavar="NAME", help="Only this cloud.")
@click.option("--not-cloud", "not_clouds", multiple=True, metavar="NAME", help="All but this cloud.")
@click.option("--az", "azs", multiple=True, metavar="AZ", help="Only this az, by the cloud's name for it.")
@click.option("--not-az", "not_azs", multiple=True, metavar="AZ", help="All but this az.")
@click.option("--grace", "grace_s", type=Span(), help="Unused for so long before it goes (24h); 0 is allowed.")
@click.option("--older-than", "older_than_s", type=Span(), help="Only objects that the cloud created before that.")
@click.option("--undo-window", "undo_s", type=Span(), help="Keep unused disks for so long (7d); 0: they go too.")
@click.option("--disks", type=click.Choice(["keep", "snapshot"]), help="Keep unused disks, or snapshot them first.")
@click.option("--keep-stemcells", type=click.IntRange(min=0), metavar="N", help="Newest unused images that stay (2).")
@click.option("--cap", type=click.IntRange(min=0), metavar="N", help="No more deletes of a kind and cloud (20).")
@click.option("--cap-percent", type=click.FloatRange(0, 100), metavar="P", help="Nor a larger share of it (25).")
@click.option(
    "--rate", type=click.FloatRange(min=0, min_open=True), metavar="R", help="Deletes a second and cloud (5)."
)
@click.option("--expires", "expires_s", type=Span(), help="How long the plan may be applied (24h).")
@click.option("--hours", metavar="H-H", help="Delete only in these hours, UTC; for example 22-6.")
@click.option("--exit-code", is_flag=True, help="Exit with 3 when something could be done.")
@click.option("--detail", is_flag=True, help="Show everything that is kept.")
def cleanup(session: Session, save: str | None, exit_code: bool, detail: bool, **wanted: Any) -> int:
    """List what was left behind in the clouds and is provably ours. Deletes nothing.

    Exits with 0, with 3 if something could be done (--exit-code), with 1 if a kind could not be surveyed.
    """
    begun = session.client.cleanups.begin(**_survey_body(wanted))
    code = _follow(session, begun["task_id"])
    if code in (TIMED_OUT, INTERRUPTED) or not session.wait:
        session.say(f"cleanup {begun['cleanup']}: see `coterie cleanup status {begun['cleanup']}`")
        return code
    run = session.client.cleanups.get(begun["cleanup"])
    _show(session, run, detail)
    if save:
        file.save(save, run["plan"])
        session.say(f"saved; apply it with: coterie cleanup apply {save}")
    if run["plan"]["stopped"]:
        return INCOMPLETE
    return PENDING if exit_code and run["plan"]["items"] else 0


@cleanup.verb("apply")
@click.argument("plan")
def apply(session: Session, plan: str) -> int:
    """Apply the saved PLAN. Every object is read again first; an object that has changed is left alone."""
    saved = file.load(plan)
    if not session.json and saved["items"]:
        session.data(items_table(saved["items"], session.paint))
    doomed = [item for item in saved["items"] if item["action"] == "delete"]
    if doomed:
        session.confirm(f"Delete {len(doomed)} objects for good?")
    task = session.client.cleanups.apply(saved["cleanup"], plan=saved["id"], items=saved["items"])
    code = watch_or_leave(session, task)
    if session.wait and not session.json:
        outcomes = session.client.cleanups.get(saved["cleanup"])["outcomes"]
        session.say(", ".join(f"{count} {word}" for word, count in sorted(outcomes.items())) or "nothing was done")
    return code


@cleanup.verb("undo")
@click.argument("disks", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All disks that are in their undo window.")
def undo(session: Session, disks: tuple[str, ...], everything: bool) -> None:
    """Save DISKS (by CID or intent) from their undo window: no cleanup deletes them any more."""
    if bool(disks) == everything:
        raise UsageError("which disks?", remedy="name them, or say --all; see `coterie cleanup status`")
    answer = session.client.cleanups.undo(names=disks)
    if session.json:
        session.data(as_json(answer))
        return
    for one in answer["saved"]:
        session.say(f"{one['kind']} {one['cid']} stays; delete it by name: coterie disks delete {one['intent']}")


@cleanup.verb("status")
@click.argument("number", type=int, required=False)
@click.option("--detail", is_flag=True, help="Show everything that is kept.")
def status(session: Session, number: int | None, detail: bool) -> None:
    """The last runs and the objects that are marked; or one run with its plan and findings."""
    if number is not None:
        run = session.client.cleanups.get(number)
        _show(session, run, detail)
        return
    runs = session.client.cleanups.list().listing(10)
    marks = session.client.cleanups.marks().listing()
    if session.json:
        session.data(as_json({"cleanups": runs["items"], "marks": marks["items"]}))
        return
    rows = [[*[run[name] for name in ("id", "state", "requested_by")], ago(run["created_at"])] for run in runs["items"]]
    session.data(table(("CLEANUP", "STATE", "BY", "BEGUN"), rows, session.paint, state=1))
    if marks["items"]:
        marked = [[m["kind"], m["cloud"], m["cid"], ago(m["since"]), m["doomed"], m["pinned"]] for m in marks["items"]]
        headers = ("KIND", "CLOUD", "CID", "UNUSED SINCE", "IN UNDO WINDOW", "SAVED")
        session.data("\n" + table(headers, marked, session.paint))


def _survey_body(wanted: dict[str, Any]) -> dict[str, Any]:
    """Lists may come as a,b,c too; an option that was not given is left to the Director."""
    given: dict[str, Any] = {}
    for name, value in wanted.items():
        if isinstance(value, tuple):
            # An empty word stays: it is refused by the Director, for it usually is an unset variable.
            given[name] = [part.strip() for word in value for part in word.split(",")] or None
        else:
            given[name] = value
    return given


def _follow(session: Session, task: int) -> int:
    """A survey's own report is its plan; so the task is followed in silence."""
    if not session.wait:
        session.say(f"task {task} runs; follow it with: coterie tasks watch {task}")
        return 0
    return watch_quietly(session, task)


def _show(session: Session, run: Mapping[str, Any], detail: bool) -> None:
    if session.json:
        found = session.client.cleanups.findings(run["id"]).listing() if detail else None
        session.data(as_json({**run, "findings": found["items"]} if found else run))
        return
    if run["plan"] is None:
        session.data(f"Cleanup {run['id']}: {run['state']}")
        return
    found = session.client.cleanups.findings(run["id"]).listing()
    session.data(picture(run, found["items"], session.paint, detail=detail))
