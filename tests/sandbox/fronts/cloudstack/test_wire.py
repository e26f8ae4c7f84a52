"""The wire: signatures, parameters against the definition, envelopes, pages, jobs, roles, faults."""

from __future__ import annotations

import base64
import hashlib
import hmac
import threading
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import requests
from coterie.sandbox import disks, faults
from coterie.sandbox.accounts import open_account
from coterie.sandbox.fronts.cloudstack.shape import UnknownField, shape_response
from tests.sandbox.fronts.cloudstack.rig import Rig, eventually, refused


def raw(rig: Rig, command: str, *, account: str = "admin", tamper: str = "", post: bool = True, **more: str) -> Any:
    """A request signed here, letter by letter, so that odd ones can be sent."""
    keys = rig.keys[account]
    arguments = {"command": command, "response": "json", "apikey": keys.api_key, **more}
    text = "&".join(f"{k}={quote(v, safe='*').replace('~', '%7E')}" for k, v in sorted(arguments.items())).lower()
    digest = hmac.new(keys.secret_key.encode(), text.encode(), hashlib.sha1).digest()
    arguments["signature"] = base64.b64encode(digest).decode() + tamper
    if post:
        return requests.post(rig.server.endpoint, data=arguments, timeout=60)
    return requests.get(rig.server.endpoint, params=arguments, timeout=60)


