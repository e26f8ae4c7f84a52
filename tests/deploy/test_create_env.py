"""`bosh create-env` with our release, the real CLI and real agents, on the sandbox and on CloudStack's emulator: a
whole life, and a kill inside create_vm."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from peers.cloudstack_bed import CloudstackBed
from ruamel.yaml import YAML

from coterie.sandbox import disks, faults, images
from coterie.sandbox.accounts import open_account
from coterie.sandbox.datacenter import Account, open_datacenter
from coterie.sandbox.pages import EVERYTHING
from peers import official_stemcells
from tests.deploy.bosh_cli import BOSH, bosh
from tests.peers.bosh.guests import Guests
from tests.peers.certificates import Authority

pytestmark = pytest.mark.skipif(not BOSH, reason="`make test-bosh` builds the bosh CLI and runs this")
PATIENCE_S = 1200.0  # the package is compiled anew in each environment
PORT = 6868


@dataclass
class Cloud:
    """`address`: of the machine. `formats`: the official stemcell that fits."""

    driver: str
    properties: dict[str, Any]
    vm: dict[str, Any]
    network: dict[str, Any]
    account: Account
    address: str
    format: str | None


@dataclass
class Environment:
    """One manifest with its state file; each change is written and applied by a real create-env."""

    folder: Path
    cloud: Cloud
    guests: Guests
    release: Path
    authority: Authority
    certificate: tuple[Path, Path]
    stemcell: str = "1"
    disk_mb: int = 1024
    formats: tuple[str, ...] = ("sandbox",)

    def create(self) -> str:
        return self._run("create-env")

    def delete(self) -> str:
        return self._run("delete-env")

    def start(self, verb: str) -> subprocess.Popen[bytes]:
        """In a session of its own, so that it can be killed with the CPI that it runs."""
        words = [
            f"{BOSH}/bosh",
            "--non-interactive",
            "--tty",
            verb,
            str(self._manifest()),
            "--state",
            str(self.state_file),
        ]
        environment = {**os.environ, "HOME": str(self.folder)}
        return subprocess.Popen(words, env=environment, stdout=-1, stderr=-2, cwd=self.folder, start_new_session=True)

    @property
    def state_file(self) -> Path:
        return self.folder / "state.json"

    @property
    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.state_file.read_text())
        return found

    def inventory(self) -> dict[str, list[str]]:
        account = self.cloud.account
        return {
            "vm": [vm.id for vm in self.guests.vms],
            "disk": [one.id for one in disks.list_disks(account, EVERYTHING).items],
            "image": [one.id for one in images.list_images(account, EVERYTHING).items],
        }

    def _run(self, verb: str) -> str:
        process = self.start(verb)
        said = process.communicate(timeout=PATIENCE_S)[0].decode()
        assert process.returncode == 0, f"{said}\n{self.guests.log()}"
        (self.folder / "transcript").open("a").write(f"$ bosh {verb} manifest.yml --state state.json\n{said}\n")
        return said

    def _manifest(self) -> Path:
        address = self.cloud.address
        certificate, key = (file.read_text() for file in self.certificate)
        mbus = f"https://mbus:mbus-password@{address}:{PORT}"
        subnet = {"range": f"{address}/16", "gateway": address.rpartition(".")[0] + ".1", "dns": [address]}
        document = {
            "name": "lone",
            "properties": {},
            "releases": [
                {"name": "coterie-cpi", "url": f"file://{self.release}"},
                {"name": "nothing", "url": f"file://{self._empty_release()}"},
            ],
            "resource_pools": [
                {
                    "name": "vms",
                    "network": "default",
                    "stemcell": {"url": f"file://{self._stemcell()}"},
                    "cloud_properties": self.cloud.vm,
                    "env": {"bosh": {"mbus": {"cert": {"certificate": certificate, "private_key": key}}}},
                }
            ],
            "disk_pools": [{"name": "disks", "disk_size": self.disk_mb, "cloud_properties": {}}],
            "networks": [
                {"name": "default", "type": "manual", "subnets": [{**subnet, "cloud_properties": self.cloud.network}]}
            ],
            "instance_groups": [
                {
                    "name": "lone",
                    "instances": 1,
                    "jobs": [{"name": "nothing", "release": "nothing", "properties": {}}],
                    "resource_pool": "vms",
                    "persistent_disk_pool": "disks",
                    "networks": [{"name": "default", "static_ips": [address]}],
                }
            ],
            "cloud_provider": {
                "template": {"name": "coterie_cpi", "release": "coterie-cpi"},
                "mbus": mbus,
                "cert": {"ca": self.authority.ca.read_text()},
                "properties": {
                    "driver": self.cloud.driver,
                    "ledger": str(self.folder / "ledger.db"),
                    "lease_s": 2,
                    "properties": {
                        **self.cloud.properties,
                        "agent": {"mbus": mbus, "ntp": [], "blobstore": {"provider": "local", "options": BLOBS}},
                    },
                },
            },
        }
        file = self.folder / "manifest.yml"
        file.write_text(json.dumps(document))
        return file

    def _stemcell(self) -> Path:
        """As the official builder writes it, but for the image's content."""
        manifest: dict[str, Any] = {"name": "sandbox-lone", "cloud_properties": {"name": "lone", "version": "1"}}
        if self.cloud.format:
            manifest = official_stemcells.manifest(self.cloud.format)
        else:
            manifest |= {"stemcell_formats": list(self.formats), "operating_system": "ubuntu-jammy"}
        manifest |= {"api_version": 3, "version": self.stemcell, "sha1": "da39a3ee5e6b4b0d3255bfef95601890afd80709"}
        text = io.StringIO()
        YAML().dump(manifest, text)
        image = self.folder / "image"
        self.write_image(image)
        return _tarball(self.folder / f"stemcell-{self.stemcell}.tgz", {"stemcell.MF": text.getvalue()}, image)

    def write_image(self, path: Path) -> None:
        path.write_bytes(f"image {self.stemcell}".encode())

    def _empty_release(self) -> Path:
        file = self.folder / "nothing.tgz"
        if not file.exists():
            source = self.folder / "nothing"
            for place, text in {
                "config/final.yml": "name: nothing\n",
                "config/blobs.yml": "{}\n",
                "jobs/nothing/spec": "name: nothing\ntemplates: {}\npackages: []\nproperties: {}\n",
                "jobs/nothing/monit": "",
            }.items():
                (source / place).parent.mkdir(parents=True, exist_ok=True)
                (source / place).write_text(text)
            (source / "src").mkdir()
            (source / "packages").mkdir()
            bosh("create-release", "--force", "--tarball", str(file), cwd=source)
        return file


