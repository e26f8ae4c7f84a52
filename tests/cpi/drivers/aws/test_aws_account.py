"""Rights, quotas, credentials, and a cloud that ignores filters."""

from __future__ import annotations

import inspect
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import botocore
import pytest
from peers.aws_bed import AwsBed

from coterie.cpi.conformance.lab import Lab
from coterie.cpi.contract import (
    AuthenticationFailed,
    CpiError,
    InvalidCall,
    Kind,
    Mark,
    Needs,
    OutcomeUnknown,
    PrivilegeMissing,
    SecurityGroup,
    Unavailable,
)
from coterie.cpi.drivers.aws import (
    checks,
    create_vm,
    disks,
    ec2,
    machines,
    networks,
    objects,
    security_groups,
    server_groups,
    stemcells,
)
from coterie.cpi.drivers.aws.driver import AwsCpi
from coterie.cpi.drivers.aws.properties import CLOUD, DISK, VM, read_vm_spec
from coterie.ids import Ids
from coterie.sandbox.fronts.aws import front as fronts
from coterie.sandbox.fronts.aws import rows
from coterie.sandbox.fronts.aws.front import Front
from coterie.sandbox.fronts.aws.refusals import ApiError
from coterie.sandbox.quotas import set_quota

POLICY = Path(__file__).parents[4] / "docs" / "aws-policy.json"
PARTS = (checks, create_vm, disks, machines, networks, objects, ec2, security_groups, server_groups, stemcells)
# Without a right of their own, or with another name than the operation's.
RIGHTS = {
    "ebs StartSnapshot": "ebs:StartSnapshot",
    "sts GetCallerIdentity": None,
    "service-quotas GetServiceQuota": "servicequotas:GetServiceQuota",
}


