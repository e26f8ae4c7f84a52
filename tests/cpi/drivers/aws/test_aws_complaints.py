"""What other drivers of AWS got wrong, by the words of those who complained: one test for each complaint."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from peers.aws_bed import AwsBed

from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import (
    CpiError,
    GroupInUse,
    GroupMissing,
    InvalidCall,
    NoPlacement,
    OutcomeUnknown,
    QuotaExceeded,
    SecurityGroup,
    Throttled,
    Unavailable,
    VMCreationFailed,
    VMNotFound,
)
from coterie.cpi.drivers.aws.client import Client, Refusal
from coterie.cpi.drivers.aws.machines import ended
from coterie.cpi.drivers.aws.properties import CLOUD, read_settings
from coterie.cpi.kit.call_limit import CallLimit
from coterie.cpi.kit.permit import Permit
from coterie.sandbox import faults, server_groups
from coterie.sandbox.fronts.aws import rows
from coterie.sandbox.fronts.aws.front import Front
from coterie.sandbox.fronts.aws.refusals import ApiError

Row = dict[str, Any]


class Deaf(BaseHTTPRequestHandler):
    """Counts requests, and closes the connection in place of an answer."""

    seen: list[str]

    def do_POST(self) -> None:
        self.seen.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.connection.close()

    def log_message(self, format: str, *arguments: object) -> None: ...


@contextmanager
def deaf_cloud() -> Iterator[tuple[str, list[str]]]:
    handler = type("Handler", (Deaf,), {"seen": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", handler.seen
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def answering(action: str, answer: Callable[[Front, Row], Row | None]) -> Iterator[Counter[str]]:
    """`answer` comes before the front's own; None: the front answers. The calls meanwhile, by action."""
    asked: Counter[str] = Counter()
    run = Front.run

    def bent(front: Front, name: str, given: Row) -> Row:
        asked[name] += 1
        found = answer(front, given) if name == action else None
        return run(front, name, given) if found is None else found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Front, "run", bent)
        yield asked


def refusing(times: int, code: str, text: str) -> Callable[[Front, Row], None]:
    left = iter(range(times))

    def answer(front: Front, given: Row) -> None:
        if next(left, None) is not None:
            raise ApiError(code, text)

    return answer


def test_bosh_aws_55_the_sdk_retries_and_makes_a_second_vm(bed: AwsBed, lab: Lab) -> None:
    """One request, with the token; a snapshot, which takes none, is not repeated either."""
    arguments, disk = lab.vm_arguments(), lab.disk()
    with deaf_cloud() as (endpoint, seen):
        bed.more = {"endpoint": endpoint, "retries": 0}
        client = bed.open().client  # type: ignore[attr-defined] # it is ours
        for what, body in (
            ("run_instances", {"MinCount": 1, "MaxCount": 1, "ClientToken": arguments["mark"].intent}),
            ("create_snapshot", {"VolumeId": disk}),
        ):
            with pytest.raises(OutcomeUnknown):
                client.change("make it", what, **body)
    assert len(seen) == 2 and f"ClientToken={arguments['mark'].intent}" in seen[0]
    bed.more = {}


def test_capa_1351_duplicates_after_a_crash_between_call_and_record(bed: AwsBed, lab: Lab) -> None:
    """The instance is shown by no list yet; the same token answers it all the same."""
    arguments = lab.vm_arguments()
    bed.faults.late("create_vm")
    first = lab.cpi.create_vm(**arguments).cid
    lab.undo(lab.cpi.delete_vm, first)
    before = bed.inventory()
    assert bed.open().create_vm(**arguments).cid == first
    assert bed.inventory() == before


def test_bosh_aws_69_an_address_that_others_hold_is_refused_by_name(bed: AwsBed, lab: Lab) -> None:
    arguments = lab.vm_arguments()
    holder = lab.vm(networks=arguments["networks"])
    with pytest.raises(InvalidCall, match=f"is held by {holder}"):
        lab.cpi.create_vm(**arguments)


def test_bosh_aws_69_an_address_of_a_vm_that_is_going_is_waited_for(bed: AwsBed, lab: Lab) -> None:
    arguments = lab.vm_arguments()
    refuse = refusing(2, "InvalidIPAddress.InUse", "Address is in use.")
    with answering("RunInstances", refuse) as asked:
        lab.undo(lab.cpi.delete_vm, lab.cpi.create_vm(**arguments).cid)
    assert asked["RunInstances"] == 3


