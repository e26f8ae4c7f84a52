"""A driver that records how it was called and answers from a table, and a server around it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from coterie.cpi.contract import (
    Capabilities,
    CheckItem,
    CloudObject,
    Cpi,
    GroupMember,
    GroupResource,
    GroupView,
    Mark,
    NetworkCreated,
    Reason,
    Runtime,
    SurveyPage,
    VmCreated,
)
from coterie.cpi.wire import METHODS, answer

DIRECTOR = "6f0d5a52-9a3c-4c55-b7a1-0c6b6d1f2e11"
MARK = Mark(DIRECTOR, "0123456789abcdefghjkmnpqrs")
FOUND = CloudObject("vm", "i-1", "cot-x", 12.5, "7", MARK, ("d-1",), "z1", "running", "h1", {"a": "b"})
# One good answer per method, as a driver gives it.
ANSWERS: dict[str, Any] = {
    "capabilities": Capabilities(
        "fake", frozenset({"affinity"}), {"vm": "atomic"}, unsupported={"x": Reason("w", "c")}
    ),
    "info": {"api_version": 3, "stemcell_formats": ["raw"]},
    "ping": "pong",
    "check": [CheckItem("quotas", False, "full", "buy more", {"quotas": {}})],
    "create_stemcell": "img-1",
    "create_vm": VmCreated("i-1", {"default": {"ip": "10.0.0.2"}}),
    "has_vm": True,
    "vm_owner": DIRECTOR,
    "calculate_vm_cloud_properties": {"cpu": 2},
    "create_disk": "d-1",
    "has_disk": False,
    "attach_disk": {"path": "/dev/sdb"},
    "get_disks": ["d-1"],
    "update_disk": None,
    "snapshot_disk": "s-1",
    "create_network": NetworkCreated("n-1", {"range": "10.0.0.0/24"}, {"name": "n"}),
    "current_vm_id": "i-9",
    "create_server_group": MARK.group_cid,
    "inspect_server_group": GroupView(
        "live",
        "affinity",
        (GroupResource("server_group", "sg-1", None, True),),
        (GroupMember("i-1", "h1", True),),
        ("n",),
    ),
    "find": FOUND,
    "survey": SurveyPage((FOUND,), "next", True, 2),
}


class Recorder:
    """What the fake driver was asked, and what it shall answer or raise."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.answers = dict(ANSWERS)
        self.raises: BaseException | None = None
        self.opened: list[dict[str, Any]] = []
        self.cleanup: Callable[..., Any] | None = None

    def open(self, context: dict[str, Any]) -> Cpi:
        self.opened.append(context)
        made: Cpi = _driver_class(self)("fake", {}, Runtime(DIRECTOR, None))  # type: ignore[arg-type] # never submits
        return made

    def new_mark(self, method: str, arguments: list[Any], context: dict[str, Any]) -> Mark:
        self.calls.append(("new_mark", (method, arguments, context), {}))
        return MARK

    def send(self, method: str, arguments: list[Any], version: int | None = 3, **context: Any) -> dict[str, Any]:
        request: dict[str, Any] = {"method": method, "arguments": arguments}
        request["context"] = {"director_uuid": DIRECTOR, **context}
        if version is not None:
            request["api_version"] = version
        return self.raw(json.dumps(request).encode())

    def raw(self, request: bytes) -> dict[str, Any]:
        envelope: dict[str, Any] = json.loads(answer(request, self.open, self.new_mark, self.cleanup))
        return envelope


def _driver_class(recorder: Recorder) -> type[Any]:
    def method(name: str) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            recorder.calls.append((name, args, kwargs))
            if recorder.raises:
                raise recorder.raises
            return recorder.answers.get(name)

        return call

    return type("Fake", (Cpi,), {name: method(name) for name in METHODS})


@pytest.fixture
def server() -> Recorder:
    return Recorder()


@pytest.fixture
def samples() -> dict[str, list[Any]]:
    """Arguments of one good call per method, newest version, as JSON."""
    network = {"default": {"type": "manual", "ip": "10.0.0.2", "cloud_properties": {}}}
    group = {
        "director": {"name": "d", "uuid": DIRECTOR},
        "deployment": "kafka",
        "instance_group": "broker",
        "azs": ["z1"],
        "security_groups": [{"name": "web", "rules": []}],
        "policy": "anti-affinity",
        "options": {},
    }
    return {
        "capabilities": [],
        "info": [],
        "ping": [],
        "check": [{"kinds": ["vm"], "policies": [], "azs": ["z1"], "counts": {"vm": 3}}],
        "create_stemcell": ["/tmp/image", {"os": "x"}, {"tags": {"a": "b"}}],
        "delete_stemcell": ["img-1"],
        "create_vm": ["agent", "img-1", {"cpu": 1}, network, ["d-1"], {"bosh": {}}],
        "delete_vm": ["i-1"],
        "has_vm": ["i-1"],
        "vm_owner": ["i-1"],
        "reboot_vm": ["i-1"],
        "set_vm_metadata": ["i-1", {"job": "broker"}],
        "calculate_vm_cloud_properties": [{"cpu": 1, "ram": 1024, "ephemeral_disk_size": 1024}],
        "create_disk": [1024, {}, "i-1"],
        "delete_disk": ["d-1"],
        "has_disk": ["d-1"],
        "attach_disk": ["i-1", "d-1"],
        "detach_disk": ["i-1", "d-1"],
        "get_disks": ["i-1"],
        "set_disk_metadata": ["d-1", {"a": "b"}],
        "resize_disk": ["d-1", 2048],
        "update_disk": ["d-1", 2048, {}],
        "snapshot_disk": ["d-1", {"index": 0}],
        "delete_snapshot": ["s-1"],
        "create_network": [{"type": "manual", "cloud_properties": {}}],
        "delete_network": ["n-1"],
        "current_vm_id": [],
        "configure_networks": ["i-1", network],
        "create_server_group": [group],
        "update_server_group": ["cg-1", group],
        "delete_server_group": ["cg-1"],
        "inspect_server_group": ["cg-1"],
        "find": ["vm", MARK.wire()],
        "survey": ["vm", DIRECTOR, None],
        "delete_object": ["vm", "i-1", {"mark": MARK.wire(), "created_at": 12.5, "etag": "7"}],
        "cleanup": [DIRECTOR, {"vm": ["i-1"]}, {"dry_run": True, "grace_s": 60, "kinds": ["vm"], "cap": 10}],
    }
