"""What the driver reads and writes without a cloud: marks, rules, cards, orders, memos, refusals, sealed requests."""

from __future__ import annotations

import base64
import gzip
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from coterie.cpi.contract import (
    AuthenticationFailed,
    CpiError,
    InvalidCall,
    Mark,
    PrivilegeMissing,
    QuotaExceeded,
    Throttled,
    Unavailable,
)
from coterie.cpi.drivers.openstack.agent_settings import Told, userdata
from coterie.cpi.drivers.openstack.envelope import sealed, unsealed
from coterie.cpi.drivers.openstack.image_files import disk_of
from coterie.cpi.drivers.openstack.marking import (
    description,
    mark_of_description,
    mark_of_metadata,
    mark_of_name,
    mark_of_tags,
    metadata,
    tags,
    users_metadata,
)
from coterie.cpi.drivers.openstack.memos import Memo, _read
from coterie.cpi.drivers.openstack.nics import answered, cards, vips
from coterie.cpi.drivers.openstack.order import gib, read_order
from coterie.cpi.drivers.openstack.properties import read_settings
from coterie.cpi.drivers.openstack.refusals import collided, no_host, refusal, translate
from coterie.cpi.drivers.openstack.rules import has_rule, rule_bodies

MARK = Mark("0f8fad5b-d9cb-469f-a165-70867728950e", "01" + "a" * 24)
OTHER = "1f8fad5b-d9cb-469f-a165-70867728950e"
GUARD = "286584e6-c6ea-4a80-9b7c-33dc3d0dbafd"


def test_marks_are_read_back_from_everything_that_bears_them() -> None:
    assert mark_of_tags(["x", *tags(MARK)]) == MARK
    assert mark_of_metadata({"x": "y", **metadata(MARK)}) == MARK
    assert mark_of_description(description(MARK)) == MARK
    assert mark_of_name(MARK.group_cid, MARK.director) == MARK
    assert mark_of_name(MARK.name(), MARK.director) == MARK
    assert all(len(tag) <= 60 and not set("/,") & set(tag) for tag in tags(MARK))


@pytest.mark.parametrize("found", [[], tags(MARK)[:1], tags(MARK)[1:], [*tags(MARK), f"coterie-director-{OTHER}"]])
def test_half_a_mark_or_two_are_none(found: list[str]) -> None:
    assert mark_of_tags(found) is None


@pytest.mark.parametrize("text", [None, "", MARK.name(), f"{MARK.name()} {OTHER}", f"{description(MARK)} more"])
def test_a_description_that_is_not_wholly_ours_is_none(text: str | None) -> None:
    assert mark_of_description(text) is None


def test_nobody_forges_our_metadata() -> None:
    with pytest.raises(InvalidCall, match="reserved"):
        users_metadata({"coterie-director": "me"})
    assert users_metadata({"k": "v" * 300}) == {"k": "v" * 255}


def test_rules_in_the_words_of_manifests_and_of_the_kit() -> None:
    (web,) = rule_bodies({"protocol": "tcp", "ports": "8000-8080", "cidr": "10.0.0.0/8"}, {})
    assert (web["direction"], web["port_range_min"], web["port_range_max"]) == ("ingress", 8000, 8080)
    assert web["ethertype"] == "IPv4"
    (out,) = rule_bodies({"protocol": "any", "cidr": "2001:db8::/32", "direction": "egress"}, {})
    assert (out["direction"], out["protocol"], out["ethertype"]) == ("egress", None, "IPv6")
    both = rule_bodies({"protocol": "tcp", "ports": "9", "group": "kafka", "direction": "in"}, {"kafka": GUARD})
    assert [(one["remote_group_id"], one["ethertype"]) for one in both] == [(GUARD, "IPv4"), (GUARD, "IPv6")]
    assert all(one["remote_ip_prefix"] is None for one in both)


@pytest.mark.parametrize("rule", [{"direction": "up"}, {"ports": "http"}, {"cidr": "everywhere"}])
def test_a_wrong_rule_is_refused(rule: dict[str, Any]) -> None:
    with pytest.raises(InvalidCall):
        rule_bodies(rule, {})


