"""`bosh create-env` on the real Incus cluster: the real CLI, our release, and the real agent inside each guest."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from peers.incus_bed import CLUSTER, IncusBed

from tests.deploy.bosh_cli import BOSH
from tests.deploy.test_create_env import Cloud, Environment, test_a_whole_life  # noqa: F401  # it runs here, too
from tests.peers.certificates import Authority
from tests.peers.incus.agent_image import build_with_agent

pytestmark = [pytest.mark.incus, pytest.mark.skipif(not BOSH, reason="`make test-bosh` builds the bosh CLI")]
ADDRESS = f"{CLUSTER.guests}.202.5"


class Guest:
    """The machine of the environment, as the tests of other clouds have it: here the agent needs no help."""

    vms: tuple[Any, ...] = ()

    def log(self) -> str:
        """What the agent said, for the message of a test that fails."""
        try:
            with urllib.request.urlopen(f"http://{ADDRESS}/agent.log", timeout=5) as answer:
                return str(answer.read().decode("utf-8", "replace")[-6000:])
        except OSError as error:
            return f"the guest at {ADDRESS} does not answer: {error}"


@dataclass
class IncusEnvironment(Environment):
    bed: IncusBed | None = None
    formats: tuple[str, ...] = ("incus-tar",)

    def inventory(self) -> dict[str, list[str]]:
        assert self.bed is not None
        found: dict[str, list[str]] = {"vm": [], "disk": [], "image": []}
        for kind, cid in sorted(self.bed.inventory()):
            found.setdefault(kind, []).append(cid)
        return found

    def write_image(self, path: Path) -> None:
        build_with_agent(path, Path(BOSH) / "bosh-agent", self.stemcell)


@pytest.fixture
def environment(tmp_path: Path, tarball: Path) -> Iterator[IncusEnvironment]:
    bed = IncusBed(tmp_path)
    properties = {**bed.properties(), "socket": CLUSTER.socket(), "settle_s": 0.5}
    network = {"network": properties["default_network"]}
    account: Any = None
    cloud = Cloud("incus", properties, bed.vm_properties("z1"), network, account, ADDRESS, None)
    authority = Authority(tmp_path)
    guests: Any = Guest()
    certificate = authority.issue("machine", ADDRESS)
    yield IncusEnvironment(tmp_path, cloud, guests, tarball, authority, certificate, bed=bed)
    bed.close()
