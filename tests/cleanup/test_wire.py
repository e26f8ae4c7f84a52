"""The CPI method `cleanup`, over the wire, on the sandbox: for callers without our Director."""

from __future__ import annotations

import json
from typing import Any

from coterie.cleanup.cpi_method import CleanupArgs, cleanup
from coterie.cpi.contract import KEEP, Cpi, GroupMetadata, Mark, SecurityGroup
from coterie.cpi.wire import answer
from coterie.sandbox.tags import set_tags
from tests.cleanup.yard import Yard

BOSH = "5b4f0f0e-3c3c-4b51-9e0b-9d2f6d6f6d6f"


def call(cpi: Cpi, known: Any, **options: Any) -> dict[str, Any]:
    request = {"method": "cleanup", "arguments": [BOSH, known, options], "context": {"director_uuid": BOSH}}
    told = json.loads(answer(json.dumps(request).encode(), lambda context: cpi, _no_mark, _cleanup))
    assert told["error"] is None, told
    result: dict[str, Any] = told["result"]
    return result


def _cleanup(cpi: Cpi, director_uuid: str, known: Any, options: dict[str, Any]) -> dict[str, Any]:
    return cleanup(cpi, director_uuid, known, CleanupArgs.of_wire(options))


def _no_mark(*arguments: Any) -> Mark:
    raise AssertionError("cleanup creates nothing")


def test_only_what_the_caller_does_not_know_is_deleted_and_only_without_dry_run(yard: Yard) -> None:
    cpi = yard.site.cpi(director=BOSH)
    used, lost = (cpi.create_disk(1, {}, mark=Mark(BOSH, letter * 26)) for letter in "ab")
    known = {"disk": [used]}
    assert call(cpi, known, grace_s=0)["disk"]["deleted"] == [], "a dry run"
    assert call(cpi, None, grace_s=0, dry_run=False)["disk"]["deleted"] == [], "no ledger to ask"
    assert call(cpi, {"vm": []}, grace_s=0, dry_run=False)["disk"]["deleted"] == [], "nothing is said about disks"
    assert call(cpi, known, dry_run=False)["disk"]["deleted"] == [], "too young"
    assert call(cpi, known, grace_s=0, dry_run=False)["disk"]["deleted"] == [lost]
    assert cpi.has_disk(used) and not cpi.has_disk(lost)


def test_groups_that_compilation_vms_left_behind_go(yard: Yard) -> None:
    cpi = yard.site.cpi(director=BOSH)
    groups = [_group(cpi, name, letter) for name, letter in (("compilation-1f2e", "c"), ("web", "d"))]
    report = call(cpi, {"server_group": groups}, grace_s=0, dry_run=False)["server_group"]
    assert report["deleted"] == [groups[0]]
    assert cpi.inspect_server_group(groups[1]).state == "live"


def test_a_group_with_a_part_that_people_keep_stays_and_is_no_failure(yard: Yard) -> None:
    cpi = yard.site.cpi(director=BOSH)
    group = _group(cpi, "web", "e", SecurityGroup("guard"))
    (part,) = [one.cid for one in cpi.inspect_server_group(group).resources if one.kind == "security_group"]
    set_tags(yard.operator(), part, "security_group", {KEEP: "yes"})
    report = call(cpi, {"server_group": [], "security_group": []}, grace_s=0, dry_run=False)
    assert (report["server_group"]["deleted"], report["server_group"]["failed"]) == ([], [])
    assert [one["verdict"] for one in report["server_group"]["found"]] == ["keep"]
    assert cpi.inspect_server_group(group).state == "live"


def _group(cpi: Cpi, name: str, letter: str, *security_groups: SecurityGroup) -> str:
    director = {"name": "bosh", "uuid": BOSH}
    metadata = GroupMetadata(director, "cf", name, options={"name": name}, security_groups=security_groups)
    return cpi.create_server_group(metadata, mark=Mark(BOSH, letter * 26))