def called() -> set[str]:
    """The operations whose names are in the driver's source, as botocore writes its methods."""
    from botocore import xform_name
    from botocore.session import Session

    found, source = set(), "".join(inspect.getsource(part) for part in PARTS)
    direct = "authorize_security_group_ingress authorize_security_group_egress "
    source += direct + direct.replace("authorize", "revoke")
    words = set(re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", source))
    for service in ("ec2", "ebs", "sts", "service-quotas"):
        names = Session().get_service_model(service).operation_names
        found |= {f"{service} {name}" for name in names if xform_name(name) in words}
    return found


def test_the_policy_file_has_the_right_for_every_call_of_the_driver() -> None:
    allowed = {action for one in json.loads(POLICY.read_text())["Statement"] for action in one["Action"]}
    wanted = {RIGHTS.get(name, name.replace(" ", ":")) for name in called()} - {None}
    assert {"ec2:RunInstances", "ebs:PutSnapshotBlock", "ec2:CopyImage", "ec2:DescribeHosts"} <= wanted
    indirect = {
        "iam:PassRole",
        "kms:CreateGrant",
        "kms:Decrypt",
        "kms:DescribeKey",
        "kms:GenerateDataKeyWithoutPlaintext",
    }
    assert allowed == wanted | indirect


def test_the_front_knows_only_filters_that_ec2_has() -> None:
    """By the words of botocore's own definition of EC2."""
    import gzip

    path = Path(botocore.__file__).parent / "data" / "ec2" / "2016-11-15" / "service-2.json.gz"
    service = json.loads(gzip.decompress(path.read_bytes()))
    listing = {"modification": "DescribeVolumesModifications", "address": "DescribeAddresses"}
    for kind, known in rows.FILTERS.items():
        name = listing.get(kind, "Describe" + "".join(word.capitalize() for word in kind.split("-")) + "s")
        members = service["shapes"][service["operations"][name]["input"]["shape"]]["members"]
        words = (members.get("Filters") or members["Filter"])["documentation"]
        for one in known:
            assert f"<code>{one}</code>" in words, f"{name} has no filter {one}"


def test_a_cloud_that_ignores_filters_deletes_nothing_of_others(
    bed: AwsBed, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The survey says that it is not complete, and shows only what bears our mark; nothing else is found or read."""
    ours, vm_mark = lab.vm(), lab.mark()
    theirs = bed.open("5eed5eed-0000-4000-8000-000000000000")
    other = Mark("5eed5eed-0000-4000-8000-000000000000", Ids().intent())
    stranger = theirs.create_vm(**lab.vm_arguments(mark=other)).cid
    plain = bed.operator.create_vm("plain", "z1")
    monkeypatch.setattr(fronts, "select", lambda kind, found, filters: list(found))
    page = lab.cpi.survey("vm", bed.director_uuid)
    assert not page.complete and [one.cid for one in page.objects] == [ours]
    assert lab.cpi.find("vm", vm_mark) is None
    assert lab.cpi.vm_owner(stranger) == other.director
    assert not lab.cpi.has_vm("i-0123456789abcdef0")
    monkeypatch.undo()
    theirs.delete_vm(stranger)
    bed.operator.delete("vm", plain)


def test_a_cloud_that_ignores_filters_changes_no_vm_of_others(
    bed: AwsBed, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Security groups are exchanged on the members of the group only."""
    group = lab.group(security_groups=[SecurityGroup("first")])
    lab.vm(group=group)
    other = Mark("5eed5eed-0000-4000-8000-000000000000", Ids().intent())
    theirs = bed.open(other.director)
    stranger = theirs.create_vm(**lab.vm_arguments(mark=other)).cid
    changed: list[str] = []
    monkeypatch.setattr(fronts, "select", lambda kind, found, filters: list(found))
    run = Front.run

    def watch(front: Front, action: str, given: dict[str, Any]) -> Any:
        if action == "ModifyNetworkInterfaceAttribute":
            changed.append(given["NetworkInterfaceId"])
        return run(front, action, given)

    monkeypatch.setattr(Front, "run", watch)
    lab.cpi.update_server_group(group, lab.metadata(security_groups=[SecurityGroup("second")]))
    members = lab.cpi.inspect_server_group(group).members
    monkeypatch.undo()
    assert len(changed) == len(members) == 1
    theirs.delete_vm(stranger)


def test_a_survey_costs_calls_by_pages_and_not_by_objects(bed: AwsBed, lab: Lab) -> None:
    kinds: tuple[Kind, ...] = ("vm", "disk", "image", "server_group", "security_group")

    def count() -> dict[str, int]:
        found = {kind: bed.open().survey(kind, bed.director_uuid) for kind in kinds}
        assert all(page.objects and page.next is None for page in found.values())
        return {kind: page.calls for kind, page in found.items()}

    def add(name: str) -> None:
        group = lab.group(security_groups=[SecurityGroup(name)])
        vm = lab.vm(group=group)
        lab.disk()
        held = {one.cid: one.in_use_by for one in bed.open().survey("server_group", bed.director_uuid).objects}
        assert held[group] == (vm,)

    add("a")
    one = count()
    for name in ("b", "c", "d"):
        add(name)
    assert count() == one
    for group in bed.open().survey("security_group", bed.director_uuid).objects:
        assert group.in_use_by and len(group.in_use_by) == 2, "its server group, and a network interface"


def test_an_exhausted_quota_is_told_before_anything_is_made(bed: AwsBed, lab: Lab) -> None:
    lab.vm()
    set_quota(bed.datacenter, "kit", "cpu", 2)
    items = {item.what: item for item in lab.cpi.check(Needs(counts={"vm": 2}))}
    facts = dict(items["quotas"].facts or {})["quotas"]
    assert not items["quotas"].ok and "instances: 2 more needed, 1 of 2 used" in items["quotas"].detail
    assert facts["vcpus"] == {"limit": 2, "used": 1} and facts["instances"] == {"limit": 2, "used": 1}
    assert lab.cpi.check(Needs(counts={"vm": 1})) and facts["security_groups"]["limit"]
    set_quota(bed.datacenter, "kit", "cpu", None)


@pytest.mark.parametrize(
    ("code", "wanted"), [("UnauthorizedOperation", False), ("DryRunOperation", True), ("InvalidParameterValue", True)]
)
@pytest.mark.parametrize(("refused", "words"), [("CreateVolume", "create volumes"), ("RunInstances", "run instances")])
def test_a_missing_right_is_told_by_a_dry_run(
    bed: AwsBed, monkeypatch: pytest.MonkeyPatch, refused: str, words: str, code: str, wanted: bool
) -> None:
    run = Front.run

    def refuse(front: Front, action: str, given: dict[str, Any]) -> Any:
        if given.get("DryRun") and action == refused:
            raise ApiError(code, "You are not authorized to perform this operation.", 403)
        return run(front, action, given)

    monkeypatch.setattr(Front, "run", refuse)
    item = next(one for one in bed.open().check() if one.what == "privileges")
    assert item.ok is wanted
    assert wanted or (words in item.detail and "docs/aws.md" in item.remedy)


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("UnauthorizedOperation", 403, PrivilegeMissing),
        ("AuthFailure", 401, AuthenticationFailed),
        ("RequestLimitExceeded", 503, "throttled"),
        ("InternalError", 500, OutcomeUnknown),
        ("IdempotentParameterMismatch", 400, OutcomeUnknown),
    ],
)
def test_refusals_have_their_error(
    bed: AwsBed, lab: Lab, monkeypatch: pytest.MonkeyPatch, code: str, status: int, kind: Any
) -> None:
    arguments, run = lab.vm_arguments(), Front.run

    def refuse(front: Front, action: str, given: dict[str, Any]) -> Any:
        if action == "RunInstances":
            raise ApiError(code, "no", status)
        return run(front, action, given)

    monkeypatch.setattr(Front, "run", refuse)
    with pytest.raises(Exception) as caught:  # which one is what is tested
        lab.cpi.create_vm(**arguments)
    assert caught.value.code == kind if isinstance(kind, str) else isinstance(caught.value, kind)  # type: ignore[attr-defined]


