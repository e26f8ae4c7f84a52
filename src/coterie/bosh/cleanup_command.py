"""The verb `cleanup`: asks for it through the same method that callers use, and shows the report."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

from coterie.bosh.core.service import Office
from coterie.cpi.contract import Json
from coterie.errors import CoterieError, UsageError


def tidy(given: Namespace) -> int:
    """0 when nothing is left to do, 1 when a deletion failed or a kind was stopped."""
    options = {"dry_run": not given.apply, "grace_s": given.grace, "cap": given.cap, "kinds": given.kind}
    request = {
        "method": "cleanup",
        "arguments": [given.director_uuid, _known(given.known), options],
        "context": {"director_uuid": given.director_uuid},
        "api_version": 3,
    }
    office = Office(given.config)
    try:
        envelope = json.loads(office.answer(json.dumps(request).encode()))
    finally:
        office.close()
    if envelope["error"]:
        raise CoterieError(envelope["error"]["message"])
    report = envelope["result"]
    print(json.dumps(report, indent=2) if given.output == "json" else _table(report, given.apply))
    return int(any(told["failed"] or told["stopped"] for told in report.values()))


def _known(file: str | None) -> Any:
    if file is None:
        return None
    try:
        return json.loads(Path(file).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"--known {file} cannot be read", why=str(error), remedy='write JSON such as {"vm": ["cid"], "disk": []}'
        ) from error


def _table(report: Json, applied: bool) -> str:
    lines = []
    for kind, told in report.items():
        for found in told["found"]:
            done = "deleted" if found["cid"] in told["deleted"] else found["verdict"]
            lines.append(f"{kind:<15} {found['cid']:<45} {done:<8} {found['reason']}")
        lines += [f"{kind:<15} {failed['cid']:<45} failed   {failed['error']['what']}" for failed in told["failed"]]
        if told["stopped"]:
            lines.append(f"{kind:<15} nothing was deleted: {told['stopped']}")
    if not lines:
        return "nothing of this Director is left over"
    orphans = sum(found["verdict"] == "orphan" for told in report.values() for found in told["found"])
    return "\n".join(lines if applied or not orphans else [*lines, f"{orphans} would be deleted with --apply"])
