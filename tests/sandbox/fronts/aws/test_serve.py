"""`coterie sandbox serve --api aws`, judged by boto3 as it is: its parser takes every answer, its waiters end."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.sandbox.fronts.cloudstack.test_serve import ended, started, way_in

Json = dict[str, Any]


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Json]:
    process = started(tmp_path_factory.mktemp("aws"), "--api", "aws", "-o", "json")
    yield way_in(process)
    assert ended(process) == 0


@pytest.fixture(scope="module")
def session(facts: Json) -> boto3.Session:
    return boto3.Session(facts["access_key_id"], facts["secret_access_key"], region_name=facts["region"])


@pytest.fixture(scope="module")
def ec2(session: boto3.Session, facts: Json) -> Any:
    return session.client("ec2", endpoint_url=facts["endpoint"])


@pytest.fixture(scope="module")
def image(session: boto3.Session, facts: Json, ec2: Any) -> str:
    ebs = session.client("ebs", endpoint_url=facts["endpoint"])
    snapshot = ebs.start_snapshot(VolumeSize=1)["SnapshotId"]
    ebs.complete_snapshot(SnapshotId=snapshot, ChangedBlocksCount=0)
    devices = [{"DeviceName": "/dev/xvda", "Ebs": {"SnapshotId": snapshot}}]
    made = ec2.register_image(Name="ubuntu", RootDeviceName="/dev/xvda", BlockDeviceMappings=devices)["ImageId"]
    ec2.get_waiter("image_available").wait(ImageIds=[made])
    return str(made)


def instance(ec2: Any, facts: Json, image: str, **more: Any) -> Json:
    body = {"ImageId": image, "InstanceType": "t3.nano", "MinCount": 1, "MaxCount": 1}
    placed = {"SubnetId": facts["subnets"]["z1"], "DeviceIndex": 0}
    answer = ec2.run_instances(**body, NetworkInterfaces=[placed], Placement={"AvailabilityZone": "z1"}, **more)
    (made,) = answer["Instances"]
    return dict(made)


def test_a_machine_with_a_volume_lives_and_goes(ec2: Any, facts: Json, image: str) -> None:
    cid = instance(ec2, facts, image)["InstanceId"]
    ec2.get_waiter("instance_running").wait(InstanceIds=[cid])
    volume = ec2.create_volume(AvailabilityZone="z1", Size=1, VolumeType="gp3")["VolumeId"]
    ec2.get_waiter("volume_available").wait(VolumeIds=[volume])
    ec2.attach_volume(VolumeId=volume, InstanceId=cid, Device="/dev/sdf")
    ec2.get_waiter("volume_in_use").wait(VolumeIds=[volume])
    ec2.terminate_instances(InstanceIds=[cid])
    ec2.get_waiter("instance_terminated").wait(InstanceIds=[cid])
    ec2.delete_volume(VolumeId=volume)


def test_a_token_answers_the_first_instance_and_refuses_another_request(ec2: Any, facts: Json, image: str) -> None:
    first = instance(ec2, facts, image, ClientToken="token-1")["InstanceId"]
    assert instance(ec2, facts, image, ClientToken="token-1")["InstanceId"] == first
    with pytest.raises(ClientError, match="IdempotentParameterMismatch"):
        instance(ec2, facts, image, ClientToken="token-1", UserData="other")
    ec2.terminate_instances(InstanceIds=[first])
    answer = instance(ec2, facts, image, ClientToken="token-1")
    assert (answer["InstanceId"], answer["State"]["Name"]) == (first, "terminated")


def test_an_image_is_shared_and_taken_back(ec2: Any, image: str) -> None:
    def shared() -> Any:
        return ec2.describe_image_attribute(ImageId=image, Attribute="launchPermission")["LaunchPermissions"]

    others = [{"UserId": "210987654321"}, {"Group": "all"}]
    assert shared() == []
    ec2.modify_image_attribute(ImageId=image, LaunchPermission={"Add": others})
    ec2.modify_image_attribute(ImageId=image, LaunchPermission={"Add": others[:1]})
    assert shared() == others
    ec2.modify_image_attribute(ImageId=image, LaunchPermission={"Remove": others})
    assert shared() == []


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda ec2: ec2.describe_instances(Filters=[{"Name": "no-such", "Values": ["x"]}]), "InvalidParameterValue"),
        (lambda ec2: ec2.describe_instances(MaxResults=2), "InvalidParameterValue"),
        (lambda ec2: ec2.create_placement_group(GroupName="x", Strategy="far"), "InvalidParameterValue"),
        (lambda ec2: ec2.create_volume(AvailabilityZone="z1", Size=1, DryRun=True), "DryRunOperation"),
        (lambda ec2: ec2.delete_placement_group(GroupName="none"), "InvalidPlacementGroup.Unknown"),
        (lambda ec2: ec2.describe_volumes(VolumeIds=["vol-0123456789abcdef0"]), "InvalidVolume.NotFound"),
        (lambda ec2: ec2.describe_regions(), "InvalidAction"),
        (
            lambda ec2: ec2.describe_image_attribute(ImageId="img-none", Attribute="launchPermission"),
            "InvalidAMIID.NotFound",
        ),
    ],
)
def test_what_ec2_refuses_is_refused_with_its_code(ec2: Any, call: Any, code: str) -> None:
    with pytest.raises(ClientError) as caught:
        call(ec2)
    assert caught.value.response["Error"]["Code"] == code


@pytest.mark.parametrize(
    ("form", "code"),
    [
        ("Action=TerminateInstances", "MissingParameter"),
        ("Action=DescribeInstances&Colour=red", "UnknownParameter"),
        ("Action=CreateVolume&AvailabilityZone=z1&Size=big", "InvalidParameterValue"),
        ("Action=NoSuch", "InvalidAction"),
    ],
)
def test_requests_are_read_strictly(facts: Json, form: str, code: str) -> None:
    request = urllib.request.Request(facts["endpoint"], data=form.encode(), headers={"Authorization": "Credential=a"})
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request)
    assert f"<Code>{code}</Code>" in caught.value.read().decode()


def test_settings_are_cloudstacks(tmp_path: Path) -> None:
    process = started(tmp_path, "--api", "aws", "--set", "a=1")
    _, words = process.communicate(timeout=60)
    assert process.returncode == 2 and "has no settings" in words
