"""A served cloud and two customers of it, who know it only through `cs`, a client that is not ours."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cs import CloudStack, CloudStackApiException

import requests
from coterie.sandbox.datacenter import open_datacenter
from coterie.sandbox.fronts.cloudstack.server import Server
from tests.peers.cloudstack_witness import Witness

Row = dict[str, Any]
LAYOUT = {"zones": [{"name": zone, "racks": 1, "hosts_per_rack": 2, "cpu": 8} for zone in ("z1", "z2")]}


class Rig:
    def __init__(self, folder: Path) -> None:
        self.datacenter = open_datacenter(folder / "sandbox.db", LAYOUT)
        self.server = Server(self.datacenter)
        self.witness = Witness(self.server)
        self.server.start()
        self.keys = {keys.account: keys for keys in self.server.front.keys}
        self.admin = self.client("admin")
        self.user = self.client("user")
        self.plain = self.client("admin", fetch_result=False)  # the others follow jobs to their end
        self._templates: dict[str, str] = {}

    def client(self, account: str, **more: Any) -> CloudStack:
        keys = self.keys[account]
        options = {"method": "post", "fetch_result": True, "poll_interval": 0.01, **more}
        return CloudStack(endpoint=self.server.endpoint, key=keys.api_key, secret=keys.secret_key, **options)

    def set(self, **settings: str) -> None:
        """Dots of the names are written as underscores."""
        for name, value in settings.items():
            self.admin.updateConfiguration(name=name.replace("_", "."), value=value)

    def zone(self, name: str = "z1") -> str:
        return str(self.admin.listZones(name=name)["zone"][0]["id"])

    def offering(self, name: str = "tiny") -> str:
        return str(self.admin.listServiceOfferings(name=name)["serviceoffering"][0]["id"])

    def disk_offering(self, name: str = "custom") -> str:
        return str(self.admin.listDiskOfferings(name=name)["diskoffering"][0]["id"])

    def network(self, client: CloudStack | None = None) -> str:
        return str((client or self.admin).listNetworks(name="net-z1")["network"][0]["id"])

    def template(self, account: str = "admin") -> str:
        if account not in self._templates:
            self._templates[account] = self.upload(self.client(account))
        return self._templates[account]

    def upload(self, client: CloudStack, content: bytes = b"image", **more: Any) -> str:
        permit = client.getUploadParamsForTemplate(
            name="linux", displaytext="linux", format="QCOW2", hypervisor="KVM", zoneid=self.zone(), **more
        )["getuploadparams"]
        headers = {f"x-{name}": permit[name] for name in ("signature", "metadata", "expires")}
        answer = requests.post(permit["postURL"], headers=headers, files={"file": content}, timeout=60)
        assert answer.status_code == 200
        return str(permit["id"])

    def order(self, account: str = "admin", **more: Any) -> Row:
        return {
            "zoneid": self.zone(),
            "serviceofferingid": self.offering(),
            "templateid": self.template(account),
            **more,
        }

    def deploy(self, account: str = "admin", **more: Any) -> Row:
        client = self.admin if account == "admin" else self.user
        vm: Row = client.deployVirtualMachine(**self.order(account, **more))["virtualmachine"]
        return vm

    def volume(self, offering: str = "custom", **more: Any) -> Row:
        made = self.admin.createVolume(
            name="data", zoneid=self.zone(), diskofferingid=self.disk_offering(offering), **{"size": 1, **more}
        )
        found: Row = made["volume"]
        return found

    def vm(self, wanted: str, client: CloudStack | None = None) -> Row | None:
        found = (client or self.admin).listVirtualMachines(id=wanted)
        return found["virtualmachine"][0] if found else None

    def close(self) -> None:
        self.server.close()
        assert self.witness.mistakes == []


@contextmanager
def refused(code: int) -> Iterator[pytest.ExceptionInfo[CloudStackApiException]]:
    """The API, or the job behind it, must end in this number."""
    with pytest.raises(CloudStackApiException) as caught:
        yield caught
    assert code_of(caught.value) == code, caught.value


def code_of(error: CloudStackApiException) -> int:
    body = error.error
    return int((body.get("jobresult") or body).get("errorcode", 0))


def eventually(look: Callable[[], Any]) -> Any:
    """What a look finds in the end; a test that waits in vain is ended by pytest's own time limit."""
    while not (found := look()):
        time.sleep(0.01)
    return found


def encoded(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
