"""`coterie sandbox`: what it shows, shapes and refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from coterie.cli.main import run
from coterie.sandbox import faults, server_groups
from coterie.sandbox.hosts import all_hosts
from coterie.sandbox.quotas import get_quotas
from coterie.sandbox.vm_shape import get_vm, list_vms

from .world import World


class Command:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.out = self.err = ""

    def __call__(self, *words: str) -> int:
        code = run(["sandbox", *words])
        self.out, self.err = self._capsys.readouterr()
        return code

    def json(self, *words: str) -> Any:
        assert self(*words, "-o", "json") == 0, self.err
        return json.loads(self.out)


@pytest.fixture
def command(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    monkeypatch.setenv("COTERIE_STATE", str(tmp_path))
    monkeypatch.setenv("COTERIE_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("COTERIE_SANDBOX_STATE", str(world.store.path))
    return Command(capsys)


def test_show_has_hosts_vms_groups_and_accounts(world: World, command: Command) -> None:
    group = server_groups.create_server_group(world.account, name="brokers", policy="anti-affinity")
    vm = world.boot("broker/0", group=group.id)
    assert command("show") == 0
    assert f"{vm.host}  up" in command.out
    assert "broker/0" in command.out
    assert "brokers  anti-affinity" in command.out
    shown = command.json("show")
    assert shown["groups"][0]["members"] == [{"vm": vm.id, "name": "broker/0", "host": vm.host}]
    assert command() == 0
    assert "broker/0" in command.out


def test_hosts_fail_and_recover(world: World, command: Command) -> None:
    vm = world.boot()
    assert command("host", "down", str(vm.host)) == 0
    assert "took 1 VMs with it" in command.err
    assert get_vm(world.account, vm.id).state == "error"
    assert command("hosts") == 0
    assert f"{vm.host}  down" in command.out
    assert command("host", "up", str(vm.host)) == 0
    assert all(host.up for host in all_hosts(world.store))
    assert command("host", "down", "nowhere") == 5
    assert "coterie sandbox hosts" in command.err


def test_hosts_are_added_and_removed(world: World, command: Command) -> None:
    assert command("host", "add", "extra", "--zone", "z9", "--cpu", "3") == 0
    assert [(host.zone, host.rack, host.cpu) for host in all_hosts(world.store) if host.name == "extra"] == [
        ("z9", "z9-r1", 3)
    ]
    assert command("host", "remove", "extra") == 0
    assert "extra" not in [host.name for host in all_hosts(world.store)]


def test_vms_are_killed_and_deleted(world: World, command: Command) -> None:
    vm = world.boot()
    assert command("vm", "kill", vm.id, "--to", "error") == 0
    assert get_vm(world.account, vm.id).state == "error"
    assert command("vm", "delete", vm.id) == 0
    assert list_vms(world.account).items == ()


def test_faults_are_set_listed_and_cleared(world: World, command: Command) -> None:
    made = command.json("fault", "add", "create_stemcell", "error", "--times", "2", "--code", "over_quota")
    assert (made["method"], made["mode"], made["times"]) == ("create_image", "error", 2)
    assert command("fault", "add", "*", "latency", "--ms", "5", "--match", "broker") == 0
    assert [fault["match"] for fault in command.json("fault", "list")] == [None, "broker"]
    assert command("fault", "clear", str(made["id"])) == 0
    assert [fault.mode for fault in faults.list_faults(world.store)] == ["latency"]
    assert command("fault", "clear") == 0
    assert faults.list_faults(world.store) == []
    assert command("fault", "add", "create_wm", "error") == 2
    assert "create_vm" in command.err
    assert command("fault", "add", "create_vm", "explode") == 2
    assert "timeout-after-commit" in command.err
    assert "timeout-after-commit" in command.json("fault", "modes")
    assert "create_vm" in command.json("fault", "methods")


def test_quotas_are_set_and_listed(world: World, command: Command) -> None:
    assert command("quota", "set", "lab", "instances", "3") == 0
    assert get_quotas(world.account)["instances"].ceiling == 3
    assert command.json("quota")["lab"]["instances"] == {"used": 0, "limit": 3}
    assert command("quota", "set", "lab", "instances", "none") == 0
    assert get_quotas(world.account)["instances"].ceiling is None
    assert command("quota", "set", "lab", "dragons", "3") == 2
    assert command("quota", "set", "lab", "cpu", "some") == 2


def test_operators_make_foreign_things(world: World, command: Command) -> None:
    assert command("operator", "create-group", "theirs", "--policy", "affinity") == 0
    group = command.out.strip()
    assert server_groups.get_server_group(world.account, group).policy == "affinity"
    assert command("operator", "create-vm", "theirs", "--zone", "z1", "--group", group, "--ip", "10.0.0.9") == 0
    vm = get_vm(world.account, command.out.strip())
    assert vm.groups == (group,)
    assert [nic.ip for nic in vm.nics] == ["10.0.0.9"]
    assert vm.tags == {}
    assert command("operator", "create-network", "front", "--range", "10.7.0.0/24") == 0
    assert command("operator", "create-security-group", "web") == 0
    assert command("operator", "set-policy", group, "anti-affinity") == 0
    assert command("operator", "host-group", "fast", "z1-r1-h1") == 0
    assert command("operator", "delete-group", group) == 0
    assert server_groups.list_server_groups(world.account).items == ()
    assert command("operator", "create-group", "x", "--account", "new") == 0
    assert command("operator", "create-group", "y") == 2
    assert "2 accounts" in command.err


def test_calls_are_counted_while_the_log_is_on(world: World, command: Command) -> None:
    assert command("calls", "on") == 0
    world.boot()
    assert command.json("calls") == {"create_vm": {"calls": 1, "failed": 0}}
    assert command("calls", "off") == 0
    world.boot()
    assert command.json("calls")["create_vm"]["calls"] == 1
    assert command("calls", "forget") == 0
    assert command.json("calls") == {}


def test_reset_asks_first(world: World, command: Command) -> None:
    world.boot()
    assert command("reset") == 4
    assert "coterie sandbox reset --yes" in command.err
    assert len(list_vms(world.account).items) == 1
    assert command("reset", "--yes") == 0
    assert list_vms(world.account).items == ()


def test_the_file_is_found_by_flag_then_environment_then_folder(
    world: World, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = tmp_path / "missing.db"
    for words in (("--state", str(missing), "show"), ("show", "--state", str(missing))):
        assert command(*words) == 5
        assert str(missing) in command.err
    monkeypatch.delenv("COTERIE_SANDBOX_STATE")
    assert command("show") == 5
    assert str(tmp_path / "sandbox.db") in command.err
    assert not missing.exists()