def test_a_rule_that_is_there_is_known_however_neutron_writes_everywhere() -> None:
    (body,) = rule_bodies({"protocol": "tcp", "ports": "22"}, {})
    assert has_rule({"security_group_rules": [{**body, "remote_ip_prefix": None}]}, body)
    assert not has_rule({"security_group_rules": [{**body, "port_range_max": 23}]}, body)
    assert not has_rule({"security_group_rules": [{**body, "remote_group_id": GUARD}]}, body)


def test_cards_begin_with_the_gateway_and_share_a_nic_group() -> None:
    networks = {
        "a": {"type": "manual", "ip": "10.0.0.5", "cloud_properties": {"net_id": "n"}, "nic_group": "1"},
        "b": {"type": "manual", "ip": "2001:db8::5", "cloud_properties": {"net_id": "n"}, "nic_group": "1"},
        "c": {"type": "dynamic", "ip": "10.9.9.9", "default": ["gateway"], "cloud_properties": {"name": "m"}},
        "d": {"type": "vip", "ip": "192.0.2.9", "cloud_properties": {}},
    }
    first, second = cards(networks)
    assert (first.label, first.ips) == ("c", ())
    assert (second.labels, second.ips) == (("a", "b"), ("10.0.0.5", "2001:db8::5"))
    assert [vip.ip for vip in vips(networks)] == ["192.0.2.9"]
    port = {"fixed_ips": [{"ip_address": "10.3.0.1"}], "mac_address": "m"}
    told = answered(networks, {"c": port})
    assert (told["c"]["ip"], told["c"]["mac"]) == ("10.3.0.1", "m")


@pytest.mark.parametrize(
    ("networks", "word"),
    [
        ({}, "at least one"),
        ({"a": {"type": "manual"}}, "networks.a.ip"),
        ({"a": {"type": "manual", "ip": "ten"}}, "networks.a.ip"),
        ({"a": {"type": "static"}}, "networks.a.type"),
        ({"a": {"type": "dynamic", "cloud_properties": {"subnet": "x"}}}, "networks.a.cloud_properties.subnet"),
    ],
)
def test_a_wrong_network_is_named(networks: dict[str, Any], word: str) -> None:
    with pytest.raises(InvalidCall) as caught:
        cards(networks)
    assert word in f"{caught.value} {caught.value.remedy}"


@pytest.mark.parametrize(
    ("properties", "word"),
    [
        ({}, "instance_type"),
        ({"instance_type": "a", "root_disk": {"gb": 1}}, "root_disk"),
        ({"instance_type": "a", "scheduler_hints": {"group": "x"}}, "scheduler_hints has a group"),
        ({"instance_type": "a", "flavour": "x"}, "flavour"),
    ],
)
def test_a_wrong_order_is_named(properties: dict[str, Any], word: str) -> None:
    with pytest.raises(InvalidCall, match=word):
        read_order(properties)


def test_sizes_are_never_smaller_than_asked() -> None:
    assert [gib(size) for size in (1, 1024, 1025)] == [1, 1, 2]


def test_a_memo_is_read_back_and_other_tags_are_none() -> None:
    for memo in (Memo(MARK.group_cid, 3, "anti-affinity", (GUARD,)), Memo(MARK.group_cid, 1, None, ())):
        assert _read(memo.tag) == memo
        assert len(memo.tag) <= 255
    for tag in ("blue", "cg-x", "cg-x.y.none", f"{MARK.group_cid}.1.none.rubbish"):
        assert _read(tag) is None


