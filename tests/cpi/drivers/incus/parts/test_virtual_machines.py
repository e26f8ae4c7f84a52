"""Requests for virtual machines, in the form that Incus documents for them: no host of these tests runs any."""

from __future__ import annotations

import json

import pytest
from tests.cpi.drivers.incus.parts.fake_server import IMAGE, Server, cloud, create, mark

from coterie.cpi.contract import CpiError, InvalidCall, NoPlacement


def test_a_virtual_machine_goes_to_a_member_that_runs_them_with_its_settings_on_a_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server(inc1="lxc", inc2="lxc | qemu")
    made = create(cloud(monkeypatch, server))
    (sent,) = server.sent
    assert (sent["type"], sent["target"], sent["start"]) == ("virtual-machine", "inc2", True)
    assert sent["config"]["limits.memory"] == "512MiB", "QEMU sets it, whatever memory_limits is for containers"
    assert sent["devices"]["settings"] == {"type": "disk", "source": "cloud-init:config"}
    settings = json.loads(sent["config"]["user.user-data"])
    assert settings["agent_id"] == "agent"
    assert settings["disks"]["system"] == made.disks["system"] == "/dev/sda"


def test_no_member_that_runs_them_is_refused_with_the_reason_and_by_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(inc1="lxc", inc2="lxc")
    with pytest.raises(NoPlacement, match="inc1: it runs no virtual machines; inc2: it runs no virtual machines"):
        create(cloud(monkeypatch, server))
    assert server.sent == []
    items = {item.what: item for item in cloud(monkeypatch, server, default_type="virtual-machine").check()}
    assert not items["virtual machines"].ok and "QEMU" in items["virtual machines"].remedy
    assert "virtual machines" not in {item.what for item in cloud(monkeypatch, server).check()}


def test_it_has_no_more_cpus_than_its_member(monkeypatch: pytest.MonkeyPatch) -> None:
    """QEMU refuses more; containers share them."""
    server = Server(inc1="lxc | qemu")
    with pytest.raises(NoPlacement, match="inc1: it has 4 CPUs to share"):
        create(cloud(monkeypatch, server), cpu=5)
    assert server.sent == []
    server.images[IMAGE] = "container"
    create(cloud(monkeypatch, server), cpu=5, type="container")


def test_a_disk_for_one_is_made_on_a_member_that_runs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(inc1="lxc", inc2="lxc | qemu")
    cpi = cloud(monkeypatch, server, default_type="virtual-machine")
    cpi.create_disk(64, {}, mark=mark())
    assert server.sent[-1]["target"] == "inc2"
    cpi.create_disk(64, {"type": "container"}, mark=mark())
    assert server.sent[-1]["target"] == "inc1"
    with pytest.raises(NoPlacement, match="inc1: it runs no virtual machines"):
        cloud(monkeypatch, Server(inc1="lxc"), default_type="virtual-machine").create_disk(64, {}, mark=mark())


def test_an_image_of_the_other_type_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(inc1="lxc | qemu")
    with pytest.raises(InvalidCall, match="is a virtual-machine, the VM is to be a container"):
        create(cloud(monkeypatch, server), type="container")
    assert server.sent == []


def test_its_disk_is_a_block_volume_that_the_guest_finds_by_its_serial(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(inc1="lxc | qemu")
    cpi = cloud(monkeypatch, server)
    vm = create(cpi).cid
    disk = cpi.create_disk(64, {}, vm, mark=mark())
    assert server.sent[-1]["content_type"] == "block"
    hint = cpi.attach_disk(vm, disk)
    devices = server.instances[vm]["devices"]
    (name,) = (one for one in devices if one not in ("root", "settings", "eth0"))
    device = devices[name]
    assert "path" not in device
    serial = f"incus_{name}".replace("-", "--")
    assert len(serial) <= 25, "a longer one is hashed"
    assert hint["path"] == f"/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_{serial}"
    assert cpi.attach_disk(vm, disk) == hint
    assert cpi.get_disks(vm) == [disk]


def test_disks_of_the_other_type_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(inc1="lxc | qemu")
    cpi = cloud(monkeypatch, server)
    disk = cpi.create_disk(64, {}, mark=mark())
    assert server.sent[-1]["content_type"] == "filesystem"
    with pytest.raises(CpiError, match="takes block only"):
        create(cpi, disks=(disk,))
    with pytest.raises(CpiError, match="takes block only"):
        cpi.attach_disk(create(cpi).cid, disk)
    own = cpi.create_disk(64, {"type": "virtual-machine"}, mark=mark())
    assert create(cpi, disks=(own,)).cid
