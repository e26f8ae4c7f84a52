"""Members of strict groups beside VMs that hold their domains: those that the ledger has lost, those of calls at the
same time, those that lists show too late or too long. No domain ever has two members."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from peers.gcp_bed import DOMAINS, GcpBed

from coterie.cpi.conformance.expect import expect_error
from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import CpiError, NoPlacement, VMCreationFailed
from coterie.cpi.drivers.gcp.machines import Machines
from coterie.cpi.drivers.gcp.server_groups import Domains

SETTLE_S, LAG_S = 1.0, 0.8


@pytest.fixture
def group(bed: GcpBed, lab: Lab) -> str:
    bed.more["settle_s"] = SETTLE_S
    lab.image()
    return lab.group("anti-affinity")


def domains(lab: Lab, group: str) -> dict[str, str | None]:
    return {one.vm_cid: one.domain for one in lab.cpi.inspect_server_group(group).members}


def resource(bed: GcpBed, vm: str) -> Any:
    return bed.front.shelf.get(f"zones/z1/instances/{vm.split('/')[1]}")


def lag(bed: GcpBed, seconds: float) -> None:
    bed.front.settings.list_lag_s = seconds


def create(bed: GcpBed, lab: Lab, group: str, member: int | None) -> str:
    """As the engine does it: what may be repeated is repeated, under another mark."""
    deadline = time.monotonic() + 60
    while True:
        try:
            vm = str(bed.open().create_vm(**lab.vm_arguments(group=group, member=member)).cid)
        except CpiError as error:
            if not error.retryable or time.monotonic() > deadline:
                raise
            continue
        lab.undo(lab.cpi.delete_vm, vm)
        return vm


# -- one after the other --


def test_a_new_member_beside_a_lost_one_takes_a_free_domain(bed: GcpBed, lab: Lab, group: str) -> None:
    """Its sibling's stays free for it; made anew after the lost one has gone, it is where its number says."""
    lost = lab.vm(group=group, member=0)
    found = lab.vm(group=group, member=0)
    sibling = lab.vm(group=group, member=1)
    assert domains(lab, group) == {lost: "z1/1", found: "z1/4", sibling: "z1/2"}
    lab.cpi.delete_vm(lost)
    lab.cpi.delete_vm(found)
    again = lab.vm(group=group, member=0)
    assert domains(lab, group) == {sibling: "z1/2", again: "z1/1"}


def test_a_stopped_vm_holds_its_domain(bed: GcpBed, lab: Lab, group: str) -> None:
    lost = lab.vm(group=group, member=0)
    bed.operator.witness.ask("POST", f"zones/z1/instances/{lost.split('/')[1]}/stop")
    found = lab.vm(group=group, member=0)
    assert domains(lab, group) == {lost: "z1/1", found: "z1/4"}


def test_no_free_domain_is_told_with_the_vms_that_have_them(bed: GcpBed, lab: Lab, group: str) -> None:
    vms = [lab.vm(group=group, member=number) for number in range(DOMAINS)]
    for member in (0, None):
        error = expect_error(NoPlacement, partial(lab.vm, group=group, member=member))
        assert all(vm in error.why for vm in vms)


