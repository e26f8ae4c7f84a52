"""One configured `coterie-cpi` on a sandbox of its own, called in this process or as the real program."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from coterie.bosh.client.in_process import respond
from coterie.bosh.launcher import program
from coterie.ledger.store import Ledger
from coterie.ledger.tables import objects
from coterie.sandbox import disks, images, labels, security_groups, server_groups, snapshots, vm_shape
from coterie.sandbox.accounts import open_account
from coterie.sandbox.datacenter import Account, open_datacenter
from coterie.sandbox.pages import EVERYTHING

DIRECTOR = "6f0d5a52-9a3c-4c55-b7a1-0c6b6d1f2e11"
PATIENCE_S = 150.0  # a busy machine is slow; what never comes ends here, before the runner's own limit
SCRUBBED = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
DYNAMIC = {"default": {"type": "dynamic", "cloud_properties": {}}}
VM = {"cpu": 1, "ram_mb": 512, "disk_mb": 1024, "zone": "z1"}
_LISTS = {
    "vm": vm_shape.list_vms,
    "disk": disks.list_disks,
    "snapshot": snapshots.list_snapshots,
    "image": images.list_images,
    "server_group": server_groups.list_server_groups,
    "security_group": security_groups.list_security_groups,
    "label": labels.list_labels,
}


class CpiFailure(AssertionError):
    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(f"{error['type']}: {error['message']}")
        self.error = error


class Shop:
    size: Mapping[str, Any] = VM
    networks: Mapping[str, Any] = DYNAMIC

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.config = folder / "cpi.json"
        self.socket = folder / "cpi.sock"
        self.ledger_file = folder / "ledger.db"
        self.log = folder / "core.log"
        self.image = folder / "image"
        self.image.write_bytes(b"image")
        self.configure(**settings)

    def configure(self, **settings: Any) -> None:
        document = {
            **self.cloud(),
            "cloud": "lab",
            "ledger": str(self.ledger_file),
            "socket": str(self.socket),
            "lease_s": 2,
            **settings,
        }
        self.config.write_text(json.dumps(document))
        self.config.chmod(0o600)

    def cloud(self) -> dict[str, Any]:
        place = {"state": str(self.folder / "sandbox.db"), "account": "lab", "settle_s": 0.2}
        return {"driver": "sandbox", "properties": place}

    # -- asking --

    def request(self, method: str, *arguments: Any, version: int = 2, **context: Any) -> bytes:
        told = {"director_uuid": DIRECTOR, **context}
        return json.dumps(
            {"method": method, "arguments": list(arguments), "context": told, "api_version": version}
        ).encode()

    def call(self, method: str, *arguments: Any, version: int = 2, **context: Any) -> Any:
        """In this process, by the code path of the program alone."""
        return result(respond(self.request(method, *arguments, version=version, **context), str(self.config)))

    def run(self, request: bytes, **environment: str) -> subprocess.CompletedProcess[bytes]:
        """The real program, as a BOSH Director starts it."""
        env = {**SCRUBBED, **environment}
        return subprocess.run([self.launcher()], input=request, env=env, capture_output=True, timeout=PATIENCE_S)

    def start(self, request: bytes) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([self.launcher()], env=SCRUBBED, stdin=-1, stdout=-1, stderr=-1)
        assert process.stdin
        process.stdin.write(request)
        process.stdin.close()
        return process

    def launcher(self) -> str:
        file = self.folder / "cpi"
        if not file.exists():
            file.write_text(program(str(self.config), str(self.socket)))
            file.chmod(0o755)
        return str(file)

    @contextmanager
    def core(self) -> Iterator[subprocess.Popen[bytes]]:
        process = self.start_core()
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_S)

    def start_core(self) -> subprocess.Popen[bytes]:
        source = str(Path(sys.modules["coterie"].__file__ or "").parents[1])
        words = [sys.executable, "-m", "coterie.bosh.main", "serve", "--config", str(self.config)]
        with self.log.open("ab") as log:
            process = subprocess.Popen(words, env={**os.environ, "PYTHONPATH": source}, stderr=log)
        until = time.monotonic() + PATIENCE_S
        while not self.socket.exists():
            assert process.poll() is None, "the core process ended"
            assert time.monotonic() < until
            time.sleep(0.02)
        return process

    # -- sentences of a Director --

    def stemcell(self) -> str:
        made: str = self.call("create_stemcell", str(self.image), {})
        return made

    def vm_request(self, agent_id: str, stemcell: str, *, group: str | None = None, **more: Any) -> bytes:
        return self.request("create_vm", *self.vm_arguments(agent_id, stemcell, group=group, **more))

    def vm_arguments(self, agent_id: str, stemcell: str, *, group: str | None = None, **more: Any) -> list[Any]:
        bosh: dict[str, Any] = {"password": "s3cret-hash"}
        if group:
            bosh |= {"group": group, "groups": ["bosh", "dep", more.pop("job", "web"), "bosh-dep", "dep-web", group]}
        return [agent_id, stemcell, {**self.size, **more}, self.networks, [], {"bosh": bosh}]

    def create_vm(self, agent_id: str, stemcell: str, **more: Any) -> str:
        cid: str = self.call("create_vm", *self.vm_arguments(agent_id, stemcell, **more))[0]
        return cid

    def cleanup(self, known: Any = None, *, dry_run: bool = False, **options: Any) -> Any:
        told = {"dry_run": dry_run, "grace_s": 0, "cap": 1000, **options}
        return self.call("cleanup", DIRECTOR, known, told)

    def cleanup_by_list(self, known: dict[str, list[str]]) -> Any:
        """With the count of what the list lacks, which an operator gives after a check of the list."""
        with self.ledger() as ledger, ledger.read() as tx:
            rows = tx.execute(sa.select(objects).where(objects.c.state.in_(("live", "kept")))).all()
        lacking = Counter(row.kind for row in rows if row.cid not in known.get(row.kind, ()))
        return self.cleanup(known, left_out=lacking, cap_percent=100)

    # -- looking --

    @property
    def account(self) -> Account:
        return open_account(open_datacenter(self.folder / "sandbox.db"), "lab", operator=True)

    def inventory(self) -> dict[str, list[str]]:
        """Everything in the cloud, by kind; kinds without objects are left out."""
        found = {
            kind: [item.id for item in listing(self.account, EVERYTHING).items] for kind, listing in _LISTS.items()
        }
        return {kind: ids for kind, ids in found.items() if ids}

    @contextmanager
    def ledger(self) -> Iterator[Ledger]:
        opened = Ledger.open(f"sqlite:///{self.ledger_file}")
        try:
            yield opened
        finally:
            opened.close()


def heard(process: subprocess.Popen[bytes]) -> bytes:
    """What a started program wrote; it has ended then."""
    assert process.stdout and process.stderr
    with process.stdout, process.stderr:
        answer = process.stdout.read()
        said = process.stderr.read()
    assert process.wait(PATIENCE_S) == 0, said
    return answer


def result(raw: bytes) -> Any:
    envelope = json.loads(raw)
    if envelope["error"]:
        raise CpiFailure(envelope["error"])
    return envelope["result"]