def test_kops_1431_no_address_and_no_interface_is_made_that_could_leak(bed: AwsBed, lab: Lab) -> None:
    """They come with the instance; the elastic address is the operator's, and stays."""
    bed.front.addresses["198.51.100.7"] = None
    arguments = lab.vm_arguments()
    networks = {**arguments["networks"], "out": {"type": "vip", "ip": "198.51.100.7", "cloud_properties": {}}}
    with answering("", lambda front, given: None) as asked:
        vm = lab.cpi.create_vm(**{**arguments, "networks": networks}).cid
        lab.cpi.delete_vm(vm)
    assert asked["RunInstances"] == asked["AssociateAddress"] == 1
    assert not {"AllocateAddress", "CreateNetworkInterface", "ReleaseAddress"} & asked.keys()
    assert "198.51.100.7" in bed.front.addresses


def test_bosh_aws_52_an_address_is_associated_by_its_allocation(bed: AwsBed, lab: Lab) -> None:
    bed.front.addresses["198.51.100.7"] = None
    arguments = lab.vm_arguments()
    networks = {**arguments["networks"], "out": {"type": "vip", "ip": "198.51.100.7", "cloud_properties": {}}}
    vm = lab.vm(networks=networks)
    assert bed.front.addresses["198.51.100.7"] == vm
    other = lab.vm_arguments()
    other["networks"] = {**other["networks"], "out": {"type": "vip", "ip": "198.51.100.8"}}
    with answering("", lambda front, given: None) as asked, pytest.raises(CpiError, match="no elastic address"):
        lab.cpi.create_vm(**other)
    assert "RunInstances" not in asked


def test_bosh_aws_46_terminated_while_starting_says_why(bed: AwsBed, lab: Lab) -> None:
    lab.image()
    faults.add(bed.datacenter.store, "create_vm", "vm-error-state", times=1)
    with pytest.raises(VMCreationFailed) as caught:
        lab.cpi.create_vm(**lab.vm_arguments())
    assert caught.value.retryable and "the host failed" in caught.value.why


@pytest.mark.parametrize(
    ("code", "kind", "remedy"),
    [
        ("Server.InsufficientInstanceCapacity", NoPlacement, "another availability zone"),
        ("Client.VolumeLimitExceeded", QuotaExceeded, "quota"),
        ("Client.InternalError", VMCreationFailed, "KMS"),
    ],
)
def test_bosh_2399_each_reason_of_an_end_has_its_error(code: str, kind: type[Exception], remedy: str) -> None:
    error = ended({"InstanceId": "i-1", "StateReason": {"Code": code, "Message": f"{code}: so it is"}})
    assert isinstance(error, kind) and error.why == f"{code}: so it is" and remedy in error.remedy


def test_a_security_group_that_interfaces_of_the_past_hold_is_waited_for(bed: AwsBed, lab: Lab) -> None:
    group = lab.group(security_groups=[SecurityGroup("web")])
    refuse = refusing(2, "DependencyViolation", "resource sg has a dependent object")
    with answering("DeleteSecurityGroup", refuse) as asked:
        lab.cpi.delete_server_group(group)
    assert asked["DeleteSecurityGroup"] == 3


@pytest.mark.parametrize("key", ["coterie-intent", "aws:cloudformation:stack-name"])
def test_capa_4629_users_tags_do_not_overwrite_the_controllers(bed: AwsBed, lab: Lab, key: str) -> None:
    vm, disk = lab.vm(), lab.disk()
    for write in (
        lambda: lab.cpi.set_vm_metadata(vm, {key: "x"}),
        lambda: lab.cpi.set_disk_metadata(disk, {key: "x"}),
        lambda: lab.cpi.create_vm(**lab.vm_arguments(cloud_properties={**bed.vm_properties("z1"), "tags": {key: "x"}})),
    ):
        with pytest.raises(InvalidCall):
            write()


