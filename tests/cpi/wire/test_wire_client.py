"""The client's side: a response is read as strictly as a BOSH Director reads it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from coterie.cpi.contract import CpiError, InvalidCall, OutcomeUnknown, VmCreated
from coterie.cpi.wire import METHODS, read_response, write_request

GOOD = {"result": True, "error": None, "log": ""}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"result":true,"error":null}',
        b'{"result":true,"log":""}',
        b'{"error":null,"log":""}',
        json.dumps({**GOOD, "log": None}).encode(),
        json.dumps({**GOOD, "error": "text"}).encode(),
        json.dumps({**GOOD, "error": {}}).encode(),
        json.dumps({**GOOD, "error": {"type": "t", "message": "m"}}).encode(),
        json.dumps({**GOOD, "error": {"type": "t", "message": "m", "ok_to_retry": None}}).encode(),
        json.dumps({**GOOD, "error": {"type": "t", "message": None, "ok_to_retry": True}}).encode(),
        b"starting up\n" + json.dumps(GOOD).encode(),
        json.dumps(GOOD).encode() + b"bye",
        json.dumps(GOOD).encode() * 2,
        json.dumps({**GOOD, "result": "true"}).encode(),
        b'{"result":NaN,"error":null,"log":""}',
        b'{"result":"\\ud800","error":null,"log":""}',
        b"\x80",
    ],
)
def test_a_broken_answer_is_an_error_and_to_a_changing_call_an_unknown_outcome(raw: bytes) -> None:
    with pytest.raises(CpiError) as caught:
        read_response(METHODS["has_vm"], raw, 2)
    assert type(caught.value) is CpiError
    assert caught.value.remedy
    with pytest.raises(OutcomeUnknown):
        read_response(METHODS["create_vm"], raw, 2)


def test_newlines_and_extra_keys_are_fine() -> None:
    raw = b"\n" + json.dumps({**GOOD, "timing": 3}).encode() + b"\n"
    assert read_response(METHODS["has_vm"], raw, 2) is True


def test_the_programs_log_is_handed_on() -> None:
    heard: list[str] = []
    read_response(METHODS["has_vm"], json.dumps({**GOOD, "log": "words"}).encode(), 2, heard.append)
    assert heard == ["words"]


@pytest.mark.parametrize(
    ("name", "version", "result", "value"),
    [
        ("create_vm", 2, ["i-1", {}], VmCreated("i-1", {})),
        ("create_vm", 2, ["i-1", None], VmCreated("i-1", {})),
        ("create_vm", 1, "i-1", VmCreated("i-1", {})),
        ("attach_disk", 2, {"lun": "1"}, {"lun": "1"}),
        ("attach_disk", 1, None, ""),
        ("delete_vm", 2, {"ignored": True}, None),
        ("update_disk", 2, None, None),
        ("update_disk", 2, "d-2", "d-2"),
        ("info", 1, {"stemcell_formats": ["a"]}, {"api_version": 1, "stemcell_formats": ["a"]}),
        ("ping", 2, None, "pong"),
    ],
)
def test_results_are_read_by_version(name: str, version: int, result: Any, value: Any) -> None:
    assert read_response(METHODS[name], json.dumps({**GOOD, "result": result}).encode(), version) == value


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("create_vm", "i-1"),
        ("create_vm", ["i-1"]),
        ("create_vm", ["", {}]),
        ("create_vm", None),
        ("attach_disk", None),
        ("attach_disk", ""),
        ("attach_disk", {}),
        ("create_disk", 7),
        ("get_disks", "d-1"),
        ("info", {"api_version": "2"}),
        ("info", None),
        ("find", {"kind": "vm"}),
        ("survey", {"objects": []}),
        ("survey", None),
        ("check", {}),
        ("check", [1]),
        ("inspect_server_group", {"state": "odd", "policy": None, "resources": [], "members": [], "notes": []}),
        ("create_network", ["n"]),
        ("capabilities", {}),
    ],
)
def test_a_result_of_the_wrong_shape_is_a_broken_answer(name: str, result: Any) -> None:
    with pytest.raises(CpiError) as caught:
        read_response(METHODS[name], json.dumps({**GOOD, "result": result}).encode(), 2)
    assert type(caught.value) is (OutcomeUnknown if METHODS[name].changes else CpiError)


def test_what_cannot_be_written_is_refused_before_it_is_sent() -> None:
    with pytest.raises(InvalidCall, match="argument `vm_cid` of delete_vm must be a non-empty string"):
        write_request(METHODS["delete_vm"], [""], {}, 2)
    with pytest.raises(InvalidCall, match="cannot be written as JSON"):
        write_request(METHODS["create_disk"], [1, {"x": {1, 2}}, None], {}, 2)
