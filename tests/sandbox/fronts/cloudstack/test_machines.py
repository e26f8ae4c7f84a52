"""Deploy and destroy: two phases, Error that holds on, destroyed that is not gone."""

from __future__ import annotations

from tests.sandbox.fronts.cloudstack.rig import Rig, eventually, refused


def test_a_deploy_answers_an_id_and_a_job_before_the_vm_runs(rig: Rig) -> None:
    order = rig.order(ipaddress="127.40.3.3")
    rig.set(coterie_job_ms="2000")
    started = rig.plain.deployVirtualMachine(**order)
    assert set(started) == {"id", "jobid"}
    found = rig.vm(started["id"])
    assert found and found["state"] == "Starting"
    assert [nic["ipaddress"] for nic in found["nic"]] == ["127.40.3.3"]
    assert rig.plain.queryAsyncJobResult(jobid=started["jobid"])["jobstatus"] == 0
    job = eventually(lambda: (one := rig.plain.queryAsyncJobResult(jobid=started["jobid"]))["jobstatus"] and one)
    assert job["jobstatus"] == 1
    assert job["jobresult"]["virtualmachine"]["state"] == "Running"


def test_a_vm_in_error_keeps_its_address_until_it_is_expunged(rig: Rig) -> None:
    with refused(533):
        rig.deploy(serviceofferingid=rig.offering("giant"), ipaddress="127.40.3.3")
    (broken,) = rig.admin.listVirtualMachines()["virtualmachine"]
    assert broken["state"] == "Error"
    with refused(533):
        rig.deploy(ipaddress="127.40.3.3")
    rig.admin.destroyVirtualMachine(id=broken["id"], expunge=True)
    assert rig.deploy(ipaddress="127.40.3.3")["nic"][0]["ipaddress"] == "127.40.3.3"


def test_destroy_detaches_all_disks_and_deletes_only_those_named(rig: Rig) -> None:
    vm = rig.deploy()["id"]
    kept, doomed = rig.volume()["id"], rig.volume()["id"]
    for volume in (kept, doomed):
        rig.admin.attachVolume(id=volume, virtualmachineid=vm)
    destroyed = rig.admin.destroyVirtualMachine(id=vm, volumeids=doomed)["virtualmachine"]
    assert destroyed["state"] == "Destroyed"
    assert "hostid" not in destroyed  # it was stopped first
    (left,) = rig.admin.listVolumes(type="DATADISK")["volume"]
    assert left["id"] == kept
    assert "virtualmachineid" not in left


def test_address_and_name_are_free_only_when_the_vm_is_expunged(rig: Rig) -> None:
    vm = rig.deploy(name="alpha", ipaddress="127.40.3.3")["id"]
    rig.admin.destroyVirtualMachine(id=vm)
    with refused(533):
        rig.deploy(ipaddress="127.40.3.3")
    with refused(431):
        rig.deploy(name="alpha")
    rig.admin.expungeVirtualMachine(id=vm)
    rig.deploy(name="alpha", ipaddress="127.40.3.3")


def test_what_was_destroyed_long_ago_is_expunged_by_itself(rig: Rig) -> None:
    for name in ("expunge.delay", "expunge.interval"):
        assert rig.admin.listConfigurations(name=name)["configuration"][0]["value"] == "86400"
    vm = rig.deploy()["id"]
    rig.admin.destroyVirtualMachine(id=vm)
    found = rig.vm(vm)
    assert found and found["state"] == "Destroyed"
    rig.set(expunge_delay="0", expunge_interval="0")
    assert eventually(lambda: rig.vm(vm) is None)


def test_users_expunge_only_if_the_cloud_lets_them(rig: Rig) -> None:
    vm = rig.deploy("user")["id"]
    assert rig.user.listCapabilities()["capability"]["allowuserexpungerecovervm"] is False
    with refused(531):
        rig.user.destroyVirtualMachine(id=vm, expunge=True)
    assert rig.vm(vm, rig.user)
    rig.set(allow_user_expunge_recover_vm="true")
    assert rig.user.listCapabilities()["capability"]["allowuserexpungerecovervm"] is True
    rig.user.destroyVirtualMachine(id=vm, expunge=True)


def test_users_do_not_see_their_destroyed_vms_and_administrators_do(rig: Rig) -> None:
    vm = rig.deploy("user")["id"]
    rig.user.destroyVirtualMachine(id=vm)
    assert rig.user.listVirtualMachines() == {}
    assert rig.vm(vm)
    assert [row["id"] for row in rig.admin.listVirtualMachines(listall=True)["virtualmachine"]] == [vm]


def test_a_destroyed_vm_can_be_recovered(rig: Rig) -> None:
    vm = rig.deploy()["id"]
    rig.admin.destroyVirtualMachine(id=vm)
    assert rig.admin.recoverVirtualMachine(id=vm)["virtualmachine"]["state"] == "Stopped"
    assert rig.admin.startVirtualMachine(id=vm)["virtualmachine"]["state"] == "Running"


def test_an_address_list_excludes_the_other_ways_to_say_it(rig: Rig) -> None:
    network = rig.network()
    with refused(431):
        rig.deploy(iptonetworklist=[{"networkid": network, "ip": "127.40.3.3"}], networkids=network)
    with refused(431):
        rig.deploy(iptonetworklist=[{"networkid": network}], ipaddress="127.40.3.4")
    vm = rig.deploy(iptonetworklist=[{"networkid": network, "ip": "127.40.3.3"}])
    assert vm["nic"][0]["ipaddress"] == "127.40.3.3"


def test_security_groups_in_a_zone_without_them_are_refused(rig: Rig) -> None:
    security_group = rig.admin.createSecurityGroup(name="web")["securitygroup"]["id"]
    with refused(431):
        rig.deploy(securitygroupids=security_group)


def test_hosts_are_shown_to_administrators_only(rig: Rig) -> None:
    assert rig.deploy()["hostname"]
    assert "hostname" not in rig.deploy("user")
    with refused(531):
        rig.deploy("user", hostid=rig.admin.listHosts()["host"][0]["id"])
    with refused(432):
        rig.user.listHosts()


def test_quotas_are_kept(rig: Rig) -> None:
    rig.admin.updateResourceLimit(
        resourcetype=0, max=1, account="user", domainid=rig.user.listAccounts()["account"][0]["domainid"]
    )
    rig.deploy("user")
    with refused(535):
        rig.deploy("user")
    assert rig.user.listAccounts()["account"][0]["vmtotal"] == 1


def test_an_unexpunged_vm_keeps_its_network(rig: Rig) -> None:
    offering = rig.admin.listNetworkOfferings(guestiptype="Isolated")["networkoffering"][0]["id"]
    network = rig.admin.createNetwork(name="n", displaytext="n", networkofferingid=offering, zoneid=rig.zone())[
        "network"
    ]
    vm = rig.deploy(networkids=network["id"])["id"]
    rig.admin.destroyVirtualMachine(id=vm)
    with refused(530):
        rig.admin.deleteNetwork(id=network["id"])
    rig.admin.expungeVirtualMachine(id=vm)
    rig.admin.deleteNetwork(id=network["id"])
