"""Waiting for many boots at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from coterie.cpi.contract import Mark
from coterie.cpi.drivers.openstack.client import Client
from coterie.cpi.drivers.openstack.machines import Servers
from coterie.cpi.drivers.openstack.properties import read_settings
from coterie.cpi.drivers.openstack.rows import Rows
from coterie.cpi.kit.call_limit import CallLimit
from coterie.cpi.kit.permit import Permit
from coterie.cpi.kit.waits import Waits

MARK = Mark("0f8fad5b-d9cb-469f-a165-70867728950e", "01" + "a" * 24)
SERVERS = [f"7c4e3e50-7d3f-4f3b-9e7d-0d6f3a3a3a{number}" for number in range(10, 20)]


def test_threads_that_wait_for_boots_share_one_list(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(read_settings({"auth_url": "http://127.0.0.1:9"}), Permit("d", CallLimit(16)))
    servers = Servers(client, Rows(client), Waits(60, 0.2))
    answers = [[{"id": one} for one in SERVERS], [{"id": SERVERS[0]}]]
    listed: list[dict[str, Any]] = []

    def page(*arguments: Any, **params: Any) -> tuple[list[dict[str, str]], None]:
        listed.append(params)
        return (answers.pop(0) if answers else []), None

    monkeypatch.setattr(client, "page", page)
    monkeypatch.setattr(client, "get", lambda *_, **params: {"servers": [{"id": one} for one in SERVERS]})
    with ThreadPoolExecutor(len(SERVERS)) as pool:
        list(pool.map(lambda one: servers.wait_until_running(one, MARK), SERVERS))
    assert len(listed) <= 4
    assert {params["status"] for params in listed} == {"BUILD"}
