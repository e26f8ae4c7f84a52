"""Errors across the wire: every class of the contract, there and back, and what is no contract error at all."""

from __future__ import annotations

import json
from typing import Any

import pytest

from coterie.cpi import contract
from coterie.cpi.contract import CpiError, InvalidCall, NotImplementedHere, OutcomeUnknown, VMCreationFailed
from coterie.cpi.wire import METHODS, read_response
from coterie.cpi.wire.faults import all_errors, class_of
from coterie.errors import CoterieError, UsageError

CLASSES = [value for value in vars(contract).values() if isinstance(value, type) and issubclass(value, CpiError)]
WIRE_TYPES = {
    "CpiError": "CloudError",
    "VMCreationFailed": "VMCreationFailed",
    "NoPlacement": "VMCreationFailed",
    "VMNotFound": "VMNotFound",
    "DiskNotFound": "DiskNotFound",
    "DiskNotAttached": "DiskNotAttached",
    "NoDiskSpace": "NoDiskSpace",
    "StemcellNotFound": "CloudError",  # no Director knows another name for it
    "NetworkNotFound": "NetworkNotFound",
    "NotSupported": "NotSupported",
    "NotImplementedHere": "NotImplemented",
    "InvalidCall": "CpiError",
    "GroupInUse": "CloudError",
    "GroupMissing": "CloudError",
    "NameTaken": "CloudError",
    "Changed": "CloudError",
    "QuotaExceeded": "CloudError",
    "PrivilegeMissing": "CloudError",
    "AuthenticationFailed": "CloudError",
    "Throttled": "CloudError",
    "Unavailable": "CloudError",
    "OutcomeUnknown": "CloudError",
}


def test_the_list_of_classes_is_complete() -> None:
    assert {kind.__name__ for kind in CLASSES} == set(WIRE_TYPES)
    assert set(all_errors()) == set(CLASSES)
    assert len({kind.code for kind in CLASSES}) == len(CLASSES)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("retryable", [None, True, False])
def test_every_contract_error_goes_out_under_its_bosh_name_and_comes_back_as_itself(
    kind: type[CpiError], retryable: bool | None, server: Any
) -> None:
    server.raises = kind("no vm", why="full", remedy="add hosts", retryable=retryable, details={"retry_after": 3})
    envelope = server.send("reboot_vm", ["i-1"])

    assert envelope["result"] is None
    assert envelope["error"]["type"] == f"Bosh::Clouds::{WIRE_TYPES[kind.__name__]}"
    assert envelope["error"]["message"] == "no vm: full. add hosts"
    assert envelope["error"]["ok_to_retry"] is (kind.retryable if retryable is None else retryable)
    with pytest.raises(CpiError) as caught:
        read_response(METHODS["reboot_vm"], json.dumps(envelope).encode(), 3)
    assert type(caught.value) is kind
    assert caught.value.facts() == server.raises.facts()


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (CpiError("a"), "a"),
        (CpiError("a", why="b"), "a: b"),
        (CpiError("a.", remedy="c"), "a. c"),
        (UsageError("no driver", remedy="install it"), "no driver. install it"),
    ],
)
def test_the_message_is_what_why_remedy(error: CoterieError, message: str, server: Any) -> None:
    server.raises = error
    assert server.send("reboot_vm", ["i-1"])["error"]["message"] == message


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even a text")


@pytest.mark.parametrize(
    "error",
    [KeyError("x"), KeyError(), ValueError(""), Mute(), SystemExit(3), RecursionError()],
    ids=lambda error: type(error).__name__,
)
def test_the_unforeseen_is_a_cloud_error_with_words(error: BaseException, server: Any) -> None:
    server.raises = error
    envelope = server.send("reboot_vm", ["i-1"])
    assert envelope["error"]["type"] == "Bosh::Clouds::CloudError"
    assert envelope["error"]["ok_to_retry"] is False
    message = envelope["error"]["message"]
    assert message.startswith("reboot_vm failed in a way that the driver did not foresee: ")
    assert message.endswith("please report it")
    if not isinstance(error, KeyError | SystemExit) or not error.args:
        assert "no text, raised at conftest.py:" in message
    assert "conftest.py:" in envelope["log"]


def test_an_error_while_opening_the_driver_is_answered_too(server: Any) -> None:
    def refuse(context: dict[str, Any]) -> Any:
        raise UsageError("no cloud driver is named 'x'", remedy="use one of: y")

    server.open = refuse
    assert server.send("reboot_vm", ["i-1"])["error"]["message"] == "no cloud driver is named 'x'. use one of: y"


def test_details_that_are_no_json_do_not_cost_the_answer(server: Any) -> None:
    server.raises = VMCreationFailed("no", details={"host": object()}, retryable=True)
    error = server.send("reboot_vm", ["i-1"])["error"]
    assert error["type"] == "Bosh::Clouds::VMCreationFailed"
    assert error["message"] == "no"
    assert error["ok_to_retry"] is True


def test_half_a_character_in_a_text_is_replaced(server: Any) -> None:
    server.raises = VMCreationFailed("no \ud800 host")
    assert server.send("reboot_vm", ["i-1"])["error"]["message"] == "no ? host"


@pytest.mark.parametrize(
    ("wire_type", "message", "kind"),
    [
        ("Bosh::Clouds::VMCreationFailed", "m", VMCreationFailed),
        ("Bosh::Clouds::CloudError", "m", CpiError),
        ("Bosh::Clouds::CpiError", "m", CpiError),
        ("Bosh::Clouds::NotImplemented", "m", NotImplementedHere),
        ("InvalidCall", "Method is not known, got 'x'", NotImplementedHere),
        ("Bosh::Clouds::CloudError", "Invalid Method: x", NotImplementedHere),
        ("InvalidCall", "wrong", InvalidCall),
        ("VMNotFound", "m", CpiError),
        ("Unknown", "m", CpiError),
        ("", "", CpiError),
    ],
)
def test_a_foreign_error_is_read_as_a_bosh_director_reads_it(
    wire_type: str, message: str, kind: type[CpiError]
) -> None:
    assert class_of(wire_type, message) is kind


@pytest.mark.parametrize(
    ("wire_type", "retryable"),
    [
        ("VMCreationFailed", True),
        ("NoDiskSpace", True),
        ("DiskNotFound", True),
        ("CloudError", False),
        ("VMNotFound", False),
    ],
)
def test_the_retry_flag_of_a_foreign_error_counts_only_where_bosh_defines_it(wire_type: str, retryable: bool) -> None:
    error = {"type": f"Bosh::Clouds::{wire_type}", "message": "m", "ok_to_retry": True}
    raw = json.dumps({"result": None, "error": error, "log": ""}).encode()
    with pytest.raises(CpiError) as caught:
        read_response(METHODS["create_vm"], raw, 2)
    assert caught.value.retryable is retryable
    assert not isinstance(caught.value, OutcomeUnknown)
