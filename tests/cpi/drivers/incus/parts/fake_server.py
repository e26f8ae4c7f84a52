"""Incus as far as tests of parts need it: one server that answers each request by itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from coterie.cpi.contract import Json, Mark, PartRecords, Runtime
from coterie.cpi.drivers.incus.client import Client, Refusal
from coterie.cpi.drivers.incus.driver import IncusCpi
from coterie.ids import Ids
from coterie.slotted import replace

DIRECTOR = "8d8c4a1e-54c2-4f8e-9d53-1f0b6f2a7c10"
IMAGE = "0a" * 32
NETWORKS = {"default": {"type": "dynamic", "cloud_properties": {}}}
SIZE = {"cpu": 2, "memory": 512, "type": "virtual-machine"}


class Directly:
    """A coordinator for one thread."""

    def submit(self, cpi: Any, domain: str, change: Json) -> Json:
        return dict(cpi.apply(domain, [change])[0])

    def hold(self, domain: str) -> None:
        """It is always ours."""


class Server:
    """Answers as Incus 6.0 did for containers; `drivers`: those that each member lists."""

    brand: Mapping[str, str] = {"server": "incus", "server_version": "6.0.4"}
    extensions: tuple[str, ...] = ("network_bridge_acl_devices", "api_filtering_extended")

    def __init__(self, **drivers: str) -> None:
        self.drivers = drivers
        self.images = {IMAGE: "virtual-machine"}
        self.instances: dict[str, Json] = {}
        self.volumes: dict[str, Json] = {}
        self.sent: list[Json] = []

    def call(
        self,
        _: Client,
        what: str,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Any = None,
        *more: Any,
        changes: bool,
        **named: Any,
    ) -> Any:
        found = getattr(self, method.lower())(path, query, body)
        if found is None:
            raise Refusal(what, 404, "not found", changes=changes)
        return found if method != "GET" else {"metadata": found}, "etag"

    def get(self, path: str, query: Mapping[str, str], body: Any) -> Any:
        kind, _, name = path[1:].partition("/")
        members = [{"server_name": one, "status": "Online", "groups": ["z1"]} for one in self.drivers]
        match kind, name:
            case "", "":
                own = self.drivers[query.get("target") or next(iter(self.drivers))]
                facts = {"server_name": "inc1", "server_clustered": True, "driver": own, **self.brand}
                return {"auth": "trusted", "environment": facts, "api_extensions": list(self.extensions)}
            case "cluster", "members":
                return members
            case "cluster", "groups":
                return [{"name": "z1", "members": list(self.drivers)}]
            case "resources", _:
                return {"cpu": {"total": 4}, "memory": {"total": 2**33}}
            case "images", _:
                return {"fingerprint": name, "type": self.images[name]}
            case "networks", _:
                return {"name": name, "managed": True}
            case "projects", _:
                return {"config": {}}
            case "operations", _:
                return {"status": "Success"}
            case "instances", _:
                return self.instances.get(name) if name else list(self.instances.values())
            case "storage-pools", "":
                return [{"name": "local"}]
            case "storage-pools", _ if name.endswith("/custom"):
                return [row for row in self.volumes.values() if fits(row, query.get("filter"))]
        return {"name": name, "driver": "btrfs"}

    def post(self, path: str, query: Mapping[str, str], body: Any) -> Any:
        self.sent.append({**body, "target": query.get("target")})
        row = {**body, "location": query.get("target"), "status": "Running", "used_by": []}
        (self.instances if path == "/instances" else self.volumes)[body["name"]] = row
        return {"operation": "/1.0/operations/1"}

    def put(self, path: str, query: Mapping[str, str], body: Any) -> Any:
        self.instances[body["name"]] = json.loads(json.dumps(body))
        return {"metadata": {}}

    def patch(self, path: str, query: Mapping[str, str], body: Any) -> Any:
        self.volumes[path.rpartition("/")[2]]["config"] |= body["config"]
        return {"metadata": {}}


def fits(row: Json, filter_: str | None) -> bool:
    """One clause, as this driver writes it."""
    field, _, value = (filter_ or "").partition(" eq ")
    found = row["config"].get(field.removeprefix("config.")) if field.startswith("config.") else row.get(field)
    return not filter_ or found == value


def cloud(monkeypatch: pytest.MonkeyPatch, server: Server, parts: PartRecords | None = None, **more: Any) -> IncusCpi:
    monkeypatch.setattr(Client, "_call", lambda *words, **named: server.call(*words, **named))
    properties = {"storage_pool": "local", "default_network": "net", "memory_limits": False, **more}
    runtime = Runtime(DIRECTOR, Directly())
    return IncusCpi("lab", properties, replace(runtime, parts=parts) if parts else runtime)


def mark() -> Mark:
    return Mark(DIRECTOR, Ids().intent())


def create(cpi: IncusCpi, disks: tuple[str, ...] = (), env: Json | None = None, **size: Any) -> Any:
    return cpi.create_vm("agent", IMAGE, {**SIZE, **size}, NETWORKS, disks, env or {}, mark=mark())