def expires(offset_s: float) -> str:
    at = datetime.fromtimestamp(datetime.now(UTC).timestamp() + offset_s, UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%S+0000")


def test_signatures_are_checked_in_both_versions(rig: Rig) -> None:
    assert raw(rig, "listZones").status_code == 200
    assert raw(rig, "listZones", post=False).status_code == 200
    assert raw(rig, "listZones", signatureversion="3", expires=expires(60)).status_code == 200
    for answer in (
        raw(rig, "listZones", tamper="x"),
        raw(rig, "listZones", signatureversion="3", expires=expires(-60)),
        raw(rig, "listZones", signatureversion="3"),
        requests.get(rig.server.endpoint, params={"command": "listZones", "apikey": "nobody"}, timeout=60),
    ):
        assert answer.status_code == 401
        assert next(iter(answer.json().values()))["errorcode"] == 401


@pytest.mark.parametrize("odd", ["a~b", "a[0]", "a b+c", "ü*'()!", "a%2Fb&c=d"])
def test_odd_values_are_signed_as_java_does_it(rig: Rig, odd: str) -> None:
    assert (
        raw(rig, "createSecurityGroup", name=odd).json()["createsecuritygroupresponse"]["securitygroup"]["name"] == odd
    )


@pytest.mark.parametrize(
    ("command", "more"),
    [
        ("deployVirtualMachine", {}),
        ("createAffinityGroup", {"name": "", "type": "host anti-affinity"}),
        ("createAffinityGroup", {"name": "x" * 256, "type": "host anti-affinity"}),
        ("listVirtualMachines", {"page": "1"}),
        ("listVirtualMachines", {"pagesize": "10"}),
        ("listVirtualMachines", {"page": "1", "pagesize": "501"}),
        ("listVirtualMachines", {"page": "x", "pagesize": "10"}),
        ("listVirtualMachines", {"id": str(uuid.uuid4())}),
        ("listVirtualMachines", {"nosuchparameter": "1"}),
        ("listZones", {"available": "maybe"}),
    ],
)
def test_parameters_are_checked_against_the_definition(rig: Rig, command: str, more: dict[str, str]) -> None:
    answer = raw(rig, command, **more)
    assert answer.status_code == 431
    body = next(iter(answer.json().values()))
    assert set(body) == {"uuidList", "errorcode", "cserrorcode", "errortext"}


def test_unknown_parameters_pass_where_the_cloud_is_as_lax_as_real_ones(rig: Rig) -> None:
    rig.set(coterie_strict_parameters="false")
    assert raw(rig, "listZones", nosuchparameter="1").status_code == 200
    assert rig.witness.mistakes.pop() == "listZones: there is no parameter nosuchparameter"


def test_a_map_is_not_a_text(rig: Rig) -> None:
    assert raw(rig, "createTags", resourceids="x", resourcetype="UserVm", tags="a").status_code == 430


def test_an_answer_has_no_field_that_the_definition_has_not() -> None:
    assert shape_response("ZoneResponse", {"id": "1", "name": None}, True) == {"id": "1"}
    with pytest.raises(UnknownField):
        shape_response("ZoneResponse", {"colour": "blue"}, True)
    with pytest.raises(UnknownField):
        shape_response("UserVmResponse", {"nic": [{"colour": "blue"}]}, True)


def test_envelopes_are_as_irregular_as_the_vendors(rig: Rig) -> None:
    assert raw(rig, "listVirtualMachines").json() == {"listvirtualmachinesresponse": {}}
    vm = rig.deploy()["id"]
    rig.admin.stopVirtualMachine(id=vm)
    group = rig.admin.createAffinityGroup(name="g", type="host anti-affinity")["affinitygroup"]["id"]
    assert set(raw(rig, "updateVMAffinityGroup", id=vm, affinitygroupids=group).json()) == {
        "updatevirtualmachineresponse"
    }
    upload = {"name": "t", "format": "QCOW2", "hypervisor": "KVM", "zoneid": rig.zone()}
    assert set(raw(rig, "getUploadParamsForTemplate", **upload).json()) == {"postuploadtemplateresponse"}


def test_unknown_and_forbidden_commands_and_other_formats_are_refused(rig: Rig) -> None:
    assert raw(rig, "noSuchCommand").json()["errorresponse"]["errorcode"] == 432
    assert raw(rig, "listHosts", account="user").status_code == 432
    assert raw(rig, "listZones", response="xml").status_code == 432
    assert raw(rig, "listRegions").status_code == 432
    assert requests.get(rig.server.origin, timeout=60).status_code == 404


def test_an_expunged_uuid_is_still_known(rig: Rig) -> None:
    vm = rig.deploy()["id"]
    rig.admin.destroyVirtualMachine(id=vm, expunge=True)
    assert rig.admin.listVirtualMachines(id=vm) == {}


def test_a_list_without_pages_ends_at_500_and_pages_cover_all(rig: Rig) -> None:
    account = open_account(rig.datacenter, "admin", operator=True)
    for number in range(501):
        disks.create_disk(account, name=f"d{number}", size_mb=1024, zone="z1")
    whole = rig.admin.listVolumes()
    assert (whole["count"], len(whole["volume"])) == (501, 500)
    pages = [rig.admin.listVolumes(page=number, pagesize=300)["volume"] for number in (1, 2)]
    assert [len(page) for page in pages] == [300, 201]
    assert len({row["id"] for page in pages for row in page}) == 501
    assert rig.admin.listVolumes(page=3, pagesize=300) == {}


def test_a_client_chooses_a_jobs_uuid_once(rig: Rig) -> None:
    job = str(uuid.uuid4())
    made = rig.volume(customjobid=job)
    with refused(431):
        rig.volume(customjobid=job)
    assert [row["id"] for row in rig.admin.listVolumes(type="DATADISK")["volume"]] == [made["id"]]
    found = rig.plain.queryAsyncJobResult(jobid=job)
    assert (found["jobstatus"], found["jobinstanceid"]) == (1, made["id"])
    with refused(431):
        rig.volume(customjobid="no-uuid")
    with refused(431):
        rig.plain.queryAsyncJobResult(jobid=str(uuid.uuid4()))


def test_of_many_at_once_with_one_job_uuid_one_is_let_in(rig: Rig) -> None:
    job, outcomes = str(uuid.uuid4()), []
    order = {"name": "d", "zoneid": rig.zone(), "diskofferingid": rig.disk_offering(), "size": "1", "customjobid": job}
    threads = [
        threading.Thread(target=lambda: outcomes.append(raw(rig, "createVolume", **order).status_code))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [200, 431, 431, 431, 431, 431]
    assert len(rig.admin.listVolumes()["volume"]) == 1


def test_a_job_that_a_killed_server_left_is_finished_by_the_next(tmp_path: Path) -> None:
    first = Rig(tmp_path)
    order = first.order()
    first.set(coterie_job_ms="3600000")
    started = first.plain.deployVirtualMachine(**order)
    first.close()
    with first.datacenter.store.writing() as db:
        db.execute("UPDATE cloudstack_jobs SET run_at = 0")
    second = Rig(tmp_path)
    assert second.keys == first.keys
    assert eventually(lambda: (vm := second.vm(started["id"])) and vm["state"] == "Running")
    second.close()


def test_finished_jobs_are_forgotten(rig: Rig) -> None:
    job = str(uuid.uuid4())
    rig.volume(customjobid=job)
    rig.set(job_expire_minutes="0", expunge_interval="0")

    def forgotten() -> bool:
        return bool(raw(rig, "queryAsyncJobResult", jobid=job).status_code == 431)

    assert eventually(forgotten)


def test_users_get_generic_texts(rig: Rig) -> None:
    with refused(533) as told:
        rig.deploy(serviceofferingid=rig.offering("giant"))
    assert "cpu" in str(told.value)
    with refused(533) as hidden:
        rig.deploy("user", serviceofferingid=rig.offering("giant"))
    assert "cpu" not in str(hidden.value)


def test_accounts_do_not_see_each_other(rig: Rig) -> None:
    vm = rig.deploy()["id"]
    assert rig.user.listVirtualMachines() == {}
    assert rig.user.listVirtualMachines(id=vm) == {}
    with refused(431):
        rig.user.destroyVirtualMachine(id=vm)


def test_faults_bend_commands_by_their_names(rig: Rig) -> None:
    store = rig.datacenter.store
    faults.add(store, "createVolume", "throttle", times=1)
    with refused(429):
        rig.volume()
    faults.add(store, "listZones", "error", times=1)
    assert raw(rig, "listZones").status_code == 530
    faults.add(store, "createVolume", "timeout-after-commit", times=1)
    order = {"name": "d", "zoneid": rig.zone(), "diskofferingid": rig.disk_offering(), "size": "1"}
    with pytest.raises(requests.ConnectionError):
        raw(rig, "createVolume", **order)
    assert eventually(lambda: rig.admin.listVolumes().get("volume"))
    faults.add(store, "deployVirtualMachine", "vm-error-state", times=1)
    with refused(530):
        rig.deploy()
