"""The verbs for people: cleanup, check, launcher, and what is said to a wrong word."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from coterie.bosh.client.in_process import respond
from coterie.bosh.commands import run
from coterie.bosh.core.service import CpiService
from coterie.cpi.contract import Unavailable
from coterie.sandbox.accounts import open_account
from coterie.sandbox.datacenter import open_datacenter
from coterie.sandbox.disks import list_disks
from tests.bosh.program import DIRECTOR, CpiFailure, Shop, result
from tests.bosh.test_delivery import lose


def verb(shop: Shop, *words: str) -> subprocess.CompletedProcess[str]:
    source = str(Path(respond.__code__.co_filename).parents[3])
    return subprocess.run(
        [sys.executable, "-m", "coterie.bosh.main", words[0], "--config", str(shop.config), *words[1:]],
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        timeout=150,
    )


def test_the_verb_lists_first_and_deletes_with_apply(shop: Shop) -> None:
    cid = shop.call("create_disk", 1024, {"zone": "z1"}, None, version=1)
    known = shop.folder / "known.json"
    known.write_text(json.dumps({"disk": []}))
    words = ("cleanup", "--director-uuid", DIRECTOR, "--known", str(known), "--grace", "0")
    shown = verb(shop, *words)
    assert (shown.returncode, "lacks 1 of the 1" in shown.stdout) == (1, True)
    words = (*words, "--left-out", "disk=1")
    shown = verb(shop, *words)
    assert (shown.returncode, cid in shown.stdout, "1 would be deleted with --apply" in shown.stdout) == (0, True, True)
    assert shop.inventory() == {"disk": [cid]}
    assert verb(shop, *words, "--apply").returncode == 0
    assert shop.inventory() == {}


def test_the_verb_names_a_list_that_cannot_be_read(shop: Shop) -> None:
    answer = verb(shop, "cleanup", "--director-uuid", DIRECTOR, "--known", str(shop.folder / "none"))
    assert answer.returncode == 2
    assert "--known" in answer.stderr


def test_check_shows_what_is_in_order_and_what_is_not(shop: Shop) -> None:
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
    done = subprocess.run([str(file)], input=shop.request("has_vm", "i-1"), env={}, capture_output=True, timeout=150)
    assert (done.returncode, json.loads(done.stdout)["result"]) == (0, False)


def test_a_launcher_of_the_first_release_goes_on_working(shop: Shop) -> None:
    file = shop.folder / "bin-cpi"
    assert verb(shop, "launcher", str(file)).returncode == 0
    text = file.read_text()
    assert "coterie.bosh.client.client" in text
    file.write_text(text.replace("coterie.bosh.client.client", "coterie.cpi_program.client"))
    done = subprocess.run([str(file)], input=shop.request("has_vm", "i-1"), env={}, capture_output=True, timeout=150)
    assert (done.returncode, json.loads(done.stdout)["result"]) == (0, False)


@pytest.mark.parametrize("words", [["--frobnicate"], ["--config"], ["destroy"]])
def test_a_wrong_word_is_a_usage_error_and_reads_no_request(words: list[str], shop: Shop) -> None:
    source = str(Path(respond.__code__.co_filename).parents[3])
    command = [sys.executable, "-m", "coterie.bosh.main", *words]
    answer = subprocess.run(command, env={**os.environ, "PYTHONPATH": source}, capture_output=True, timeout=150)
    assert (answer.returncode, answer.stdout) == (2, b"")


def test_a_new_ledger_leaves_no_stray_file_and_no_noise(new_shop: Shop) -> None:
    done = verb(new_shop, "check")
    assert (done.returncode, done.stderr) == (0, "")
    assert new_shop.ledger_file.exists()
    assert not new_shop.ledger_file.with_name("ledger.db.new").exists()
    new_shop.ledger_file.with_name("ledger.db.new").touch()  # as an earlier release left it
    new_shop.stemcell()
    assert not new_shop.ledger_file.with_name("ledger.db.new").exists()


def test_a_network_called_private_does_not_black_out_the_error(shop: Shop) -> None:
    arguments = shop.vm_arguments("agent", shop.stemcell())
    arguments[3] = {"private": {"type": "manual", "ip": "10.0.0.7", "cloud_properties": {"name": "nowhere"}}}
    envelope = json.loads(respond(shop.request("create_vm", *arguments), str(shop.config)))
    assert "nowhere" in envelope["error"]["message"]
    assert "redacted" not in envelope["error"]["message"]


def test_cleanup_lists_uuids_and_clouds_and_takes_all(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    """As when the state file of a create-env is gone: only the ledger knows the uuid."""
    west = {"account": "west"}
    other = "deadbeef"
    kept = shop.call("create_disk", 1024, {"zone": "z1"}, None)
    lose(shop, shop.request("create_disk", 1024, {"zone": "z1"}, None, director_uuid=other))
    lose(shop, shop.request("create_disk", 1024, {"zone": "z1"}, None, director_uuid=other, **west))
    assert run(["cleanup", "--config", str(shop.config)]) == 0
    listed = capsys.readouterr().out
    assert [line.split()[0] for line in listed.splitlines()[:3]] == [DIRECTOR, other, other]
    assert "does not say how to reach it" in listed
    shop.configure(clouds={"my-west": west})
    words = ["cleanup", "--config", str(shop.config), "--all", "--grace", "0", "--apply"]
    assert run(words) == 0
    assert "my-west (lab-" in capsys.readouterr().out
    assert shop.inventory() == {"disk": [kept]}
    assert list_disks(open_account(open_datacenter(shop.folder / "sandbox.db"), "west", operator=True)).items == ()
    assert run(["cleanup", "--config", str(shop.config)]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[:-1]] == [DIRECTOR]


def test_the_command_that_an_error_names_frees_the_address(shop: Shop) -> None:
    """Also in a cloud of a cpi-config, and at once."""
    west = {"account": "west"}
    shop.configure(clouds={"my-west": west})
    stemcell = result(respond(shop.request("create_stemcell", str(shop.image), {}, **west), str(shop.config)))

    def create(agent: str, ip: str) -> str:
        networks = {"default": {"type": "manual", "ip": ip, "netmask": "255.0.0.0", "cloud_properties": {}}}
        words = [*shop.vm_arguments(agent, stemcell)[:3], networks, [], {}]
        return str(result(respond(shop.request("create_vm", *words, **west), str(shop.config)))[0])

    known = create("other", "10.0.0.6")
    create("forgotten", "10.0.0.7")
    with pytest.raises(CpiFailure) as refused:
        create("new", "10.0.0.7")
    _, command, _ = refused.value.error["message"].split("`")
    file = shop.folder / "known.json"
    file.write_text(json.dumps({"vm": [known]}))
    program, *words = command.replace("FILE", str(file)).split()
    assert (program, run([*words, "--config", str(shop.config)])) == ("coterie-cpi", 0)
    create("new", "10.0.0.7")


def test_what_a_lost_state_file_leaves_goes_with_the_commands_of_the_docs(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (Path(__file__).parents[2] / "docs" / "bosh.md").read_text("utf-8")
    block = text[text.index("A state file that is lost") :].split("```")[1]
    lists, write, take = block.strip().splitlines()
    disk = shop.call("create_disk", 1024, {"zone": "z1"}, None)
    vm = shop.create_vm("agent", shop.stemcell(), group="web")
    shop.call("attach_disk", vm, disk)
    assert run([*lists.split()[1:], "--config", str(shop.config)]) == 0
    assert DIRECTOR in capsys.readouterr().out
    subprocess.run(write, shell=True, cwd=shop.folder, check=True)
    words = take.replace("UUID", DIRECTOR).replace("none.json", str(shop.folder / "none.json")).split()
    assert run([*words[1:], "--config", str(shop.config)]) == 0
    assert shop.inventory() == {}


def test_a_cloud_that_does_not_answer_keeps_no_other_from_being_cleaned_up(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    west, far = {"account": "west"}, {"account": "far"}
    for context in (west, {}, far):
        lose(shop, shop.request("create_disk", 1024, {"zone": "z1"}, None, **context))
    shop.configure(clouds={"my-west": west})
    open_cpi = CpiService._open

    def refuse_west(self: CpiService, context: dict[str, Any]) -> Any:
        if context.get("account") == "west":
            raise Unavailable("the cloud cannot be reached", remedy="wait")
        return open_cpi(self, context)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CpiService, "_open", refuse_west)
        words = ["cleanup", "--config", str(shop.config), "--all", "--grace", "0", "--apply", "-o", "json"]
        assert run(words) == 1
    found = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert len(found["lab"]["report"]["disk"]["deleted"]) == 1
    assert "cannot be reached" in found.pop("my-west")["error"]
    assert [one["error"] for one in found.values() if "error" in one] == [
        f"{shop.config} does not say how to reach it: write its properties under `clouds:`"
    ]
    assert shop.inventory() == {}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--apply"], "--apply without a Director"),
        (["--known", "list.json", "--apply"], "--known and --apply without a Director"),
        (["--left-out", "vm=1"], "--left-out without a Director"),
        (["--all", "--director-uuid", DIRECTOR], "--all takes no --director-uuid"),
        (["--all", "--known", "list.json"], "--all takes no list"),
    ],
)
def test_words_that_would_do_nothing_are_refused(
    shop: Shop, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert run(["cleanup", "--config", str(shop.config), *words]) == 2
    assert said in capsys.readouterr().err


def test_a_cloud_is_cleaned_up_by_the_operators_name(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.configure(clouds={"my-west": {"account": "west"}})
    lose(shop, shop.request("create_disk", 1024, {"zone": "z1"}, None, account="west"))
    words = ["cleanup", "--config", str(shop.config), "--director-uuid", DIRECTOR, "--grace", "0", "--apply"]
    assert run(words) == 0
    assert "nothing of this Director" in capsys.readouterr().out
    assert run([*words, "--cloud", "my-west"]) == 0
    assert "no caller ever received it" in capsys.readouterr().out
    assert run([*words, "--cloud", "my-east"]) == 2
    assert "use one of: lab, my-west" in capsys.readouterr().err


def test_a_tag_key_that_is_too_long_is_cut(shop: Shop) -> None:
    """A failure would make the Director delete the machine."""
    vm = shop.create_vm("agent", shop.stemcell())
    assert shop.call("set_vm_metadata", vm, {"k" * 200: "v"}) is None
