"""The method `cleanup` with the local ledger as witness, and the verbs for people."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from coterie.cpi_program.alone import respond
from coterie.ids import Ids
from coterie.ledger import intents, leases
from coterie.sandbox import disks
from coterie.sandbox.vm_shape import get_vm
from tests.cpi_program.shop import DIRECTOR, Shop

MARK = "0123456789abcdefghjkmnpqrs"


def verb(shop: Shop, *words: str) -> subprocess.CompletedProcess[str]:
    source = str(Path(respond.__code__.co_filename).parents[2])
    return subprocess.run(
        [sys.executable, "-m", "coterie.cpi_program.main", words[0], "--config", str(shop.config), *words[1:]],
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        timeout=60,
    )


def stray(shop: Shop, intent: str) -> str:
    """A disk with our mark whose answer nobody ever got."""
    tags = {"coterie-director": DIRECTOR, "coterie-intent": intent}
    return disks.create_disk(shop.account, name="d", size_mb=1024, zone="z1", tags=tags).id


def verdicts(report: Any, kind: str) -> dict[str, str]:
    return {found["cid"]: found["verdict"] for found in report[kind]["found"]}


def test_what_the_ledger_holds_is_kept(shop: Shop) -> None:
    stemcell = shop.stemcell()
    shop.create_vm("agent-1", stemcell, group="g-web")
    shop.call("create_disk", 1024, {"zone": "z1"}, None, version=1)
    before = shop.inventory()
    shop.cleanup()
    assert shop.inventory() == before


@pytest.mark.parametrize("known", [None, {"disk": []}, {"vm": []}])
def test_what_the_ledger_never_heard_of_is_kept_whatever_the_caller_says(shop: Shop, known: Any) -> None:
    shop.stemcell()
    cid = stray(shop, MARK)
    report = shop.cleanup(known)
    assert verdicts(report, "disk") == {cid: "keep"}
    assert "restored from an old backup" in report["disk"]["found"][0]["reason"]
    assert shop.inventory()["disk"] == [cid]


@pytest.mark.parametrize("known", [None, {"disk": [], "image": []}])
@pytest.mark.parametrize("place", ["lost.db", "not-mounted/coterie_cpi/ledger.db"])
def test_without_a_ledger_everything_is_listed_and_nothing_deleted(shop: Shop, known: Any, place: str) -> None:
    stemcell, disk = shop.stemcell(), shop.call("create_disk", 1024, {"zone": "z1"}, None, version=1)
    shop.configure(ledger=str(shop.folder / place))
    report = shop.cleanup(known)
    assert (verdicts(report, "disk"), verdicts(report, "image")) == ({disk: "keep"}, {stemcell: "keep"})
    assert "name with `ledger:`" in report["disk"]["stopped"]
    assert report["vm"]["stopped"] is None
    assert shop.inventory() == {"disk": [disk], "image": [stemcell]}
    assert not (shop.folder / place).exists()


def test_groups_that_compilation_machines_left_behind_go_and_used_ones_stay(shop: Shop) -> None:
    shop.configure(groups={"compilation": True})
    stemcell, jobs = shop.stemcell(), [f"compilation-{n}b5b4a9e-1111-2222-3333-444444444444" for n in range(3)]
    cids = [shop.create_vm(job, stemcell, group=f"bosh-dep-{job}", job=job) for job in jobs]
    for cid in cids[1:]:
        shop.call("delete_vm", cid)
    assert len(shop.inventory()["server_group"]) == 3
    report = shop.cleanup()
    assert len(report["server_group"]["deleted"]) == 2
    (left,) = shop.inventory()["server_group"]
    assert get_vm(shop.account, cids[0]).groups == (left,)
    shop.call("delete_vm", cids[0])
    shop.cleanup()
    assert shop.inventory() == {"image": [stemcell]}


def test_with_a_list_what_is_not_on_it_goes(shop: Shop) -> None:
    stemcell = shop.stemcell()
    kept = shop.call("create_disk", 1024, {"zone": "z1"}, None, version=1)
    lost = shop.call("create_disk", 1024, {"zone": "z1"}, None, version=1)
    report = shop.cleanup({"disk": [kept]})
    assert report["disk"]["deleted"] == [lost]
    assert shop.inventory() == {"image": [stemcell], "disk": [kept]}


def test_a_kind_that_the_list_leaves_out_is_decided_by_the_ledger(shop: Shop) -> None:
    stemcell = shop.stemcell()
    report = shop.cleanup({"vm": []})
    assert shop.inventory() == {"image": [stemcell]}
    assert "named no image" in report["image"]["notes"][0]


def test_what_a_living_call_works_on_is_spared(shop: Shop) -> None:
    shop.stemcell()
    intent = Ids().intent()
    with shop.ledger() as ledger, ledger.write() as tx:
        intents.intend(tx, intent, "disk", "lab", DIRECTOR)
        leases.take(tx, f"intent/{intent}", "other", 60)
    cid = stray(shop, intent)
    assert verdicts(shop.cleanup({"disk": []}), "disk") == {cid: "keep"}
    with shop.ledger() as ledger, ledger.write() as tx:
        leases.release(tx, f"intent/{intent}", "other")
    shop.cleanup({"disk": []})
    assert "disk" not in shop.inventory()


def test_a_tombstone_makes_a_late_arrival_an_orphan(shop: Shop) -> None:
    shop.stemcell()
    with shop.ledger() as ledger, ledger.write() as tx:
        intents.intend(tx, MARK, "disk", "lab", DIRECTOR)
        intents.gone(tx, MARK, tombstone=True)
    cid = stray(shop, MARK)
    assert shop.cleanup()["disk"]["deleted"] == [cid]


def test_the_young_are_spared(shop: Shop) -> None:
    shop.stemcell()
    cid = shop.call("create_disk", 1024, {"zone": "z1"}, None, version=1)
    assert verdicts(shop.cleanup({"disk": []}, grace_s=3600), "disk") == {cid: "young"}


def test_a_dry_run_changes_nothing_and_is_the_default(shop: Shop) -> None:
    cid = shop.call("create_disk", 1024, {"zone": "z1"}, None, version=1)
    report = shop.call("cleanup", DIRECTOR, {"disk": []}, {"grace_s": 0})
    assert verdicts(report, "disk") == {cid: "orphan"}
    assert shop.inventory()["disk"] == [cid]


def test_others_are_never_touched(shop: Shop) -> None:
    shop.stemcell()
    foreign = shop.call("create_disk", 1024, {"zone": "z1"}, None, version=1, director_uuid="another")
    shop.cleanup({"vm": [], "disk": [], "image": []})
    assert shop.inventory() == {"disk": [foreign]}


def test_the_verb_shows_first_and_deletes_when_told(shop: Shop) -> None:
    cid = shop.call("create_disk", 1024, {"zone": "z1"}, None, version=1)
    known = shop.folder / "known.json"
    known.write_text(json.dumps({"disk": []}))
    words = ("cleanup", "--director-uuid", DIRECTOR, "--known", str(known), "--grace", "0")
    shown = verb(shop, *words)
    assert (shown.returncode, cid in shown.stdout, "1 would be deleted with --apply" in shown.stdout) == (0, True, True)
    assert shop.inventory() == {"disk": [cid]}
    assert verb(shop, *words, "--apply").returncode == 0
    assert shop.inventory() == {}


def test_the_verb_names_a_list_that_cannot_be_read(shop: Shop) -> None:
    told = verb(shop, "cleanup", "--director-uuid", DIRECTOR, "--known", str(shop.folder / "none"))
    assert told.returncode == 2
    assert "--known" in told.stderr


def test_check_says_what_is_in_order_and_what_is_not(shop: Shop) -> None:
    good = verb(shop, "check")
    assert (good.returncode, "BAD" in good.stdout) == (0, False)
    shop.config.chmod(0o644)
    shop.configure(ledger="/nonexistent/folder/ledger.db")
    shop.config.chmod(0o644)
    bad = verb(shop, "check", "-o", "json")
    assert bad.returncode == 1
    failed = {item["what"]: item["remedy"] for item in json.loads(bad.stdout) if not item["ok"]}
    assert failed.keys() == {"file permissions", "ledger"}
    assert all(failed.values())


def test_the_launcher_is_a_program_that_needs_no_environment(shop: Shop) -> None:
    file = shop.folder / "bin-cpi"
    assert verb(shop, "launcher", str(file)).returncode == 0
    done = subprocess.run([str(file)], input=shop.request("has_vm", "i-1"), env={}, capture_output=True, timeout=60)
    assert (done.returncode, json.loads(done.stdout)["result"]) == (0, False)


@pytest.mark.parametrize("words", [["--frobnicate"], ["--config"], ["destroy"]])
def test_a_wrong_word_is_a_usage_error_and_reads_no_request(words: list[str], shop: Shop) -> None:
    source = str(Path(respond.__code__.co_filename).parents[2])
    command = [sys.executable, "-m", "coterie.cpi_program.main", *words]
    told = subprocess.run(command, env={**os.environ, "PYTHONPATH": source}, capture_output=True, timeout=60)
    assert (told.returncode, told.stdout) == (2, b"")
