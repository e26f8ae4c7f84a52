"""The server's side: what it accepts, what it hands to the driver, what it answers."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from coterie.cpi.contract import Mark, StemcellNotFound, VMNotFound

INTENT = "zzzzzzzzzzzzzzzzzzzzzzzzzz"


def test_one_envelope_with_the_three_keys(server: Any) -> None:
    assert server.send("has_vm", ["i-1"]) == {"result": True, "error": None, "log": ""}


def test_the_context_opens_the_driver(server: Any) -> None:
    server.send("has_vm", ["i-1"], url="https://cloud", request_id="cpi-1")
    assert server.opened[0]["url"] == "https://cloud"


def test_a_mark_in_the_context_is_used(server: Any) -> None:
    server.send("create_disk", [1, {}, None], coterie={"mark": {"director": "other", "intent": INTENT}})
    assert server.calls == [("create_disk", (1, {}, None), {"mark": Mark("other", INTENT)})]


def test_without_one_the_runtime_makes_it(server: Any) -> None:
    server.send("create_disk", [1, {}, None], 2)
    (asked, (method, arguments, context), _), (_, _, keywords) = server.calls
    assert (asked, method, arguments) == ("new_mark", "create_disk", [1, {}, None])
    assert context["director_uuid"]
    assert isinstance(keywords["mark"], Mark)


def test_a_method_that_creates_nothing_needs_no_mark(server: Any) -> None:
    server.send("delete_vm", ["i-1"])
    assert server.calls == [("delete_vm", ("i-1",), {})]


@pytest.mark.parametrize(
    "mark",
    [
        {},
        {"director": "d"},
        {"director": "d", "intent": "short"},
        "text",
        {"director": 1, "intent": INTENT},
        {"director": "d", "intent": INTENT.upper()},
        {"director": "d", "intent": INTENT + "\n"},
    ],
)
def test_a_broken_mark_is_refused_before_anything_is_done(mark: Any, server: Any) -> None:
    error = server.send("create_disk", [1, {}, None], coterie={"mark": mark})["error"]
    assert "`context.coterie.mark`" in error["message"]
    assert server.calls == []


@pytest.mark.parametrize(
    ("method", "arguments", "named"),
    [
        ("delete_vm", [""], "vm_cid"),
        ("delete_vm", [None], "vm_cid"),
        ("delete_vm", [7], "vm_cid"),
        pytest.param("delete_vm", ["x" * 9000], "vm_cid", id="too-long"),
        ("create_disk", ["1024", {}, None], "size"),
        ("create_disk", [True, {}, None], "size"),
        ("create_disk", [0, {}, None], "size"),
        ("create_disk", [-5, {}, None], "size"),
        ("create_disk", [10**20, {}, None], "size"),
        ("create_disk", [1.5, {}, None], "size"),
        ("create_disk", [1, [], None], "cloud_properties"),
        ("create_vm", ["a", "s", {}, {"n": "x"}, [], {}], "networks"),
        ("create_vm", ["a", "s", {}, {"n": {"type": "odd"}}, [], {}], "networks"),
        ("create_vm", ["a", "s", {}, {}, "d-1", {}], "disk_cids"),
        ("create_vm", ["a", "s", {}, {}, [""], {}], "disk_cids"),
        ("create_vm", ["a", "s", {}, {}, [], "env"], "env"),
        ("set_vm_metadata", ["i", {"a": {"b": "c"}}], "metadata"),
        ("calculate_vm_cloud_properties", [{"cpu": 1, "ram": 1}], "requirements"),
        ("calculate_vm_cloud_properties", [{"cpu": "1", "ram": 1, "ephemeral_disk_size": 1}], "requirements"),
        ("find", ["ghost", {"director": "d", "intent": INTENT}], "kind"),
        ("find", ["vm", None], "mark"),
        ("delete_object", ["vm", "i", {"when": 1}], "expected"),
        ("delete_object", ["vm", "i", {"created_at": "now"}], "expected"),
        ("create_server_group", [{"deployment": "d", "instance_group": "i"}], "metadata"),
        ("create_server_group", [{"director": {"name": "n"}, "deployment": "d", "instance_group": "i"}], "metadata"),
        (
            "create_server_group",
            [{"director": {"name": "n", "uuid": "u"}, "deployment": "d", "instance_group": "i", "policy": "scatter"}],
            "metadata",
        ),
        (
            "create_server_group",
            [{"director": {"name": "n", "uuid": "u"}, "deployment": "d", "instance_group": "i", "polcy": None}],
            "metadata",
        ),
        (
            "create_server_group",
            [
                {
                    "director": {"name": "n", "uuid": "u"},
                    "deployment": "d",
                    "instance_group": "i",
                    "security_groups": [{"rules": []}],
                }
            ],
            "metadata",
        ),
        ("check", [{"counts": {"vm": "three"}}], "needs"),
        ("cleanup", ["d", {"ghost": []}, {}], "known"),
        ("cleanup", ["d", {}, {"dryrun": True}], "options"),
        ("cleanup", ["d", {}, {"dry_run": "no"}], "options"),
        ("cleanup", ["d", {}, {"grace_s": "soon"}], "options"),
        ("cleanup", ["d", {}, {"grace_s": -1}], "options"),
        ("cleanup", ["d", {}, {"cap": True}], "options"),
        ("cleanup", ["d", {}, {"cap_percent": 101}], "options"),
        ("cleanup", ["d", {}, {"left_out": {"ghost": 1}}], "options"),
        ("cleanup", ["d", {}, {"left_out": {"vm": "all"}}], "options"),
    ],
)
def test_an_argument_of_the_wrong_shape_is_named(method: str, arguments: list[Any], named: str, server: Any) -> None:
    error = server.send(method, arguments)["error"]
    assert error["type"] == "Bosh::Clouds::CpiError"
    assert error["message"].startswith(f"argument `{named}` of {method} ")
    assert error["ok_to_retry"] is False
    assert server.calls == []


def test_metadata_is_text_and_null_is_left_out(server: Any) -> None:
    server.send("set_vm_metadata", ["i-1", {"index": 3, "on": True, "job": "x", "none": None}])
    assert server.calls[0][1] == ("i-1", {"index": "3", "on": "true", "job": "x"})


@pytest.mark.parametrize("method", ["destroy_everything", "__class__", "apply", "_refuse", "cloud", "properties"])
def test_what_is_not_in_the_table_is_not_implemented(method: str, server: Any) -> None:
    error = server.send(method, [])["error"]
    assert error["type"] == "Bosh::Clouds::NotImplemented"
    assert server.opened == []


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"7",
        b'"info"',
        b"{}",
        b'{"method":"info"}',
        b'{"method":"info","arguments":{}}',
        b'{"method":7,"arguments":[]}',
        b'{"method":"has_vm","arguments":["i"]}',
        b'{"method":"has_vm","arguments":["i"],"context":{}}',
        b'{"method":"has_vm","arguments":["i"],"context":[]}',
        b'{"method":"info","arguments":[]} trailing',
        b'{"method":"info","arguments":[]}{}',
        b"\xff\xfe",
        b'{"method":"has_vm","method":"delete_vm","arguments":["i"],"context":{"director_uuid":"d"}}',
        b'{"method":"create_disk","arguments":[NaN,{},null],"context":{"director_uuid":"d"}}',
        b'{"method":"create_disk","arguments":[1,{"a":Infinity},null],"context":{"director_uuid":"d"}}',
        b'{"method":"create_disk","arguments":[1,{"a":1e999},null],"context":{"director_uuid":"d"}}',
        b'{"method":"has_vm","arguments":["\\ud800"],"context":{"director_uuid":"d"}}',
        b'{"method":"create_disk","arguments":[' + b"1" * 5000 + b',{},null],"context":{"director_uuid":"d"}}',
        b'{"method":"info","arguments":' + b"[" * 70 + b"]" * 70 + b"}",
        b"[" * 200_000,
    ],
)
def test_a_malformed_request_is_an_invalid_call(request_bytes: bytes, server: Any) -> None:
    error = server.raw(request_bytes)["error"]
    assert error["type"] == "Bosh::Clouds::CpiError"
    assert server.calls == []


def test_a_request_beyond_the_limit_is_refused_unread(server: Any) -> None:
    assert "larger than" in server.raw(b" " * (16 * 1024 * 1024 + 1))["error"]["message"]


def test_a_stemcell_that_is_gone_is_deleted(server: Any) -> None:
    server.raises = StemcellNotFound("no such image")
    assert server.send("delete_stemcell", ["img-1"])["error"] is None
    server.raises = VMNotFound("no such vm")
    assert server.send("delete_vm", ["i-1"])["error"]["type"] == "Bosh::Clouds::VMNotFound"


def test_cleanup_is_answered_by_whom_the_caller_names(server: Any) -> None:
    arguments = ["d", {"vm": ["i-1"]}, {"dry_run": True}]
    assert server.send("cleanup", arguments)["error"]["type"] == "Bosh::Clouds::NotImplemented"

    server.cleanup = lambda cpi, director, known, options: {"cloud": cpi.cloud, "seen": [director, known, options]}
    assert server.send("cleanup", arguments)["result"] == {"cloud": "fake", "seen": arguments}


def test_null_options_of_cleanup_are_left_out_and_never_read_as_false(server: Any) -> None:
    server.cleanup = lambda cpi, director, known, options: {"known": known, "options": options}
    sent = {"dry_run": None, "grace_s": None, "kinds": ["vm"], "cap": None}
    assert server.send("cleanup", ["d", None, sent])["result"] == {"known": None, "options": {"kinds": ["vm"]}}
    assert server.send("cleanup", ["d", {}, None])["result"] == {"known": {}, "options": {}}


@pytest.mark.parametrize(
    ("method", "arguments", "result"),
    [
        ("has_vm", ["i-1"], "yes"),
        ("create_disk", [1, {}, None], ""),
        ("create_disk", [1, {}, None], None),
        ("attach_disk", ["i", "d"], {}),
        ("attach_disk", ["i", "d"], None),
        ("get_disks", ["i"], None),
        ("calculate_vm_cloud_properties", [{"cpu": 1, "ram": 1, "ephemeral_disk_size": 1}], {"x": math.nan}),
        ("calculate_vm_cloud_properties", [{"cpu": 1, "ram": 1, "ephemeral_disk_size": 1}], {"x": object()}),
    ],
)
def test_a_result_that_no_director_would_take_is_an_error(
    method: str, arguments: list[Any], result: Any, server: Any
) -> None:
    server.answers[method] = result
    envelope = server.send(method, arguments)
    assert envelope["result"] is None
    assert envelope["error"]["type"] == "Bosh::Clouds::CloudError"
    assert f"{method} was done, but its result" in envelope["error"]["message"]


def test_the_answer_is_ascii(server: Any) -> None:
    server.answers["current_vm_id"] = "maß-☃"
    assert server.send("current_vm_id", [])["result"] == "maß-☃"
    from coterie.cpi.wire import answer

    request = json.dumps({"method": "current_vm_id", "arguments": [], "context": {"director_uuid": "d"}}).encode()
    assert answer(request, server.open, server.new_mark).isascii()