def test_karpenter_2734_a_name_or_address_that_is_used_again_is_another_machine(bed: AwsBed, lab: Lab) -> None:
    arguments = lab.vm_arguments()
    vm = lab.vm(networks=arguments["networks"], mark=arguments["mark"])
    bed.operator.delete("vm", vm)
    stranger = bed.operator.create_vm(arguments["mark"].name(), "z1")
    assert lab.cpi.find("vm", arguments["mark"]) is None and not lab.cpi.has_vm(vm)
    bed.operator.delete("vm", stranger)


def test_not_found_right_after_the_creation_is_not_gone(bed: AwsBed, lab: Lab) -> None:
    """It may be running: within the settle time nothing may be concluded."""
    arguments = lab.vm_arguments()
    vm = lab.cpi.create_vm(**arguments).cid
    with answering("DescribeInstances", lambda front, given: {"Reservations": []}):
        for ask in (lab.cpi.has_vm, lab.cpi.reboot_vm):
            with pytest.raises(Unavailable):
                ask(vm)
        with pytest.raises(VMNotFound):
            lab.cpi.reboot_vm("i-0123456789abcdef0")
    lab.cpi.delete_vm(vm)


def test_parallelcluster_6329_a_group_in_use_for_minutes_after_the_last_instance(bed: AwsBed, lab: Lab) -> None:
    group = lab.group("anti-affinity")
    refuse = refusing(3, "InvalidPlacementGroup.InUse", "The placement group is in use and may not be deleted.")
    with answering("DeletePlacementGroup", refuse) as asked:
        lab.cpi.delete_server_group(group)
    assert asked["DeletePlacementGroup"] == 4