@pytest.mark.parametrize(
    ("status", "body", "kind", "retryable"),
    [
        (400, {"badRequest": {"message": "m"}}, InvalidCall, False),
        (401, {"error": {"message": "m"}}, AuthenticationFailed, False),
        (403, {"forbidden": {"message": "Quota exceeded for instances"}}, QuotaExceeded, False),
        (403, {"forbidden": {"message": "Policy does not allow"}}, PrivilegeMissing, False),
        (409, {"NeutronError": {"type": "OverQuota", "message": "m"}}, QuotaExceeded, False),
        (409, {"conflictingRequest": {"message": "busy"}}, CpiError, True),
        (413, {"overLimit": {"message": "VolumeLimitExceeded: quota"}}, QuotaExceeded, False),
        (429, {}, Throttled, True),
        (500, {"computeFault": {"message": "Unexpected API Error."}}, CpiError, True),
        (503, {}, Unavailable, True),
    ],
)
def test_refusals_become_errors_of_the_contract(
    status: int, body: dict[str, Any], kind: type[CpiError], retryable: bool
) -> None:
    told = translate(refusal("do it", status, json.dumps(body).encode(), "7"))
    assert type(told) is kind
    assert told.retryable is retryable
    assert told.remedy
    assert told.details == ({} if kind is QuotaExceeded else {"retry_after": 7.0})


def test_pages_of_proxies_are_not_repeated() -> None:
    assert refusal("do it", 502, b"<html>secret</html>", None).text == "HTTP 502"


def test_what_nova_says_of_hosts() -> None:
    assert no_host("No valid host was found. There are not enough hosts available.")
    late = "Exceeded maximum number of retries. Exhausted all hosts available for retrying build failures"
    assert no_host(late) and collided(late)
    assert not collided("No valid host was found.")
    assert not no_host("Build of instance aborted: volume is gone")


def test_a_request_is_sealed_for_those_with_the_same_credentials() -> None:
    def settings(secret: str) -> Any:
        return read_settings({"auth_url": "http://k", "password": secret})

    text = sealed(settings("one"), {"user_data": "the agent's password"})
    assert "password" not in text
    assert unsealed(settings("one"), text) == {"user_data": "the agent's password"}
    with pytest.raises(CpiError) as caught:
        unsealed(settings("two"), text)
    assert caught.value.retryable


def test_userdata_is_complete_and_bounded() -> None:
    settings = read_settings({"auth_url": "http://k", "agent": {"mbus": "nats://x", "odd": 1}})
    ports = {"a": {"mac_address": "fa:16:3e:00:00:01"}}
    told = Told("agent", "vm", {"a": {"type": "manual", "ip": "10.0.0.5", "dns": ["9.9.9.9"]}}, ports, {}, ["k"], False)
    document = json.loads(base64.b64decode(userdata(settings, told)))
    assert document["networks"]["a"]["mac"] == "fa:16:3e:00:00:01"
    assert document["mbus"] == "nats://x"
    assert "odd" not in document
    assert document["env"]["bosh"]["authorized_keys"] == ["k"]
    assert document["dns"] == {"nameserver": ["9.9.9.9"]}
    huge = Told("agent", "vm", {}, {}, {"big": "x" * 60000}, [], False)
    with pytest.raises(InvalidCall, match="65535"):
        userdata(settings, huge)


def archive(**members: bytes) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as packed:
        for name, content in members.items():
            entry = tarfile.TarInfo(f"./{name.replace('_', '.')}")
            entry.size = len(content)
            packed.addfile(entry, io.BytesIO(content))
    return raw.getvalue()


def test_the_disk_of_a_stemcell_is_uploaded_not_its_archive(tmp_path: Path) -> None:
    path = tmp_path / "image"
    for raw, disk in ((archive(meta_txt=b"no", root_img=b"disk" * 9), b"disk" * 9), (b"QFI plain", b"QFI plain")):
        path.write_bytes(raw)
        with disk_of(path) as file:
            file.seek(0)
            assert file.read() == disk


@pytest.mark.parametrize(
    "raw",
    [archive(other_img=b"x"), gzip.compress(b"no archive"), archive(root_img=b"x" * 99)[:60]],
    ids=["of another file", "no archive at all", "cut off"],
)
def test_an_archive_without_a_disk_is_an_error(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "image"
    path.write_bytes(raw)
    with pytest.raises(CpiError, match="archive") as caught, disk_of(path):
        pass
    assert caught.value.remedy
