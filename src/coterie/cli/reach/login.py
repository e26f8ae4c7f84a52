"""How to log in to a node: its address, and what the `ssh` part of its deployment's manifest says."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from coterie.client import Client
from coterie.errors import NotFound

_NOT_IN_ALIAS = re.compile(r"[^A-Za-z0-9._-]")
# A cloud says it, and it becomes an argument of ssh, a line of its settings and a template of Ansible.
_ADDRESS = re.compile(r"[A-Za-z0-9:][A-Za-z0-9_.:-]*")


@dataclass(frozen=True, slots=True)
class Login:
    node: Mapping[str, Any]
    address: str
    port: int = 22
    user: str | None = None
    jump_host: str | None = None
    identity_file: str | None = None

    @property
    def name(self) -> str:
        deployment = self.node["deployment"]
        return f"{deployment}/{self.node['name']}" if deployment else str(self.node["name"])

    @property
    def key_alias(self) -> str:
        """Under which ssh remembers the host key: of the VM, since a recreated node has another key."""
        return _NOT_IN_ALIAS.sub("-", str(self.node["vm_cid"] or self.node["uuid"]))


class Logins:
    """Reads each deployment's manifest once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._manifests: dict[str, Mapping[str, Any]] = {}

    def find(self, node: Mapping[str, Any]) -> Login:
        found = self._login(node)
        if found is None:
            raise NotFound(
                f"node {node['name']} has no address to log in to",
                why=f"it is {node['state']}",
                remedy="see `coterie nodes show`; the network under `ssh` in the manifest must be one of the node's, "
                "and its address an IP address or a host name",
            )
        return found

    def find_all(self, nodes: Iterable[Mapping[str, Any]]) -> list[Login]:
        """Of those that have an address."""
        return [one for one in map(self._login, nodes) if one is not None]

    def _login(self, node: Mapping[str, Any]) -> Login | None:
        from coterie.manifest.schema.ssh import Ssh  # a heavy import, needed for the check of what is run

        ssh = Ssh.model_validate(self._wanted(node))
        addresses = node["addresses"]
        address = addresses.get(ssh.network) if ssh.network else next(iter(addresses.values()), None)
        if not address or not _ADDRESS.fullmatch(str(address)):
            return None
        return Login(node, str(address), ssh.port, ssh.user, ssh.jump_host, ssh.identity_file)

    def _wanted(self, node: Mapping[str, Any]) -> Mapping[str, Any]:
        """The group's own part counts as a whole, not key by key."""
        if not node["deployment"]:
            return {}
        manifest = self._manifest(node["deployment"])
        groups = {one.get("name"): one for one in manifest.get("instance_groups") or ()}
        own = groups.get(node["instance_group"], {}).get("ssh")
        return dict(own or manifest.get("ssh") or {})

    def _manifest(self, deployment: str) -> Mapping[str, Any]:
        if deployment not in self._manifests:
            from ruamel.yaml import YAML

            text = self._client.deployments.manifest(deployment)
            self._manifests[deployment] = YAML(typ="safe", pure=True).load(text) or {}
        return self._manifests[deployment]