def properties(**given: Any) -> dict[str, Any]:
    return {"region": "eu-central-1", "endpoint": "http://127.0.0.1:9", **given}


def test_a_profile_that_is_not_there_sends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bed: AwsBed
) -> None:
    """It is no lost answer; and no word on an earlier call of the mark, which had credentials perhaps."""
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    cpi = AwsCpi("lab", properties(profile="nowhere"), bed.open().runtime)
    with pytest.raises(Unavailable) as caught:
        cpi.create_disk(1024, {"availability_zone": "z1"}, mark=Mark(bed.director_uuid, Ids().intent()))
    assert "nowhere" in str(caught.value.why) and "profile" in caught.value.remedy
    assert not caught.value.retryable
    with pytest.raises(AuthenticationFailed):
        cpi.identity()


def test_a_profile_without_keys_is_given_none_of_other_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bed: AwsBed
) -> None:
    (tmp_path / "config").write_text("[profile empty]\nregion = eu-central-1\n")
    (tmp_path / "boto").write_text("[Credentials]\naws_access_key_id = a\naws_secret_access_key = b\n")
    for name, file in (("AWS_CONFIG_FILE", "config"), ("AWS_SHARED_CREDENTIALS_FILE", "none"), ("BOTO_CONFIG", "boto")):
        monkeypatch.setenv(name, str(tmp_path / file))
    bed.more = {"access_key_id": None, "secret_access_key": None, "profile": "empty"}
    with pytest.raises(AuthenticationFailed):
        bed.open().identity()


