"""Volumes and snapshots: promises until they are used, pins of local storage, moves."""

from __future__ import annotations

from tests.sandbox.fronts.cloudstack.rig import Rig, refused


def test_a_volume_is_allocated_until_it_is_attached(rig: Rig) -> None:
    volume = rig.volume()
    assert volume["state"] == "Allocated"
    assert "storageid" not in volume
    with refused(431):
        rig.admin.createSnapshot(volumeid=volume["id"])
    attached = rig.admin.attachVolume(id=volume["id"], virtualmachineid=rig.deploy()["id"])["volume"]
    assert attached["state"] == "Ready"
    assert attached["storageid"]
    assert rig.admin.createSnapshot(volumeid=volume["id"], name="s")["snapshot"]["volumeid"] == volume["id"]


def test_a_volume_on_local_storage_stays_on_its_first_host(rig: Rig) -> None:
    hosts = [row["id"] for row in rig.admin.listHosts(zoneid=rig.zone())["host"]]
    here, there = (rig.deploy(hostid=host) for host in hosts)
    volume = rig.volume("local")["id"]
    rig.admin.attachVolume(id=volume, virtualmachineid=here["id"])
    rig.admin.detachVolume(id=volume)
    with refused(530):
        rig.admin.attachVolume(id=volume, virtualmachineid=there["id"])
    rig.admin.attachVolume(id=volume, virtualmachineid=here["id"])


def test_device_0_is_the_root_disk_and_3_the_cd_rom(rig: Rig) -> None:
    vm = rig.deploy()["id"]
    devices = [
        rig.admin.attachVolume(id=rig.volume()["id"], virtualmachineid=vm)["volume"]["deviceid"] for _ in range(3)
    ]
    assert devices == [1, 2, 4]
    with refused(431):
        rig.admin.attachVolume(id=rig.volume()["id"], virtualmachineid=vm, deviceid=3)
    (root,) = rig.admin.listVolumes(virtualmachineid=vm, type="ROOT")["volume"]
    assert root["deviceid"] == 0


def test_sizes_are_gib_and_the_offering_says_who_chooses_them(rig: Rig) -> None:
    assert rig.volume(size=3)["size"] == 3 * 2**30
    with refused(431):
        rig.volume("10g")
    with refused(431):
        rig.admin.createVolume(name="n", zoneid=rig.zone(), diskofferingid=rig.disk_offering())


def test_a_volume_grows_and_is_renamed(rig: Rig) -> None:
    volume = rig.volume()["id"]
    assert rig.admin.resizeVolume(id=volume, size=2)["volume"]["size"] == 2 * 2**30
    with refused(431):
        rig.admin.resizeVolume(id=volume, size=1)
    assert rig.admin.updateVolume(id=volume, name="other")["volume"]["name"] == "other"


def test_a_local_volume_is_moved_to_another_host_by_an_administrator(rig: Rig) -> None:
    hosts = rig.admin.listHosts(zoneid=rig.zone())["host"]
    here, there = (rig.deploy(hostid=host["id"]) for host in hosts)
    volume = rig.volume("local")["id"]
    (pool,) = rig.admin.listStoragePools(ipaddress=hosts[1]["ipaddress"])["storagepool"]
    with refused(431):
        rig.admin.migrateVolume(volumeid=volume, storageid=pool["id"])  # it is nowhere yet
    rig.admin.attachVolume(id=volume, virtualmachineid=here["id"])
    with refused(431):
        rig.admin.migrateVolume(volumeid=volume, storageid=pool["id"])  # it is in use
    rig.admin.detachVolume(id=volume)
    assert rig.admin.migrateVolume(volumeid=volume, storageid=pool["id"])["volume"]["storageid"] == pool["id"]
    rig.admin.attachVolume(id=volume, virtualmachineid=there["id"])


def test_a_volume_is_not_moved_out_of_its_zone_or_off_its_kind_of_storage(rig: Rig) -> None:
    host = rig.admin.listHosts(zoneid=rig.zone())["host"][0]["id"]
    volume = rig.volume("local")["id"]
    rig.admin.attachVolume(id=volume, virtualmachineid=rig.deploy(hostid=host)["id"])
    rig.admin.detachVolume(id=volume)
    pools = {one["name"]: one["id"] for one in rig.admin.listStoragePools()["storagepool"]}
    far = next(wanted for name, wanted in pools.items() if name.startswith("z2") and name.endswith("local"))
    for pool in (far, pools["z1-shared"]):
        with refused(431):
            rig.admin.migrateVolume(volumeid=volume, storageid=pool)
