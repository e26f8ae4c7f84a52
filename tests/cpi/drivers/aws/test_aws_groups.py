"""Server groups: partitions by a member's number, dedicated hosts that are adopted, many processes and one group."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from peers.aws_bed import AwsBed

from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import (
    GroupMetadata,
    GroupMissing,
    InvalidCall,
    Mark,
    Needs,
    NoPlacement,
    Runtime,
    SecurityGroup,
    read_rules,
)
from coterie.cpi.drivers.aws.driver import AwsCpi
from coterie.engine.coordinator import LedgerCoordinator
from coterie.engine.part_records import LedgerPartRecords
from coterie.ids import Ids
from coterie.ledger.store import Ledger
from coterie.sandbox import server_groups
from coterie.sandbox.hosts import list_hosts

HOST = "host-affinity"
OFFERED = {"policies": ["anti-affinity", "soft-anti-affinity", HOST]}


def test_members_are_put_into_partitions_by_their_number(bed: AwsBed, lab: Lab) -> None:
    """By the number of partitions that the group was made with, whatever the properties say by now."""
    group = lab.group("soft-anti-affinity")
    bed.more = {"partition_count": 7}
    cpi = bed.open()
    for number in range(3):
        lab.undo(lab.cpi.delete_vm, cpi.create_vm(**lab.vm_arguments(group=group, member=number)).cid)
    domains = sorted(str(one.domain) for one in cpi.inspect_server_group(group).members)
    assert domains == ["z1/1", "z1/1", "z1/2"]


def test_the_eighth_running_instance_of_a_spread_group_in_a_zone_has_no_place(bed: AwsBed, lab: Lab) -> None:
    limit = lab.capabilities.group_limit("anti-affinity").members_per_az
    assert limit == 7
    text = "InsufficientInstanceCapacity"
    group = lab.group("anti-affinity")
    made = [lab.vm(group=group) for _ in range(bed.hosts or 0)]
    with pytest.raises(NoPlacement, match=text):
        lab.vm(group=group)
    assert {one.vm_cid for one in lab.cpi.inspect_server_group(group).members} == set(made)


@pytest.fixture
def host(bed: AwsBed) -> str:
    """A dedicated host that an operator allocated in z1; its name."""
    bed.more = OFFERED
    named = next(one.name for one in list_hosts(bed.account) if one.zone == "z1")
    server_groups.create_server_group(bed.account, name="licensed", policy=HOST, hosts=[named])
    return named


def test_a_dedicated_host_is_adopted_by_its_name(bed: AwsBed, host: str) -> None:
    lab = Lab(bed)
    cid = lab.group(HOST, options={"name": "licensed", "adopt": True})
    vms = {lab.vm(group=cid) for _ in range(2)}
    view = lab.cpi.inspect_server_group(cid)
    assert cid.startswith("ext-h-") and (view.policy, view.hosts) == (HOST, (cid.removeprefix("ext-"),))
    assert {one.vm_cid for one in view.members} == vms
    assert {one.host for one in view.members} == set(view.hosts or ())
    lab.cpi.delete_server_group(cid)
    assert lab.cpi.inspect_server_group(cid).state == "live"
    lab.close()


def test_a_vm_in_another_zone_than_its_dedicated_host_is_refused(bed: AwsBed, host: str) -> None:
    lab = Lab(bed)
    cid = lab.group(HOST, options={"name": "licensed", "adopt": True})
    with pytest.raises(InvalidCall, match="is in z1, the VM is wanted in z2"):
        lab.vm("z2", group=cid)
    with pytest.raises(InvalidCall, match="tenancy"):
        lab.vm(group=cid, cloud_properties={**bed.vm_properties("z1"), "tenancy": "dedicated"})
    lab.close()


@pytest.mark.parametrize(
    ("options", "kind"), [({}, InvalidCall), ({"name": "unlicensed", "adopt": True}, GroupMissing)]
)
def test_a_dedicated_host_that_is_not_there_is_refused_before_anything_is_made(
    bed: AwsBed, host: str, options: dict[str, Any], kind: type[Exception]
) -> None:
    lab = Lab(bed)
    with pytest.raises(kind):
        lab.group(HOST, options=options)
    group = {"name": "broker", "policy": HOST, "options": options}
    bad = [item for item in lab.cpi.check(Needs(policies=(HOST,), groups=(group,))) if not item.ok]
    assert [item.what for item in bad] == ["server group broker"] and bad[0].remedy
    lab.close()


def _run(
    properties: dict[str, Any],
    director: str,
    ledger: str,
    number: int,
    answers: Any,
    intent: str,
    image: str,
    times: int,
    create: int,
) -> None:
    """One of many processes: the group under the common mark, again and again, then VMs in it, all at once."""
    opened, ids = Ledger.open(ledger), Ids()
    parts = LedgerPartRecords(lambda: opened, "lab")
    coordinator = LedgerCoordinator(opened, f"process-{number}")
    cpi = AwsCpi("lab", properties, Runtime(director, coordinator, parts=parts))
    wanted = GroupMetadata({"name": "test", "uuid": director}, "dep", "workers", azs=("z1",))
    try:
        mark = Mark(director, intent)
        (cid,) = {cpi.create_server_group(wanted, mark=mark) for _ in range(times)}

        def boot(n: int) -> str:
            networks = {"default": {"type": "dynamic", "cloud_properties": {"subnet": "subnet-z1"}}}
            env = {"bosh": {"server_group_cid": cid}}
            mark = Mark(director, ids.intent())
            return cpi.create_vm(
                ids.uuid(), image, {"instance_type": "t3.nano", "availability_zone": "z1"}, networks, [], env, mark=mark
            ).cid

        with ThreadPoolExecutor(create) as pool:
            answers.put((cid, list(pool.map(boot, range(create)))))
    except BaseException as error:
        answers.put((repr(error), []))
        raise


@pytest.mark.parametrize(
    ("processes", "times", "create"),
    [(8, 2, 1), pytest.param(20, 200, 10, marks=pytest.mark.full)],
    ids=["few", "many"],
)
def test_many_processes_make_one_group_and_every_vm_in_it(
    tmp_path: Path, processes: int, times: int, create: int
) -> None:
    layout = {"zones": [{"name": "z1", "racks": 2, "hosts_per_rack": 3, "cpu": 1000, "ram_mb": 1_000_000}]}
    bed = AwsBed(tmp_path, layout)
    image = bed.open().create_stemcell(*bed.image(), mark=Mark(bed.director_uuid, Ids().intent()))
    context = multiprocessing.get_context("forkserver")  # a fork of this process, which has threads, may hang
    context.set_forkserver_preload([__name__])
    answers, intent = context.Queue(), Ids().intent()
    ledger = f"sqlite:///{tmp_path}/ledger.db"
    Ledger.open(ledger).close()
    born = [
        context.Process(
            target=_run,
            args=(bed.properties(), bed.director_uuid, ledger, n, answers, intent, image, times, create),
            daemon=True,
        )
        for n in range(processes)
    ]
    for process in born:
        process.start()
    results = [answers.get(timeout=900) for _ in born]
    for process in born:
        process.join()
    cpi = bed.open()
    made: Sequence[str] = [vm for _, vms in results for vm in vms]
    assert {cid for cid, _ in results} == {Mark(bed.director_uuid, intent).group_cid}
    assert len(set(made)) == processes * create
    assert len([one for one in bed.inventory() if one[0] == "server_group"]) == 1
    (cid,) = {cid for cid, _ in results}
    assert {one.vm_cid for one in cpi.inspect_server_group(cid).members} == set(made)
    bed.close()


def test_a_rule_with_a_prefix_list_is_drift_and_goes(bed: AwsBed, lab: Lab) -> None:
    """Manifests have no word for one, so a person wrote it."""
    web = SecurityGroup("kit-web", ({"protocol": "tcp", "ports": "80", "cidr": "10.0.0.0/8"},))
    group = lab.group(security_groups=[web])
    (cid,) = [one.cid for one in lab.cpi.inspect_server_group(group).resources if one.kind == "security_group"]
    open_to_many = {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "PrefixListIds": [{"PrefixListId": "pl-1"}]}
    bed.front.run("AuthorizeSecurityGroupIngress", {"GroupId": cid, "IpPermissions": [open_to_many]})
    assert "ingress tcp 22 from pl-1" in rules_of(lab, group)
    lab.cpi.update_server_group(group, lab.metadata(security_groups=[web]))
    assert [rule for rule in rules_of(lab, group) if rule.startswith("ingress")] == ["ingress tcp 80 from 10.0.0.0/8"]


def rules_of(lab: Lab, group: str) -> list[str]:
    resources = lab.cpi.inspect_server_group(group).resources
    return [str(rule) for one in resources for rule in read_rules(one.rules or ())]
