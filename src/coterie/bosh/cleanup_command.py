"""The verb `cleanup` of `coterie-cpi`: lists callers and their clouds, and cleans up one of them or all."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coterie.bosh.config import Config
from coterie.bosh.core.call_context import override_config
from coterie.bosh.core.service import CpiService
from coterie.cpi.contract import Json
from coterie.errors import CoterieError, UsageError
from coterie.ledger.rows import objects
from coterie.slotted import dataclass, field


@dataclass(frozen=True, slots=True)
class Target:
    """What one Director has in one cloud. `cloud`: the ledger's name. `name`: the operator's. `properties` None: the
    configuration does not say how to reach it. `counts`: by kind, what may be there."""

    director: str
    cloud: str
    name: str
    properties: Mapping[str, Any] | None
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return self.name if self.name == self.cloud else f"{self.name} ({self.cloud})"


def cleanup(given: argparse.Namespace) -> int:
    """0 when nothing is left to do, 1 when a deletion failed, a kind was stopped or a cloud could not be reached."""
    _refuse_words_without_effect(given)
    service = CpiService(given.config)
    try:
        if given.director_uuid:
            return _clean(service, given, _target(service.config, given))
        targets = [one for one in _targets(service) if given.cloud in (None, one.name, one.cloud)]
        return _clean_all(service, given, targets) if given.all else _list(targets, given)
    finally:
        service.close()


def _refuse_words_without_effect(given: argparse.Namespace) -> None:
    of_one = [word for word, value in (("--known", given.known), ("--left-out", given.left_out)) if value]
    if given.all and given.director_uuid:
        raise UsageError("--all takes no --director-uuid", remedy="leave out one of them")
    if given.all and of_one:
        raise UsageError("--all takes no list of one Director", remedy="leave out --known and --left-out")
    words = [*of_one, *(["--apply"] if given.apply else [])]
    if words and not (given.all or given.director_uuid):
        raise UsageError(
            f"{' and '.join(words)} without a Director: uuids would be listed, and nothing cleaned up",
            remedy="add --director-uuid UUID; --apply also goes with --all",
        )


def _target(config: Config, given: argparse.Namespace) -> Target:
    """The cloud that an operator names; without a name, that of the configuration."""
    name = given.cloud or config.cloud
    named = _named_clouds(config)
    found = named.get(name) or next((one for one in named.values() if one[0] == name), None)
    if found is None:
        raise UsageError(
            f"--cloud {name}: the configuration has no such cloud",
            remedy=f"use one of: {', '.join(named)}; or write its properties under `clouds:`, as in the cpi-config",
        )
    return Target(given.director_uuid, found[0], name, found[1])


def _named_clouds(config: Config) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """By the operator's name: the ledger's name, and the properties that calls to that cloud carry."""
    found = {name: (override_config(config, dict(more)).cloud, more) for name, more in config.clouds.items()}
    return {config.cloud: (config.cloud, {}), **found}


def _targets(service: CpiService) -> list[Target]:
    with service.local_ledger(service.config).open_existing().read() as tx:
        rows = objects.callers(tx)
    names = {cloud: (name, properties) for name, (cloud, properties) in _named_clouds(service.config).items()}
    found: dict[tuple[str, str], Target] = {}
    for director, cloud, kind, count in rows:
        name, properties = names.get(cloud, (cloud, None))
        found.setdefault((director, cloud), Target(director, cloud, name, properties)).counts[kind] = count
    return list(found.values())


def _list(targets: Sequence[Target], given: argparse.Namespace) -> int:
    if given.output == "json":
        rows = [
            {"director": one.director, "cloud": one.cloud, "name": one.name, "objects": one.counts} for one in targets
        ]
        print(json.dumps(rows, indent=2))
        return 0
    for one in targets:
        counts = ", ".join(f"{kind} {count}" for kind, count in one.counts.items())
        print(f"{one.director:<37} {one.title:<37} {'; '.join(filter(None, (counts, _unreachable(one, given))))}")
    print("clean up one with --director-uuid UUID [--cloud NAME], or all with --all" if targets else "nothing is left")
    return 0


def _unreachable(target: Target, given: argparse.Namespace) -> str:
    if target.properties is not None:
        return ""
    return f"{given.config} does not say how to reach it: write its properties under `clouds:`"


def _clean_all(service: CpiService, given: argparse.Namespace, targets: Sequence[Target]) -> int:
    """A cloud that cannot be reached keeps none of the others from being cleaned up."""
    reports, status = [], 0
    for one in targets:
        report, trouble = None, _unreachable(one, given)
        if not trouble:
            try:
                report = _report(service, given, one)
            except CoterieError as error:
                trouble = str(error)
        status |= 1 if report is None else _status(report)
        if given.output == "json":
            found = {"error": trouble} if report is None else {"report": report}
            reports.append({"director": one.director, "cloud": one.cloud, "name": one.name, **found})
        else:
            print(f"{one.director} {one.title}")
            print(trouble if report is None else _table(report, given.apply))
    if given.output == "json":
        print(json.dumps(reports, indent=2))
    return status


def _clean(service: CpiService, given: argparse.Namespace, target: Target) -> int:
    report = _report(service, given, target)
    print(json.dumps(report, indent=2) if given.output == "json" else _table(report, given.apply))
    return _status(report)


def _status(report: Json) -> int:
    return int(any(part["failed"] or part["stopped"] for part in report.values()))


def _report(service: CpiService, given: argparse.Namespace, target: Target) -> Json:
    options = {
        "dry_run": not given.apply,
        "grace_s": given.grace,
        "cap": given.cap,
        "cap_percent": given.cap_percent,
        "left_out": _read_left_out(given.left_out),
        "kinds": given.kind,
    }
    request = {
        "method": "cleanup",
        "arguments": [target.director, _read_known(given.known), options],
        "context": {**(target.properties or {}), "director_uuid": target.director},
        "api_version": 3,
    }
    envelope = json.loads(service.answer(json.dumps(request).encode()))
    if envelope["error"]:
        raise CoterieError(envelope["error"]["message"])
    report: Json = envelope["result"]
    return report


def _read_known(file: str | None) -> Any:
    if file is None:
        return None
    try:
        return json.loads(Path(file).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"--known {file} cannot be read", why=str(error), remedy='write JSON such as {"vm": ["cid"], "disk": []}'
        ) from error


def _read_left_out(words: Sequence[str]) -> dict[str, int]:
    pairs = [word.partition("=") for word in words]
    if any(not count.isdigit() for _, _, count in pairs):
        raise UsageError("--left-out is not like vm=10", remedy="count what the list lacks, and write it so")
    return {kind: int(count) for kind, _, count in pairs}


def _table(report: Json, applied: bool) -> str:
    lines = []
    for kind, part in report.items():
        for found in part["found"]:
            done = "deleted" if found["cid"] in part["deleted"] else found["verdict"]
            lines.append(f"{kind:<15} {found['cid']:<45} {done:<8} {found['reason']}")
        lines += [f"{kind:<15} {failed['cid']:<45} failed   {failed['error']['what']}" for failed in part["failed"]]
        if part["stopped"]:
            lines.append(f"{kind:<15} nothing was deleted: {part['stopped']}")
    if not lines:
        return "nothing of this Director is left over"
    orphans = sum(found["verdict"] == "orphan" for part in report.values() for found in part["found"])
    return "\n".join(lines if applied or not orphans else [*lines, f"{orphans} would be deleted with --apply"])