@pytest.mark.parametrize("member", [0, None])
def test_a_list_that_shows_what_is_gone_costs_no_domain(
    bed: GcpBed, lab: Lab, group: str, member: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every member was deleted a moment ago, and is still listed."""
    listed = Machines.placed_members
    vms = [lab.vm(group=group, member=number) for number in range(DOMAINS)]
    old = [resource(bed, vm).row for vm in vms]
    for vm in vms:
        lab.cpi.delete_vm(vm)

    def late(self: Machines, *arguments: str) -> list[Any]:
        return [*old, *listed(self, *arguments)]

    monkeypatch.setattr(Machines, "placed_members", late)
    started = time.monotonic()
    vm = lab.vm(group=group, member=member)
    assert domains(lab, group) == {vm: "z1/1"}
    assert member is None or time.monotonic() - started < 2 * SETTLE_S


# -- at once --


def test_calls_at_once_beside_lost_vms_take_different_domains(bed: GcpBed, lab: Lab, group: str) -> None:
    lost = [lab.vm(group=group, member=number) for number in range(2)]
    seen: list[str] = []
    bed.front.watch = seen.append
    lag(bed, LAG_S)
    time.sleep(LAG_S)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda number: create(bed, lab, group, number), range(2)))
    lag(bed, 0.0)
    found = domains(lab, group)
    assert set(found.values()) == {"z1/1", "z1/2", "z1/3", "z1/4"} and found.keys() > set(lost)
    assert seen.count("instances.insert") == 2


def test_a_member_at_the_domain_of_its_number_goes_before_one_that_found_it_free(
    bed: GcpBed, lab: Lab, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one is created when no list shows the first one yet."""
    lost = lab.vm(group=group, member=0)
    made = between_creation_and_comparison(bed, monkeypatch, lambda: lab.vm(group=group, member=3))
    error = expect_error(VMCreationFailed, lambda: bed.open().create_vm(**lab.vm_arguments(group=group, member=0)))
    assert error.retryable and "z1/4" in error.why
    assert domains(lab, group) == {lost: "z1/1", made[0]: "z1/4"}
    create(bed, lab, group, 0)
    assert len(set(domains(lab, group).values())) == 3


def test_a_member_that_comes_long_after_one_in_its_domain_gives_way(
    bed: GcpBed, lab: Lab, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It did not see it at first; the other one was compared already, and stays."""
    lost, found = lab.vm(group=group, member=0), lab.vm(group=group, member=0)
    choose = Domains.choose
    monkeypatch.setattr(Domains, "choose", lambda *_: (4, {}))
    expect_error(VMCreationFailed, lambda: lab.vm(group=group, member=3))
    monkeypatch.setattr(Domains, "choose", choose)
    again = lab.vm(group=group, member=3)
    assert domains(lab, group) == {lost: "z1/1", found: "z1/4", again: "z1/2"}


def test_the_repeat_of_a_killed_call_compares_too(
    bed: GcpBed, lab: Lab, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost, arguments = lab.vm(group=group, member=0), lab.vm_arguments(group=group, member=0)

    class Killed(BaseException):
        pass

    def die(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Domains, "require_alone", die)
        with pytest.raises(Killed):
            bed.open().create_vm(**arguments)
    with monkeypatch.context() as patch:  # its list is late
        patch.setattr(Domains, "choose", lambda *_: (4, {}))
        patch.setattr(Domains, "require_alone", lambda *_: None)
        sibling = lab.vm(group=group, member=3)
    expect_error(VMCreationFailed, lambda: bed.open().create_vm(**arguments))
    assert domains(lab, group) == {lost: "z1/1", sibling: "z1/4"}


def between_creation_and_comparison(bed: GcpBed, patch: pytest.MonkeyPatch, act: Callable[[], str]) -> list[str]:
    """`act` runs when the next VM is created and in no list yet; what it answered."""
    made, compare = list[str](), Domains.require_alone

    def late(self: Domains, row: Any, *more: Any) -> None:
        if not made:
            made.append("")
            one = resource(bed, f"z1/{row['name']}")
            one.facts["listed_from"] = time.time() + LAG_S
            made[0] = act()
        compare(self, row, *more)

    patch.setattr(Domains, "require_alone", late)
    return made


def test_members_without_numbers_share_no_domain_though_lists_lag(bed: GcpBed, lab: Lab, group: str) -> None:
    lag(bed, LAG_S)
    with ThreadPoolExecutor(2) as pool:
        made = list(pool.map(lambda _: create(bed, lab, group, None), range(2)))
    lag(bed, 0.0)
    found = domains(lab, group)
    assert len(set(found.values())) == len(found) == len(made)


# -- a storm --


# Makes one member after the other; every second one is lost: it is there until the next one of its number is.
PROCESS = """
import json, sys, time
from coterie.cpi.contract import CpiError, Mark, NoPlacement, Runtime
from coterie.cpi.drivers.gcp.driver import GcpCpi
given, lost = json.loads(sys.stdin.read()), []

def delete(vm, since):
    domain = cpi.machines.read(vm)["resourceStatus"]["scheduling"]["availabilityDomain"]
    print(json.dumps([domain, since, time.monotonic()]))
    cpi.delete_vm(vm)

for turn, arguments in enumerate(given["vms"]):
    cpi = GcpCpi("lab", given["properties"], Runtime(given["director"], None))
    mark = Mark(given["director"], arguments.pop("intent"))
    try:
        vm = cpi.create_vm(**arguments, mark=mark).cid
    except CpiError as error:
        assert error.retryable or isinstance(error, NoPlacement), error
        continue
    since = time.monotonic()
    for one in lost:
        delete(*one)
    lost = [(vm, since)]
    time.sleep(given["pause_s"])
    if turn % 2:
        delete(*lost.pop())
for one in lost:
    delete(*one)
"""


def storm(bed: GcpBed, lab: Lab, group: str, processes: int, members: int) -> int:
    """More processes than there are domains, each with a number of its own. No domain has two members that were
    answered. How many were."""
    lag(bed, LAG_S)
    running = []
    for number in range(processes):
        machines = [lab.vm_arguments(group=group, member=number) for _ in range(members)]
        vms = [{"intent": one.pop("mark").intent, **one} for one in machines]
        given = {"director": bed.director_uuid, "properties": bed.properties(), "vms": vms, "pause_s": LAG_S}
        command = [sys.executable, "-c", PROCESS]
        one = subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert one.stdin
        one.stdin.write(json.dumps(given))
        one.stdin.close()
        running.append(one)
    answered = []
    for one in running:
        assert one.stdout
        answered += [json.loads(line) for line in one.stdout.read().splitlines()]
        assert one.wait(300) == 0
    lag(bed, 0.0)
    for domain in {each[0] for each in answered}:
        times = sorted(each[1:] for each in answered if each[0] == domain)
        assert all(first[1] <= second[0] for first, second in pairwise(times)), f"two members in domain {domain}"
    assert not domains(lab, group)
    return len(answered)


def test_a_storm_puts_no_two_members_into_one_domain(bed: GcpBed, lab: Lab, group: str) -> None:
    assert storm(bed, lab, group, processes=5, members=2)


@pytest.mark.full
def test_twenty_processes_of_ten_members_each_put_no_two_into_one_domain(bed: GcpBed, lab: Lab, group: str) -> None:
    assert storm(bed, lab, group, processes=20, members=10) > DOMAINS
