"""The front judged by clients of others: azure-identity and the management libraries of Microsoft live a
life of everything against it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.identity import ClientSecretCredential
from azure.mgmt.compute import ComputeManagementClient
from azure.mgmt.network import NetworkManagementClient

from tests.sandbox.fronts.azure.peer import GROUP, SUBSCRIPTION, TENANT, Azure

LOCATION = "westeurope"


@pytest.fixture
def azure(tmp_path: Path) -> Iterator[Azure]:
    made = Azure(tmp_path)
    yield made
    made.close()


@pytest.fixture
def credential(azure: Azure) -> ClientSecretCredential:
    return ClientSecretCredential(
        TENANT,
        azure.identity.client_id,
        azure.identity.client_secret,
        authority=azure.server.origin,
        disable_instance_discovery=True,
        connection_verify=str(azure.certificate),
    )


class Clients:
    def __init__(self, azure: Azure, credential: Any) -> None:
        options = {
            "base_url": azure.server.origin,
            "credential_scopes": [f"{azure.server.origin}/.default"],
            "connection_verify": str(azure.certificate),
            "polling_interval": 0,
            "retry_total": 0,
        }
        self.compute = ComputeManagementClient(credential, SUBSCRIPTION, **options)
        self.network = NetworkManagementClient(credential, SUBSCRIPTION, **options)

    def create_nic(self, name: str, **more: Any) -> Any:
        subnet = self.network.subnets.get(GROUP, "default", "default")
        config = {"name": "a", "properties": {"subnet": {"id": subnet.id}, **more}}
        body = {"location": LOCATION, "properties": {"ipConfigurations": [config]}}
        return self.network.network_interfaces.begin_create_or_update(GROUP, name, body).result()

    def create_vm(self, name: str, size: str = "Standard_D2s_v5", group: str | None = None) -> Any:
        nic = self.create_nic(f"{name}-nic")
        image = {"publisher": "Debian", "offer": "debian-12", "sku": "12", "version": "latest"}
        properties: dict[str, Any] = {
            "hardwareProfile": {"vmSize": size},
            "storageProfile": {
                "imageReference": image,
                "osDisk": {"createOption": "FromImage", "deleteOption": "Delete"},
            },
            "osProfile": {"computerName": name, "adminUsername": "me", "adminPassword": "Pass.word-1234"},
            "networkProfile": {"networkInterfaces": [{"id": nic.id, "properties": {"deleteOption": "Delete"}}]},
        }
        if group:
            properties["availabilitySet"] = {"id": group}
        body = {"location": LOCATION, "properties": properties}
        return self.compute.virtual_machines.begin_create_or_update(GROUP, name, body).result()


@pytest.fixture
def clients(azure: Azure, credential: ClientSecretCredential) -> Clients:
    return Clients(azure, credential)


def create_set(clients: Clients, name: str = "set") -> Any:
    body = {"location": LOCATION, "sku": {"name": "Aligned"}, "properties": {"platformFaultDomainCount": 2}}
    return clients.compute.availability_sets.create_or_update(GROUP, name, body)


def test_a_wrong_secret_gets_no_token_and_a_right_one_does(azure: Azure, credential: ClientSecretCredential) -> None:
    assert credential.get_token("https://management.azure.com/.default").token
    wrong = ClientSecretCredential(
        TENANT,
        azure.identity.client_id,
        "wrong",
        authority=azure.server.origin,
        disable_instance_discovery=True,
        connection_verify=str(azure.certificate),
    )
    with pytest.raises(HttpResponseError) as caught:
        wrong.get_token("https://management.azure.com/.default")
    assert "AADSTS7000215" in str(caught.value)


def test_a_vm_lives_in_a_set_and_the_set_outlives_it(clients: Clients) -> None:
    group = create_set(clients)
    vms = [clients.create_vm(f"vm{number}", group=group.id) for number in range(2)]
    assert [one.properties.provisioning_state for one in vms] == ["Succeeded", "Succeeded"]
    views = [clients.compute.virtual_machines.instance_view(GROUP, one.name) for one in vms]
    assert sorted(one.platform_fault_domain for one in views) == [0, 1]
    held = clients.compute.availability_sets.get(GROUP, "set").properties.virtual_machines
    assert [one.id.rsplit("/", 1)[-1] for one in held] == ["VM0", "VM1"], "ids come back in another case"
    with pytest.raises(ResourceExistsError) as caught:
        clients.compute.availability_sets.delete(GROUP, "set")
    assert caught.value.error and caught.value.error.code == "OperationNotAllowed"
    for one in vms:
        clients.compute.virtual_machines.begin_delete(GROUP, one.name).result()
    assert not list(clients.network.network_interfaces.list(GROUP))
    assert not list(clients.compute.disks.list_by_resource_group(GROUP))
    clients.compute.availability_sets.delete(GROUP, "set")
    clients.compute.availability_sets.delete(GROUP, "set")
    with pytest.raises(ResourceNotFoundError):
        clients.compute.availability_sets.get(GROUP, "set")


def test_power_states_are_listed_for_the_subscription_only(clients: Clients) -> None:
    vm = clients.create_vm("vm")
    with pytest.raises(HttpResponseError) as caught:
        list(clients.compute.virtual_machines.list(GROUP, expand="instanceView"))
    assert "$filter" in str(caught.value)
    (found,) = clients.compute.virtual_machines.list_all(status_only="true")
    assert found.id.lower() == vm.id.lower()
    assert "PowerState/running" in [one.code for one in found.properties.instance_view.statuses]


def test_a_living_vm_joins_and_leaves_a_scale_set_which_takes_its_vms_with_it(clients: Clients) -> None:
    flexible = {"orchestrationMode": "Flexible", "platformFaultDomainCount": 1, "singlePlacementGroup": False}
    sets, vms = clients.compute.virtual_machine_scale_sets, clients.compute.virtual_machines

    def create(name: str, **changed: Any) -> Any:
        body = {"location": LOCATION, "properties": {**flexible, **changed}}
        return sets.begin_create_or_update(GROUP, name, body).result()

    def move(name: str, group: str | None) -> Any:
        return vms.begin_update(GROUP, name, {"properties": {"virtualMachineScaleSet": {"id": group}}}).result()

    def members(group: Any) -> list[str]:
        return [one.name for one in vms.list(GROUP, filter=f"'virtualMachineScaleSet/id' eq '{group.id}'")]

    one, other, fixed = create("one"), create("other"), create("fixed", platformFaultDomainCount=2)
    vm = clients.create_vm("vm")
    assert move("vm", one.id).properties.vm_id == vm.properties.vm_id and members(one) == ["vm"]
    for wanted, code in (
        (other.id, "PropertyChangeNotAllowed"),
        ("", "PropertyChangeNotAllowed"),
    ):
        with pytest.raises(HttpResponseError) as caught:
            move("vm", wanted)
        assert caught.value.error and caught.value.error.code == code
    move("vm", None)
    with pytest.raises(HttpResponseError) as caught:
        move("vm", fixed.id)
    assert caught.value.error and caught.value.error.code == "VmssDoesNotSupportAttachingExistingVMMultiFD"
    move("vm", other.id)
    assert (members(one), members(other)) == ([], ["vm"])
    sets.begin_delete(GROUP, "one").result()
    assert vms.get(GROUP, "vm").name == "vm"
    sets.begin_delete(GROUP, "other").result()
    with pytest.raises(ResourceNotFoundError):
        vms.get(GROUP, "vm")
    inside = clients.create_vm("inside", group=create_set(clients).id)
    with pytest.raises(HttpResponseError) as caught:
        move(inside.name, create("third").id)
    assert caught.value.error and caught.value.error.code == "VmssDoesNotSupportAttachingExistingAvsetVM"


def test_a_disk_is_attached_snapshotted_grown_and_deleted(clients: Clients) -> None:
    compute, vm = clients.compute, clients.create_vm("vm")
    body = {"location": LOCATION, "properties": {"creationData": {"createOption": "Empty"}, "diskSizeGB": 4}}
    disk = compute.disks.begin_create_or_update(GROUP, "data", body).result()
    assert disk.properties.disk_state == "Unattached"
    wanted = {"dataDisksToAttach": [{"diskId": disk.id, "lun": 0}]}
    compute.virtual_machines.begin_attach_detach_data_disks(GROUP, vm.name, wanted).result()
    assert compute.disks.get(GROUP, "data").managed_by
    with pytest.raises(HttpResponseError):
        compute.disks.begin_delete(GROUP, "data").result()
    gone = {"dataDisksToDetach": [{"diskId": disk.id}]}
    compute.virtual_machines.begin_attach_detach_data_disks(GROUP, vm.name, gone).result()
    compute.disks.begin_update(GROUP, "data", {"properties": {"diskSizeGB": 8}}).result()
    source = {"createOption": "Copy", "sourceResourceId": disk.id}
    copy = {"location": LOCATION, "properties": {"creationData": source, "incremental": True}}
    made = compute.snapshots.begin_create_or_update(GROUP, "copy", copy).result()
    assert made.properties.disk_size_gb == 8
    compute.snapshots.begin_delete(GROUP, "copy").result()
    compute.disks.begin_delete(GROUP, "data").result()


def test_security_groups_and_their_rules(clients: Clients) -> None:
    network = clients.network
    label = network.application_security_groups.begin_create_or_update(GROUP, "web", {"location": LOCATION}).result()
    network.network_security_groups.begin_create_or_update(GROUP, "web", {"location": LOCATION}).result()
    rule = {
        "properties": {
            "protocol": "Tcp",
            "access": "Allow",
            "direction": "Inbound",
            "priority": 100,
            "sourcePortRange": "*",
            "destinationPortRange": "80",
            "sourceApplicationSecurityGroups": [{"id": label.id}],
            "destinationAddressPrefix": "*",
        }
    }
    made = network.security_rules.begin_create_or_update(GROUP, "web", "http", rule).result()
    assert made.properties.destination_port_range == "80"
    with pytest.raises(HttpResponseError) as caught:
        network.security_rules.begin_create_or_update(GROUP, "web", "again", rule).result()
    assert caught.value.error and caught.value.error.code == "SecurityRuleConflict"
    with pytest.raises(HttpResponseError):
        network.application_security_groups.begin_delete(GROUP, "web").result()
    network.security_rules.begin_delete(GROUP, "web", "http").result()
    network.application_security_groups.begin_delete(GROUP, "web").result()
    network.network_security_groups.begin_delete(GROUP, "web").result()


def test_addresses_are_unique_and_networks_have_one_writer(clients: Clients) -> None:
    address = "10.0.7.7"
    clients.create_nic("first", privateIPAddress=address, privateIPAllocationMethod="Static")
    with pytest.raises(HttpResponseError) as caught:
        clients.create_nic("second", privateIPAddress=address, privateIPAllocationMethod="Static")
    assert caught.value.error and caught.value.error.code == "PrivateIPAddressIsAllocated"
    network = clients.network
    body = {"location": LOCATION, "properties": {"addressSpace": {"addressPrefixes": ["192.168.0.0/16"]}}}
    network.virtual_networks.begin_create_or_update(GROUP, "other", body).result()
    subnet = {"properties": {"addressPrefix": "192.168.7.0/24"}}
    assert network.subnets.begin_create_or_update(GROUP, "other", "a", subnet).result().name == "a"
    assert [one.name for one in network.subnets.list(GROUP, "other")] == ["a"]
    network.virtual_networks.begin_delete(GROUP, "other").result()


def test_a_condition_is_kept(clients: Clients) -> None:
    vm = clients.create_vm("vm")
    with pytest.raises(HttpResponseError) as caught:
        body = {"location": LOCATION, "properties": {"storageProfile": {}, "networkProfile": {}}}
        absent = {"etag": "*", "match_condition": MatchConditions.IfMissing}
        clients.compute.virtual_machines.begin_create_or_update(GROUP, vm.name, body, **absent).result()
    assert caught.value.status_code == 412


def test_quotas_and_sizes_are_told(clients: Clients) -> None:
    used = {one.name.value: one.limit for one in clients.compute.usage.list(LOCATION)}
    assert used["availabilitySets"] == 2000
    names = [one.name for one in clients.compute.resource_skus.list()]
    assert "Standard_D2s_v5" in names and "Aligned" in names