@pytest.mark.parametrize("code", ["TooManyRequestsException", "InvalidParameterException"])
def test_a_quota_that_cannot_be_read_is_not_called_missing(
    bed: AwsBed, lab: Lab, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    def refuse(front: Front, given: dict[str, Any]) -> Any:
        raise ApiError(code, "not now")

    monkeypatch.setattr(Front, "service_quota", refuse)
    bed.more = {"retries": 0}
    item = next(one for one in bed.open().check() if one.what == "quotas")
    assert not item.ok and code in item.detail


@pytest.mark.parametrize("source", ["environment", "instance"])
def test_only_the_named_source_gives_credentials(source: str, bed: AwsBed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:9")
    bed.more = {"access_key_id": None, "secret_access_key": None, "credentials_source": source}
    if source == "environment":
        assert "123456789012" in str(bed.open().identity())
    else:
        with pytest.raises(AuthenticationFailed):
            bed.open().identity()


class Machine(BaseHTTPRequestHandler):
    """The metadata service as a machine sees it that demands a token."""

    def do_PUT(self) -> None:
        self._answer(b"token" if self.headers["X-aws-ec2-metadata-token-ttl-seconds"] else None)

    def do_GET(self) -> None:
        is_known = self.path == "/meta-data/instance-id" and self.headers["X-aws-ec2-metadata-token"] == "token"
        self._answer(b"i-0a" if is_known else None)

    def _answer(self, body: bytes | None) -> None:
        self.send_response(200 if body else 401)
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, format: str, *arguments: object) -> None: ...


def test_a_machine_learns_its_id_with_a_token(bed: AwsBed, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Machine)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(machines, "METADATA", f"http://127.0.0.1:{server.server_address[1]}")
    try:
        assert bed.open().current_vm_id() == "i-0a"
        monkeypatch.setattr(machines, "METADATA", f"{machines.METADATA}/elsewhere")
        with pytest.raises(CpiError, match="not seem to be a VM"):
            bed.open().current_vm_id()
    finally:
        server.shutdown()
        server.server_close()


def test_a_cloud_that_cannot_be_reached_took_nothing(bed: AwsBed) -> None:
    bed.more = {"endpoint": "http://127.0.0.1:9", "retries": 0}
    with pytest.raises(Unavailable):
        bed.open().create_disk(1024, {}, mark=Mark(bed.director_uuid, Ids().intent()))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"access_key_id": "a"}, "secret_access_key"),
        ({"access_key_id": "a", "secret_access_key": "b", "profile": "p"}, "one way"),
        ({"credentials_source": "static"}, "secret_access_key"),
        ({"profile": "p", "external_id": "x"}, "role_arn"),
        ({"profile": "p", "kms_key_arn": "arn:aws:kms:x"}, "encrypted"),
        ({"profile": "p", "ec2_endpoint": "x"}, "endpoint"),
        ({"profile": "p", "max_retries": 8}, "retries"),
        ({"profile": "p", "metadata_options": {"http_token": "required"}}, "http_tokens"),
    ],
)
def test_mistakes_in_the_properties_are_named(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidCall) as caught:
        CLOUD.read({"region": "eu-central-1", **given}, "properties")
    assert words in f"{caught.value} {caught.value.remedy}"


def test_words_of_boshs_cpi_are_taken_or_refused_with_the_reason() -> None:
    spec = read_vm_spec(
        {
            "instance_type": "m5.large",
            "ephemeral_disk": {"size": 30_720, "type": "gp3", "encrypted": True},
            "root_disk": {"size": 10_240},
            "metadata_options": {"http_tokens": "optional"},
        }
    )
    assert spec.ephemeral_disk and (spec.ephemeral_disk.size, spec.ephemeral_disk.encrypted) == (30_720, True)
    for form, word, remedy in (
        (VM, "placement_group", "adopt"),
        (VM, "spot_bid_price", "leave it out"),
        (VM, "elbs", "register"),
        (VM, "auto_assign_public_ip", "vip"),
        (CLOUD, "fast_path_delete", "leave it out"),
    ):
        (mistake,) = form.key_mistakes({word: "x"})
        assert "is not supported" in mistake.what and remedy in mistake.remedy
    assert DISK.mistakes({"encrypted": False, "kms_key_arn": "arn"})