def test_ncluster_32_a_group_with_stopped_members_is_not_deleted(
    bed: AwsBed, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AWS would delete it, and the members would never start again."""
    group = lab.group("anti-affinity")
    vm = lab.vm(group=group)
    monkeypatch.setitem(rows._STATES, "running", (80, "stopped"))
    with answering("", lambda front, given: None) as asked, pytest.raises(GroupInUse):
        lab.cpi.delete_server_group(group)
    assert "DeletePlacementGroup" not in asked
    assert [one.vm_cid for one in lab.cpi.inspect_server_group(group).members] == [vm]


def test_a_group_that_goes_while_an_instance_is_made_is_missing(bed: AwsBed, lab: Lab) -> None:
    group, before = lab.group("anti-affinity"), bed.inventory()
    arguments = lab.vm_arguments(group=group)
    before = bed.inventory()
    refuse = refusing(1, "InvalidPlacementGroup.Unknown", "The Placement Group is unknown.")
    with answering("RunInstances", refuse), pytest.raises(GroupMissing):
        lab.cpi.create_vm(**arguments)
    assert bed.inventory() == before


def test_the_machines_own_role_is_never_taken_silently() -> None:
    (mistake,) = CLOUD.mistakes({"region": "eu-central-1"})
    assert mistake.key == "access_key_id" and "credentials_source" in mistake.remedy


@pytest.mark.parametrize(
    ("code", "status", "changes", "kind"),
    [
        ("502", 502, True, OutcomeUnknown),
        ("InternalFailure", 500, True, OutcomeUnknown),
        ("ServerInternal", 500, True, OutcomeUnknown),
        ("ServerInternal", 500, False, Unavailable),
        ("InsufficientInstanceCapacity", 500, True, NoPlacement),
        ("VcpuLimitExceeded", 400, True, QuotaExceeded),
        ("VolumeModificationRateExceeded", 400, True, QuotaExceeded),
        ("InvalidParameterValue", 400, True, InvalidCall),
        ("RequestThrottledException", 400, True, Throttled),
        ("TooManyRequestsException", 400, False, Throttled),
        ("ConcurrentLimitExceededException", 400, True, Throttled),
    ],
)
def test_a_failure_of_aws_is_no_refusal(code: str, status: int, changes: bool, kind: type[Exception]) -> None:
    """Whatever the code: what was asked for may have been done."""
    assert Refusal("make it", code, "why", changes=changes, status=status).kind is kind


def test_a_snapshot_that_only_bears_a_copied_mark_stays(bed: AwsBed, lab: Lab) -> None:
    """As a backup of an image's snapshot does, where tags are copied."""
    path, properties = bed.image()
    stemcell = lab.cpi.create_stemcell(path, properties, mark=lab.mark())
    (own,) = bed.front.uploads
    bed.front.uploads["snap-backup"] = bed.front.uploads[own]
    lab.cpi.delete_stemcell(stemcell)
    assert [*bed.front.uploads] == ["snap-backup"]
    del bed.front.uploads["snap-backup"]


def test_every_volume_of_an_image_goes_with_its_vm(bed: AwsBed, lab: Lab) -> None:
    """An image may map further volumes, also before its root."""
    asked: list[Row] = []
    arguments = lab.vm_arguments()
    mapped = [("/dev/sdh", 3), ("/dev/xvda", 9)]
    image = {
        "ImageId": arguments["stemcell_cid"],
        "RootDeviceName": "/dev/xvda",
        "BlockDeviceMappings": [{"DeviceName": device, "Ebs": {"VolumeSize": size}} for device, size in mapped],
    }
    with (
        answering("DescribeImages", lambda front, given: {"Images": [image]}),
        answering("RunInstances", lambda front, given: asked.append(given)),
    ):
        lab.undo(lab.cpi.delete_vm, lab.cpi.create_vm(**arguments).cid)
    found = {one["DeviceName"]: one["Ebs"] for one in asked[0]["BlockDeviceMappings"]}
    assert found["/dev/xvda"]["VolumeSize"] == 9 and found.keys() == {"/dev/xvda", "/dev/sdh"}
    assert all(one["DeleteOnTermination"] for one in found.values())


def test_a_role_is_assumed_by_one_request() -> None:
    """With the settings of every other client."""
    with deaf_cloud() as (endpoint, seen):
        given = {"region": "eu-central-1", "access_key_id": "a", "secret_access_key": "b", "retries": 0}
        settings = read_settings({**given, "endpoint": endpoint, "role_arn": "arn:aws:iam::123456789012:role/coterie"})
        client = Client(settings, Permit("d", CallLimit(1)))
        with pytest.raises(CpiError):
            client.ask("read the account", "get_caller_identity", "sts")
    assert len(seen) == 1 and "AssumeRole" in seen[0]


def test_a_vm_that_no_list_shows_yet_is_deleted_by_another_process(bed: AwsBed, lab: Lab) -> None:
    arguments = lab.vm_arguments()
    before = bed.inventory()
    vm = lab.cpi.create_vm(**arguments).cid
    with answering("DescribeInstances", lambda front, given: {"Reservations": []}):
        bed.open().delete_vm(vm)
    assert bed.inventory() == before
    bed.open().delete_vm("not-an-instance")


def test_a_volume_that_no_list_shows_yet_is_deleted_by_another_process(bed: AwsBed, lab: Lab) -> None:
    before = bed.inventory()
    disk = lab.cpi.create_disk(1024, bed.disk_properties(lab.az), mark=lab.mark())
    with answering("DescribeVolumes", lambda front, given: {"Volumes": []}):
        bed.open().delete_disk(disk)
    assert bed.inventory() == before
    bed.open().delete_disk("not-a-volume")


def test_a_group_is_waited_for_until_others_see_it(bed: AwsBed, lab: Lab) -> None:
    left = iter(range(3))

    def hide(front: Front, given: Row) -> Row | None:
        return {"PlacementGroups": []} if next(left, None) is not None else None

    metadata, mark = lab.metadata("anti-affinity"), lab.mark()
    with answering("DescribePlacementGroups", hide):
        group = lab.cpi.create_server_group(metadata, mark=mark)
        assert next(left, None) is None
    assert bed.open().inspect_server_group(group).policy == "anti-affinity"
    lab.cpi.delete_server_group(group)


def test_a_group_that_cannot_be_read_after_its_creation_is_in_doubt(bed: AwsBed, lab: Lab) -> None:
    def refuse(front: Front, given: Row) -> None:
        if list(front._every(server_groups.list_server_groups)):
            raise ApiError("UnauthorizedOperation", "no", 403)

    with answering("DescribePlacementGroups", refuse), pytest.raises(OutcomeUnknown, match="was created"):
        lab.cpi.create_server_group(lab.metadata("anti-affinity"), mark=lab.mark())
    (left,) = bed.open().survey("server_group", bed.director_uuid).objects
    lab.cpi.delete_server_group(left.cid)
