"""An admin of the API writes a cloud config that uses what a conductor's machine has: its role, its environment, files
of its user, its private key. Only what the machine's own settings name is used, and nothing is sent elsewhere."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from coterie.conductor.process import Conductor
from coterie.director.context import AppContext
from coterie.seal.keys import KeyFile
from tests.director.access.conftest import Make

AZURE = {"tenant_id": "t", "client_id": "c", "subscription_id": "s", "resource_group": "g", "location": "westeurope"}
AZURE |= {"ssh_public_key": "ssh-ed25519 AAAA"}
AWS = {"region": "eu-central-1"}
GCP = {"project": "p", "region": "europe-west1"}


class Attacker:
    """Listens, and knows whether anything came."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def heard(self) -> bool:
        with suppress(BlockingIOError):
            self._listener.accept()[0].close()
            return True
        return False

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def attacker() -> Iterator[Attacker]:
    made = Attacker()
    yield made
    made.close()


@pytest.fixture
def check(context: AppContext, person: Make) -> Iterator[Callable[..., str]]:
    """What a check of a cloud with these properties answers, where a conductor allows these sources."""
    made: list[Conductor] = []

    def check_cloud(driver: str, properties: dict[str, Any], *sources: str) -> str:
        folder, admin = context.state_folder.path, person("admin")
        keys = KeyFile(folder / "conductor.key")
        conductor = Conductor(
            context.ledger, "test", state_folder=folder, workers=1, keys=keys, credential_sources=sources
        )
        conductor.start()
        made.append(conductor)
        cloud = {"name": "lab", "driver": driver, "properties": {"retries": 0, "connect_timeout": 2, **properties}}
        config = {"clouds": [cloud], "azs": [{"name": "z1", "cloud": "lab"}]}
        answer = admin.send("PUT", "/v1/cloud-config", {"text": json.dumps(config)})
        if answer.status != 200:
            return answer.text
        return admin.send("POST", "/v1/clouds/lab/check").text

    yield check_cloud
    for one in made:
        one.drain(10)


def _attacks(key: Path, url: str) -> dict[str, tuple[str, dict[str, Any], str]]:
    """Driver, properties, and the source that they name."""
    file = str(key)
    secure = url.replace("http:", "https:")
    clouds = key.with_name("clouds.yaml")
    auth = {"auth_url": "https://keystone.example.org/v3", "username": "u", "password": "canary", "project_name": "p"}
    clouds.write_text(json.dumps({"clouds": {"mine": {"auth": auth}}}))
    federation = {"credentials_source": "federation", "credentials_file": file}
    elsewhere = {"authority": secure, "endpoint": url}
    return {
        "azure-token": ("azure", AZURE | elsewhere | {"federated_token_file": file}, file),
        "azure-certificate": ("azure", AZURE | elsewhere | {"certificate": file}, file),
        "azure-role": ("azure", AZURE | elsewhere | {"managed_identity": True}, "instance"),
        "aws-environment": ("aws", AWS | {"endpoint": url, "credentials_source": "environment"}, "environment"),
        "aws-role": ("aws", AWS | {"endpoint": url, "credentials_source": "instance"}, "instance"),
        "aws-profile": ("aws", AWS | {"endpoint": url, "profile": "prod"}, "profile:prod"),
        "gcp-role": ("gcp", GCP | {"endpoint": url, "credentials_source": "metadata"}, "instance"),
        "gcp-federation": ("gcp", GCP | {"endpoint": url, **federation}, file),
        "gcp-universe": ("gcp", GCP | {"universe_domain": "example.org", "credentials_source": "metadata"}, "instance"),
        "incus-socket": ("incus", {"socket": f"{key.parent}/docker.sock"}, f"{key.parent}/docker.sock"),
        "openstack-file": ("openstack", {"auth_url": url, "cloud": "mine", "clouds_file": str(clouds)}, str(clouds)),
    }


NAMES = (
    *("azure-token", "azure-certificate", "azure-role", "aws-environment", "aws-role", "aws-profile"),
    *("gcp-role", "gcp-federation", "gcp-universe", "incus-socket", "openstack-file"),
)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("allowed", [False, True])
def test_credentials_of_the_machine_are_neither_used_nor_sent_elsewhere(
    name: str,
    allowed: bool,
    context: AppContext,
    attacker: Attacker,
    check: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where the operator of the machine lets clouds use them."""
    folder = context.state_folder.path
    KeyFile(folder / "conductor.key").ensure()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIACANARY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(_profile(folder)))
    driver, properties, source = _attacks(folder / "conductor.key", attacker.url)[name]
    answer = check(driver, properties, *([source] if allowed else []))
    assert not attacker.heard()
    if allowed and driver == "incus":
        assert "credential_sources" not in answer, answer  # a socket says itself where requests go
    elif allowed:
        assert "decides where they are sent" in answer, answer
    else:
        assert "credential_sources" in answer, answer


def _profile(folder: Path) -> Path:
    file = folder / "aws-config"
    file.write_text("[profile prod]\naws_access_key_id = AKIACANARY\naws_secret_access_key = canary\n")
    return file
