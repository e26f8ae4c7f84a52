"""The BOSH release: built without the bosh program, its job rendered by ERB, its bin/cpi run as a Director runs it."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
import time
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest
from peers.cloudstack_bed import CloudstackBed
from ruamel.yaml import YAML

from coterie.bosh.config import OWN, Groups, Publish, Registry
from coterie.cpi.contract import Runtime
from coterie.cpi.load import open_cloud

ROOT = Path(__file__).parents[2]
RELEASE = ROOT / "deploy" / "bosh-release"
PROPERTIES = {
    "endpoint": "https://cloud.example.org/client/api",
    "state_timeout": 60,
    "state_timeout_volume": 60,
    "stemcell_public_visibility": True,
    "proxy_port": 3128,
    "expunge": "always",
    "publish_mode": "server",
}
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
DIRECTOR = "6f0d5a52-9a3c-4c55-b7a1-0c6b6d1f2e11"


@dataclass(frozen=True, slots=True)
class Installed:
    """What a stemcell or create-env has after compiling the package: folders of packages and jobs."""

    tarball: Path
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        path = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        return {**path, "BOSH_PACKAGES_DIR": f"{self.folder}/packages", "BOSH_JOBS_DIR": f"{self.folder}/jobs"}

    def render(self, properties: dict[str, Any]) -> Path:
        given = self.folder / "properties.json"
        given.write_text(json.dumps(properties))
        target = self.folder / "jobs" / "coterie_cpi"
        source = RELEASE / "jobs" / "coterie_cpi"
        subprocess.run(["ruby", str(RELEASE / "render.rb"), str(source), str(given), str(target)], check=True)
        return target

    def cpi(self, method: str, *arguments: Any) -> dict[str, Any]:
        request = {"method": method, "arguments": arguments, "context": {"director_uuid": DIRECTOR}, "api_version": 2}
        done = subprocess.run(
            [str(self.folder / "jobs/coterie_cpi/bin/cpi")],
            input=json.dumps(request).encode(),
            env=self.environment,
            capture_output=True,
            timeout=150,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        envelope: dict[str, Any] = json.loads(done.stdout)
        return envelope


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("r")
    tarball = folder / "release.tgz"
    subprocess.run(
        [sys.executable, str(RELEASE / "build.py"), "--python", PYTHON, "--output", str(tarball)],
        check=True,
        cwd=folder,
    )
    made = Installed(tarball, folder)
    _compile(made)
    return made


def _compile(made: Installed) -> None:
    """As the agent does: unpack the package, run its packaging script with a target."""
    unpack(made.tarball, made.folder / "release")
    unpack(made.folder / "release/packages/coterie_cpi.tgz", made.folder / "source")
    target = made.folder / "packages" / "coterie_cpi"
    target.mkdir(parents=True)
    env = {**made.environment, "BOSH_INSTALL_TARGET": str(target), "COTERIE_PYTHON": sys.executable}
    subprocess.run(["/bin/sh", "-e", "packaging"], cwd=made.folder / "source", env=env, check=True)


def unpack(tarball: Path, folder: Path) -> None:
    with tarfile.open(tarball) as tar:
        tar.extractall(folder, filter="data")


def sandbox(installed: Installed) -> dict[str, Any]:
    return {
        "driver": "sandbox",
        "ledger": str(installed.folder / "ledger.db"),
        "socket": str(installed.folder / "cpi.sock"),
        "properties": {"state": str(installed.folder / "sandbox.db")},
    }


def test_the_manifest_says_what_is_inside(installed: Installed) -> None:
    manifest = YAML(typ="safe").load((installed.folder / "release/release.MF").read_text())
    assert manifest["name"] == "coterie-cpi"
    for kind in ("jobs", "packages"):
        (entry,) = manifest[kind]
        content = (installed.folder / f"release/{kind}/{entry['name']}.tgz").read_bytes()
        assert entry["sha1"] == f"sha256:{hashlib.sha256(content).hexdigest()}"


def test_the_job_carries_its_spec_and_every_template_of_it(installed: Installed) -> None:
    unpack(installed.folder / "release/jobs/coterie_cpi.tgz", installed.folder / "job")
    spec = YAML(typ="safe").load((installed.folder / "job/job.MF").read_text())
    for template in spec["templates"]:
        assert (installed.folder / "job/templates" / template).is_file()
    assert (installed.folder / "job/monit").is_file()
    assert spec["packages"] == ["coterie_cpi"]


def test_bin_cpi_works_with_the_scrubbed_environment(installed: Installed) -> None:
    installed.render(sandbox(installed))
    assert installed.cpi("info")["result"]["api_version"] == 3
    image = installed.folder / "image"
    image.write_bytes(b"image")
    stemcell = installed.cpi("create_stemcell", str(image), {})["result"]
    networks = {"default": {"type": "dynamic", "cloud_properties": {}}}
    size = {"cpu": 1, "ram_mb": 512, "disk_mb": 1024, "zone": "z1"}
    made = installed.cpi("create_vm", "agent", stemcell, size, networks, [], {"bosh": {"group": "a-b-c"}})["result"]
    assert installed.cpi("has_vm", made[0])["result"] is True
    assert installed.cpi("delete_vm", made[0])["error"] is None
    assert installed.cpi("has_vm", made[0])["result"] is False


def test_bin_cpi_speaks_to_cloudstack(installed: Installed, tmp_path: Path) -> None:
    bed = CloudstackBed(tmp_path)
    try:
        places = {"ledger": str(tmp_path / "ledger.db"), "socket": str(tmp_path / "none.sock")}
        own = {name: bed.properties()[name] for name in ("endpoint", "api_key", "secret_access_key", "default_zone")}
        installed.render({**places, "cloudstack": own, "properties": {"poll_s": 0.05}})
        assert "cloudstack-qcow2" in installed.cpi("info")["result"]["stemcell_formats"]
        disk = installed.cpi("create_disk", 1024, {}, None)["result"]
        assert installed.cpi("has_disk", disk)["result"] is True
        assert installed.cpi("delete_disk", disk)["error"] is None
    finally:
        bed.close()


def test_the_core_process_of_the_package(installed: Installed) -> None:
    rendered = installed.render(sandbox(installed))
    package = installed.folder / "packages/coterie_cpi"
    words = [
        str(package / "bin/python"),
        "-IS",
        str(package / "cpi.py"),
        "serve",
        "--config",
        f"{rendered}/config/cpi.json",
    ]
    core = subprocess.Popen(words, env=installed.environment, stderr=subprocess.DEVNULL)
    try:
        give_up = time.monotonic() + 150
        while not (installed.folder / "cpi.sock").exists():
            assert core.poll() is None and time.monotonic() < give_up
            time.sleep(0.02)
        (rendered / "config/cpi.json").unlink()
        assert installed.cpi("has_vm", "i-1")["result"] is False
    finally:
        core.terminate()
        assert core.wait(150) == 0


def test_the_properties_of_cloudstack_reach_the_configuration(installed: Installed) -> None:
    spec = YAML(typ="safe").load((RELEASE / "jobs/coterie_cpi/spec").read_text())
    names = [name.partition(".")[2] for name in spec["properties"] if name.startswith("cloudstack.")]
    given = {name: PROPERTIES.get(name, f"value of {name}") for name in names}
    rendered = installed.render({"cloudstack": given, "groups": {"policy": "anti-affinity"}, "cloud": "west"})
    config = json.loads((rendered / "config/cpi.json").read_text())
    assert config["properties"] == given
    runtime = Runtime("director", None)  # type: ignore[arg-type] # construction asks no coordinator
    open_cloud("cloudstack", "west", given, runtime)
    assert config["driver"] == "cloudstack"
    assert config["cloud"] == "west"
    assert config["groups"] == {"compilation": False, "patience_s": 600, "policy": "anti-affinity"}


def test_any_driver_gets_its_properties_and_no_others(installed: Installed) -> None:
    given = {"driver": "shelf", "cloud": "west", "properties": {"folder": "/shelf"}, "cloudstack": {"api_key": "k"}}
    config = json.loads((installed.render(given) / "config/cpi.json").read_text())
    assert (config["driver"], config["properties"]) == ("shelf", {"folder": "/shelf"})


def test_the_scripts_are_shell_that_parses(installed: Installed) -> None:
    rendered = installed.render(sandbox(installed))
    for script in (rendered / "bin/cpi", rendered / "bin/ctl", RELEASE / "packages/coterie_cpi/packaging"):
        subprocess.run(["/bin/sh", "-n", str(script)], check=True)


def test_the_spec_has_every_key_of_the_configuration() -> None:
    properties = YAML(typ="safe").load((RELEASE / "jobs/coterie_cpi/spec").read_text())["properties"]
    groups = {f"groups.{one.name}" for one in fields(Groups)}
    assert ({*OWN, "properties"} - {"groups"}) | groups <= set(properties)
    for name, form in (("publish_server", Publish), ("registry", Registry)):
        assert all(one.name in properties[name]["description"] for one in fields(form)), name


@pytest.mark.parametrize("driver", ["cloudstack", "openstack", "vsphere", "sandbox"])
def test_the_package_has_what_each_driver_imports(installed: Installed, driver: str) -> None:
    package = installed.folder / "packages/coterie_cpi"
    script = (
        f"import sys; sys.path.insert(0, {str(package / 'site')!r})\n"
        f"import coterie.cpi.drivers.{driver}.driver\n"
        "import pyVmomi, keystoneauth1.session, psycopg"
    )
    subprocess.run([str(package / "bin/python"), "-IS", "-c", script], check=True)


def test_a_processor_without_a_python_is_refused_with_the_reason(installed: Installed, tmp_path: Path) -> None:
    (tmp_path / "coterie_cpi/python").mkdir(parents=True)
    (tmp_path / "coterie_cpi/python/python-linux-riscv.tar.gz").touch()
    env = {**installed.environment, "BOSH_INSTALL_TARGET": str(tmp_path)}
    script = str(RELEASE / "packages/coterie_cpi/packaging")
    done = subprocess.run(["/bin/sh", script], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 1
    assert "holds no Python for" in done.stderr


def test_a_python_without_wheels_is_refused_with_the_remedy(installed: Installed, tmp_path: Path) -> None:
    (tmp_path / "coterie_cpi/wheels").mkdir(parents=True)
    env = {**installed.environment, "BOSH_INSTALL_TARGET": str(tmp_path), "COTERIE_PYTHON": sys.executable}
    script = str(RELEASE / "packages/coterie_cpi/packaging")
    done = subprocess.run(["/bin/sh", script], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 1
    assert "build it with --python" in done.stderr


@pytest.mark.full
def test_building_again_gives_the_same_tarball(installed: Installed, tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for wheel in (installed.folder / "source/coterie_cpi/wheels").rglob("*.whl"):
        if not wheel.name.startswith("coterie-"):
            (wheels / wheel.name).write_bytes(wheel.read_bytes())
    words = [
        sys.executable,
        str(RELEASE / "build.py"),
        "--python",
        PYTHON,
        "--wheels",
        str(wheels),
        "--output",
        str(tmp_path / "again.tgz"),
    ]
    subprocess.run(words, check=True)
    assert (tmp_path / "again.tgz").read_bytes() == installed.tarball.read_bytes()