BLOBS = {"blobstore_path": "/nonexistent"}  # create-env hands all blobs to the agent itself


def _tarball(file: Path, texts: dict[str, str], image: Path) -> Path:
    with tarfile.open(file, "w:gz") as packed:
        for name, text in texts.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            packed.addfile(entry, io.BytesIO(text.encode()))
        packed.add(image, "image")
    return file


@pytest.fixture(params=["sandbox", "cloudstack"])
def environment(request: pytest.FixtureRequest, tmp_path: Path, tarball: Path) -> Iterator[Environment]:
    bed = CloudstackBed(tmp_path) if request.param == "cloudstack" else None
    cloud = _cloudstack(bed) if bed else _sandbox(tmp_path)
    with Guests(cloud.account, f"{BOSH}/bosh-agent", tmp_path / "guests").watched() as guests:
        authority = Authority(tmp_path)
        certificate = authority.issue("machine", cloud.address)
        yield Environment(tmp_path, cloud, guests, tarball, authority, certificate)
    if bed:
        bed.close()


def _sandbox(folder: Path) -> Cloud:
    state = folder / "sandbox.db"
    account = open_account(open_datacenter(state), "sandbox", operator=True)
    size = {"cpu": 1, "ram_mb": 512, "disk_mb": 1024, "zone": "z1"}
    properties = {"state": str(state), "settle_s": 0.5}
    return Cloud("sandbox", properties, size, {}, account, "127.9.0.5", None)


def _cloudstack(bed: CloudstackBed) -> Cloud:
    account = open_account(bed.datacenter, bed.account, operator=True)
    properties = {**bed.properties(), "settle_s": 0.5}
    return Cloud(
        "cloudstack", properties, bed.vm_properties("z1"), {"name": "net-z1"}, account, "127.40.0.9", "openstack-qcow2"
    )


def test_a_whole_life(environment: Environment) -> None:
    before = environment.inventory()
    environment.create()
    (first,) = environment.inventory()["vm"]
    disk = environment.state["disks"][0]["cid"]
    assert "No deployment, stemcell or release changes" in environment.create()
    assert environment.inventory()["vm"] == [first]
    environment.stemcell = "2"
    environment.create()
    (second,) = environment.inventory()["vm"]
    assert second != first
    assert [one["cid"] for one in environment.state["disks"]] == [disk]
    environment.disk_mb = 2048
    environment.create()
    (larger,) = environment.state["disks"]
    assert (larger["cid"] != disk, larger["size"]) == (True, 2048)
    environment.delete()
    assert environment.inventory() == before


@pytest.mark.parametrize("whom", ["the CPI", "both"])
def test_killed_inside_create_vm_the_next_run_goes_on(environment: Environment, whom: str) -> None:
    before = environment.inventory()
    faults.add(
        environment.cloud.account.datacenter.store, "create_vm", "slow-build", times=1, ms=5000
    )  # no answer before
    process = environment.start("create-env")
    _kill_in_create_vm(environment, process, whom)
    process.communicate(timeout=PATIENCE_S)
    assert "current_vm_cid" not in environment.state or not environment.state["current_vm_cid"]
    environment.create()
    (vm,) = environment.inventory()["vm"]
    assert environment.state["current_vm_cid"].endswith(vm.removeprefix("vm-"))
    environment.delete()
    assert environment.inventory() == before


def _kill_in_create_vm(environment: Environment, process: subprocess.Popen[bytes], whom: str) -> None:
    """Once the machine is in the cloud, and as soon as possible: before the CPI has answered."""
    until = time.monotonic() + PATIENCE_S
    while not environment.guests.vms:
        assert process.poll() is None, process.communicate()[0].decode()
        assert time.monotonic() < until
        time.sleep(0.002)
    for pid in _family(process.pid) if whom == "both" else _family(process.pid)[1:]:
        os.kill(pid, signal.SIGKILL)


def _family(pid: int) -> list[int]:
    """The process and all that it started."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        children = task / "children"
        found += [one for child in children.read_text().split() for one in _family(int(child))]
    return found
